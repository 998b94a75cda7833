"""Names as people sort and group them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import TypeVar

_Text = TypeVar("_Text", bound=Hashable)


def natural_order(name: str) -> list[str | int]:
    """A sort key by which node-2 comes before node-10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def names_by_text(pairs: Iterable[tuple[str, _Text]]) -> dict[_Text, list[str]]:
    """(name, text) → the names of each text, each once. A text may be the value that it is made of."""
    names: dict[_Text, dict[str, None]] = {}
    for name, text in pairs:
        names.setdefault(text, {})[name] = None
    return {text: list(own) for text, own in names.items()}
