"""Names as people sort and group them."""

from __future__ import annotations

import re
from collections.abc import Iterable


def natural_order(name: str) -> list[str | int]:
    """A sort key by which node-2 comes before node-10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def names_by_text(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """(name, text) → the names of each text, each once."""
    names: dict[str, dict[str, None]] = {}
    for name, text in pairs:
        names.setdefault(text, {})[name] = None
    return {text: list(own) for text, own in names.items()}
