"""What Slack takes in a message: the fields and limits that `slack_sdk` models, and those that only Slack's answers tell.

The answer words are Slack's own (`invalid_blocks`, `msg_too_long`, …); where Slack's documents leave a limit open, the fake refuses
earlier than anybody was seen to be refused.
"""

from __future__ import annotations

import json
import re
from typing import Any

from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.basic_objects import JsonObject
from slack_sdk.models.blocks import (
    ActionsBlock,
    Block,
    ButtonElement,
    ContextBlock,
    DividerBlock,
    HeaderBlock,
    ImageBlock,
    ImageElement,
    MarkdownBlock,
    MarkdownTextObject,
    PlainTextObject,
    SectionBlock,
)

TEXT_LIMIT, UPDATE_LIMIT, BLOCKS_LIMIT, BLOCKS_TEXT_LIMIT = 40_000, 4_000, 50, 13_000
"""Characters in a posted and in an updated message's text, blocks in a message, and characters in all of its blocks together."""
_METADATA_LIMIT = 16_000
_BLOCKS: dict[str, type[Block]] = {
    b.type: b for b in (ActionsBlock, ContextBlock, DividerBlock, HeaderBlock, ImageBlock, MarkdownBlock, SectionBlock)
}
_TEXTS: dict[str, type[JsonObject]] = {"plain_text": PlainTextObject, "mrkdwn": MarkdownTextObject}
_ELEMENTS: dict[str, type[JsonObject]] = {"button": ButtonElement, "image": ImageElement}
_PLACES: dict[str, tuple[str, ...]] = {"actions": ("button",), "context": ("image", "plain_text", "mrkdwn"), "section": ("button", "image")}
_TEXT_OF = {"header": 150, "section": 3000, "context": 3000, "image": 2000, "button": 75, "markdown": 12_000, "field": 2000}


class Refused(Exception):
    """An answer with `ok: false`."""

    def __init__(self, error: str, *details: str, **more: Any) -> None:
        super().__init__(error)
        self.answer: dict[str, Any] = {"ok": False, "error": error, **more}
        if details:
            self.answer["response_metadata"] = {"messages": [f"[ERROR] {detail}" for detail in details]}


def checked(payload: dict[str, Any], *, update: bool = False) -> dict[str, Any]:
    """The parts of a message that the payload names (text, blocks, metadata), each as Slack takes it."""
    made: dict[str, Any] = {"text": payload.get("text") or ""}
    for name in ("blocks", "metadata"):
        if payload.get(name) is not None:
            made[name] = _json(payload[name], f"invalid_{name}_format")
    blocks = made.get("blocks") or []
    if not made["text"] and not blocks:
        raise Refused("no_text")
    if len(made["text"]) > (UPDATE_LIMIT if update else TEXT_LIMIT):
        raise Refused("msg_too_long")
    found = problems(blocks)
    if found:
        raise Refused("invalid_blocks", *found)
    if _characters(blocks) > BLOCKS_TEXT_LIMIT:
        raise Refused("msg_blocks_too_long")
    if made.get("metadata"):
        _check_metadata(made["metadata"])
    return made


def problems(blocks: Any) -> list[str]:
    """What Slack would have against these blocks, each with a pointer to the place; empty if nothing."""
    if not isinstance(blocks, list):
        return ["must be an array [json-pointer:/blocks]"]
    found = [f"no more than {BLOCKS_LIMIT} items allowed [json-pointer:/blocks]"] if len(blocks) > BLOCKS_LIMIT else []
    ids = [b["block_id"] for b in blocks if isinstance(b, dict) and b.get("block_id")]
    found += ["block_id must be unique [json-pointer:/blocks]"] if len(ids) != len(set(ids)) else []
    return found + [f"{problem} [json-pointer:/blocks/{i}]" for i, block in enumerate(blocks) for problem in _block(block)]


def _block(block: Any) -> list[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in _BLOCKS:
        return [f"unsupported type: {kind}"]
    found = _modelled(_BLOCKS[kind], block)
    if kind == "header":
        found += _text(block.get("text"), _TEXT_OF[kind], ("plain_text",))
    elif kind == "section":
        if not block.get("text") and not block.get("fields"):
            found.append("must provide text or fields")
        if block.get("text"):
            found += _text(block["text"], _TEXT_OF[kind])
        for each in block.get("fields") or []:
            found += _text(each, _TEXT_OF["field"])
        if block.get("accessory"):
            found += _element(block["accessory"], _PLACES[kind])
    elif kind in ("context", "actions"):
        elements = block.get("elements") or []
        found += [] if elements else ["no fewer than 1 items allowed [json-pointer:/elements]"]
        for element in elements:
            found += _element(element, _PLACES[kind])
    elif kind == "image":
        found += _picture(block)
        if block.get("title"):
            found += _text(block["title"], _TEXT_OF[kind], ("plain_text",))
    elif kind == "markdown" and not 1 <= len(block.get("text") or "") <= _TEXT_OF[kind]:
        found.append(f"must be between 1 and {_TEXT_OF[kind]} characters")
    return found


def _element(element: Any, allowed: tuple[str, ...]) -> list[str]:
    kind = element.get("type") if isinstance(element, dict) else None
    if kind not in allowed:
        return [f"unsupported type: {kind}"]
    if kind in _TEXTS:
        return _text(element, _TEXT_OF["context"])
    found = _modelled(_ELEMENTS[kind], element)
    if kind == "image":
        return found + _picture(element)
    found += _text(element.get("text"), _TEXT_OF[kind], ("plain_text",))
    if element.get("url") is not None and not re.match(r"https?://[^\s/]+", element["url"]):
        found.append("invalid url [json-pointer:/url]")
    return found


def _picture(element: dict[str, Any]) -> list[str]:
    """An image by its address: Slack's servers fetch it, so an address that only this machine knows is none."""
    found = [] if element.get("alt_text") else ["missing required field: alt_text"]
    if element.get("slack_file"):
        return found
    address = str(element.get("image_url") or "")
    if not re.match(r"https?://(?!localhost|127\.|\[::1\])[^\s/]+", address):
        found.append("downloading image failed [json-pointer:/image_url]")
    return found


def _text(text: Any, limit: int, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")) -> list[str]:
    if not isinstance(text, dict) or text.get("type") not in kinds:
        return [f"expected a text object of type {' or '.join(kinds)}"]
    found = _modelled(_TEXTS[text["type"]], text)
    value = text.get("text")
    if not isinstance(value, str):
        return [*found, "text must be a string"]
    if not value:
        found.append("must be more than 0 characters")
    if len(value) > limit:
        found.append(f"must be less than {limit + 1} characters")
    return found


def _modelled(model: type[JsonObject], given: dict[str, Any]) -> list[str]:
    """What the SDK's own model of this object knows: the names of its fields and its limits."""
    # `emoji` is inherited there by mrkdwn texts, which Slack refuses to have it.
    known = set(model.__new__(model).attributes) - ({"emoji"} if model is MarkdownTextObject else set())
    unknown = sorted(given.keys() - known)
    if unknown:
        return [f"unknown field: {name}" for name in unknown]
    try:
        model(**{name: value for name, value in given.items() if name != "type"}).validate_json()
    except (SlackObjectFormationError, TypeError, AttributeError) as wrong:
        return [str(wrong)]
    return []


def _characters(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_characters(v) for v in value.values())
    if isinstance(value, list):
        return sum(_characters(v) for v in value)
    return len(value) if isinstance(value, str) else 0


def _check_metadata(metadata: Any) -> None:
    if not isinstance(metadata, dict) or metadata.keys() - {"event_type", "event_payload", "entities"}:
        raise Refused("invalid_metadata_format")
    kind, payload = metadata.get("event_type"), metadata.get("event_payload")
    if not isinstance(kind, str) or not kind or not isinstance(payload, dict):
        raise Refused("invalid_metadata_format")
    if len(json.dumps(metadata)) > _METADATA_LIMIT:
        raise Refused("metadata_too_large")


def _json(value: Any, error: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise Refused(error) from None
