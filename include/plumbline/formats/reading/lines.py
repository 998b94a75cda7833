"""Lines of an output, and the objects and numbers in them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from plumbline.formats.reading.foreign_number import ForeignNumber, number

_LONGEST_LINE = 1 << 20
_MOST = 1e24
"""Of floating-point operations a long program counts more than of anything else."""


_PREFIXES = (
    re.compile(r"^\[\d+,\d+\]<std(?:out|err)>: ?"),  # mpirun --tag-output
    re.compile(r"^\[pod/[^\]\s]+\] ?"),  # kubectl logs --prefix
    re.compile(r"^\[(?:default|rank) ?\d+\]: ?"),  # torchrun
    re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z "),  # kubectl logs --timestamps
    re.compile(r"^ *\d{1,5}: ?"),  # srun --label
)
"""What launchers write before the lines of the programs that they start."""
_PREFIXED = 0.8


def without_prefixes(text: str) -> str:
    """The text without a launcher's prefix, of whatever of them nearly all of its lines have."""
    lines = text.splitlines()
    for prefix in _PREFIXES:
        filled = [line for line in lines if line.strip()]
        if filled and sum(prefix.match(line) is not None for line in filled) >= _PREFIXED * len(filled):
            lines = [prefix.sub("", line, count=1) for line in lines]
            text = "\n".join(lines)
    return text


def numbers(value: object, scale: float = 1.0) -> list[float]:
    """The value as a list of one, NaN and infinity too; empty if it is no number. Texts may have thousands separators. ForeignNumber for a finite
    one that no program measures."""
    if value is None or isinstance(value, bool):
        return []
    try:
        text = str(value)
    except ValueError:  # an integer of more digits than Python writes
        raise ForeignNumber(value, f"a number of at most {_MOST:g}") from None
    try:
        found = float(text.replace(",", ""))
    except ValueError:
        return []
    return [number(found * scale, least=-_MOST, most=_MOST) if math.isfinite(found) else found]


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
