"""Slack's own markup taken apart, for showing a message without Slack: bold, code, links, mentions, and the three characters it escapes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"`(?P<code>[^`\n]+)`|(?<![\w*])\*(?P<bold>[^*\n]+)\*(?![\w*])|<(?P<link>[^<>\s|]+)(?:\|(?P<words>[^<>]*))?>")
_MENTION = re.compile(r"@[UW][A-Z0-9]+|!subteam\^(?P<group>S[A-Z0-9]+)|!(?P<all>here|channel|everyone)|#C[A-Z0-9]+")


@dataclass(frozen=True)
class Span:
    """A piece of text and how it looks. `link`: where it leads."""

    text: str
    bold: bool = False
    code: bool = False
    mention: bool = False
    link: str | None = None


def spans(mrkdwn: str) -> list[Span]:
    """The text in pieces, in order."""
    found, at = list[Span](), 0
    for token in _TOKEN.finditer(mrkdwn):
        found += _plain(mrkdwn[at : token.start()])
        at = token.end()
        if token["code"] is not None:
            found.append(Span(unescaped(token["code"]), code=True))
        elif token["bold"] is not None:
            found.append(Span(unescaped(token["bold"]), bold=True))
        elif mention := _MENTION.fullmatch(token["link"]):
            found.append(Span("@" + (mention["group"] or mention["all"] or mention.group()[1:]), mention=True))
        else:
            found.append(Span(unescaped(token["words"] or token["link"]), link=unescaped(token["link"])))
    return found + _plain(mrkdwn[at:])


def unescaped(text: str) -> str:
    """What a person reads for what Slack is sent."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _plain(text: str) -> list[Span]:
    return [Span(unescaped(text))] if text else []
