"""Lines of an output, and the objects and numbers in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_LONGEST_LINE = 1 << 20


def numbers(value: object, scale: float = 1.0) -> list[float]:
    """The value as a list of one; empty if it is no number. Texts may have thousands separators."""
    try:
        return [] if value is None or isinstance(value, bool) else [float(str(value).replace(",", "")) * scale]
    except ValueError:
        return []


def lines_of(text: str) -> Iterator[str]:
    """The lines of an output, without those above a megabyte."""
    return (line for line in text.splitlines() if len(line) <= _LONGEST_LINE)


def json_object(line: str) -> dict[str, Any] | None:
    """The object that a line holds, also behind a prefix such as a logger's; None if there is none."""
    start = line.find("{")
    if start < 0:
        return None
    try:
        value = json.loads(line[start:])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
