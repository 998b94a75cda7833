"""Slack's mrkdwn: escape, truncate, and parse for the preview."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slack_sdk.models.blocks import MarkdownTextObject

TRUNCATION_MARK = " … (cut: see the finding)"


def escape(text: str) -> str:
    """Slack's three control characters, so that a version string cannot become a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def truncate(text: str, limit: int) -> str:
    """At most `limit` characters."""
    return text if len(text) <= limit else text[: limit - len(TRUNCATION_MARK)] + TRUNCATION_MARK


def text_object(text: str, limit: int, *, label: str | None = None, bold: bool = False, before: str = "") -> MarkdownTextObject:
    """A text object of at most `limit` characters of plain `text`; `before` is put in front as it is, such as a mention."""
    # Cut before the bold marks go round it, or the cut would take the closing one.
    body = truncate(escape(text), limit - 60 - len(before))
    return MarkdownTextObject(text=before + (f"*{label}*\n{body}" if label else f"*{body}*" if bold else body))


_TOKEN = re.compile(r"`(?P<code>[^`\n]+)`|(?<![\w*])\*(?P<bold>[^*\n]+)\*(?![\w*])|<(?P<link>[^<>\s|]+)(?:\|(?P<words>[^<>]*))?>")
_MENTION = re.compile(r"@[UW][A-Z0-9]+|!subteam\^(?P<group>S[A-Z0-9]+)|!(?P<all>here|channel|everyone)|#C[A-Z0-9]+")


@dataclass(frozen=True)
class StyledSpan:
    """A piece of text and how it looks. `link`: where it leads."""

    text: str
    bold: bool = False
    code: bool = False
    mention: bool = False
    link: str | None = None


def parse_spans(mrkdwn: str) -> list[StyledSpan]:
    """The text in pieces, in order."""
    spans, at = list[StyledSpan](), 0
    for token in _TOKEN.finditer(mrkdwn):
        spans += _plain_span(mrkdwn[at : token.start()])
        at = token.end()
        if token["code"] is not None:
            spans.append(StyledSpan(unescape(token["code"]), code=True))
        elif token["bold"] is not None:
            spans.append(StyledSpan(unescape(token["bold"]), bold=True))
        elif mention := _MENTION.fullmatch(token["link"]):
            spans.append(StyledSpan("@" + (mention["group"] or mention["all"] or mention.group()[1:]), mention=True))
        else:
            spans.append(StyledSpan(unescape(token["words"] or token["link"]), link=unescape(token["link"])))
    return spans + _plain_span(mrkdwn[at:])


def unescape(text: str) -> str:
    """The text that a person reads for text sent to Slack."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _plain_span(text: str) -> list[StyledSpan]:
    return [StyledSpan(unescape(text))] if text else []
