"""A message as people will see it, without any Slack: as a page that looks much like Slack's, or as lines for a terminal."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plumbline.alerts.spans import Span, spans, unescaped

if TYPE_CHECKING:
    from plumbline.alerts.chart import Picture
    from plumbline.alerts.message import Message


_SHOWN = ("header", "section", "context", "divider")


@dataclass(frozen=True)
class Line:
    """One line of a message in a terminal. `kind`: header, text, context or divider."""

    kind: str
    spans: tuple[Span, ...] = ()


def page(message: Message, picture: Picture | None = None) -> str:
    """An HTML page that needs no network: the message and, below it, the chart in its thread. It follows the reader's light or dark.

    ValueError for a block that is not known here: a preview that leaves something out is none.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("plumbline.alerts"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    shown = None if picture is None else base64.b64encode(picture.data).decode()
    return environment.get_template("message.html.j2").render(
        blocks=[_block(b) for b in message.blocks], title=message.text.splitlines()[0], picture=picture, png=shown
    )


def lines(message: Message) -> list[Line]:
    """The message line by line, fields below each other. ValueError for a block that is not known here."""
    found: list[Line] = []
    for block in message.blocks:
        kind = _known(block)
        if kind == "divider":
            found.append(Line("divider"))
        elif kind == "header":
            found.append(Line("header", (Span(block["text"]["text"], bold=True),)))
        elif kind == "context":
            found += _lines("context", [e["text"] for e in block["elements"] if "text" in e])
        else:
            fields = [f["text"].replace("*\n", ":* ", 1) for f in block.get("fields", ())]
            found += _lines("text", [*([block["text"]["text"]] if "text" in block else []), *fields])
    return found


def _lines(kind: str, texts: Sequence[str]) -> list[Line]:
    return [Line(kind, tuple(spans(line))) for text in texts for line in text.split("\n")]


def _known(block: dict[str, Any]) -> str:
    kind = str(block["type"])
    if kind not in _SHOWN or "accessory" in block:
        raise ValueError(
            f'a preview cannot show a block "{kind}"{" with an accessory" if kind in _SHOWN else ""}; expected {", ".join(_SHOWN)}'
        )
    return kind


def _block(block: dict[str, Any]) -> dict[str, Any]:
    """A block with its texts taken apart, for the template."""
    return {
        "type": _known(block),
        "plain": unescaped(block["text"]["text"]) if block["type"] == "header" else "",
        "text": spans(block["text"]["text"]) if block["type"] == "section" and "text" in block else [],
        "fields": [spans(f["text"]) for f in block.get("fields", ())],
        "elements": [spans(e["text"]) for e in block.get("elements", ()) if "text" in e],
    }
