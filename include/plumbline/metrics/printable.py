"""Text of other programs without what moves a terminal's cursor, colours its lines, or turns the direction of its letters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Marks that turn letters around, so that a text reads as another one."""
_CONTROL = f"\x00-\x08\x0b-\x1f\x7f-\x9f{_DIRECTIONS}\u200b\u2028\u2029\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
"""Every control character but tab and line feed, and half characters, which no encoding has."""
_STYLE = r"\x1b\[[0-9;]*m"
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor, erasing
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])(?:[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c))?"  # titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]"
)
_UNWANTED = re.compile(f"{_SEQUENCE}|[{_CONTROL}]")
_UNWANTED_OR_STYLE = re.compile(f"(?P<style>{_STYLE})|{_SEQUENCE}|[{_CONTROL}]")
_ESCAPED = re.compile(f"[\x7f-\x9f{_DIRECTIONS}\u200b\u2028\u2029\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]")


def printable(text: str) -> str:
    """The text without control sequences and control characters, other than tabs and ends of lines; the same object where it has none."""
    return _UNWANTED.sub("", text) if _UNWANTED.search(text) else text


def printable_styled(text: str) -> str:
    """The same; colours and other styles stay."""
    return _UNWANTED_OR_STYLE.sub(lambda found: found["style"] or "", text)


def printable_json(written: str) -> str:
    """JSON, in which control characters below a blank are escaped already, with escapes for all others: a reader gets the same values."""
    return _ESCAPED.sub(_escape, written)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def printable_values(value: Any) -> Any:
    """A value as JSON holds it, with each text, and each key of a mapping, as `printable` gives it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(key) if isinstance(key, str) else key: printable_values(each) for key, each in value.items()}
    return [printable_values(each) for each in value] if isinstance(value, list | tuple) else value
