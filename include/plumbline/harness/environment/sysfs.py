"""Read single values from kernel files; None without one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path("/")


def read_text(file: Path) -> str | None:
    """Stripped; None if unreadable or empty."""
    try:
        return file.read_text(errors="replace").strip() or None
    except OSError:
        return None


def read_int(file: Path) -> int | None:
    content = read_text(file)
    try:
        return int(content) if content is not None else None
    except ValueError:
        return None


def read_choice(file: Path) -> str | None:
    """The choice in brackets of a file such as `always [madvise] never`; else the whole content."""
    content = read_text(file)
    if content is None or "[" not in content:
        return content
    return content.split("[", 1)[1].split("]", 1)[0]


def read_size(file: Path) -> int | None:
    """A size such as `48K` in bytes."""
    content = read_text(file)
    if content is None:
        return None
    unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(content[-1])
    digits = content[:-1] if unit else content
    return int(digits) * (unit or 1) if digits.isdigit() else None


def format_ranges(numbers: Iterable[int]) -> str:
    """{0, 1, 2, 5} → `0-2,5`."""
    parts: list[tuple[int, int]] = []
    for item in sorted(set(numbers)):
        if parts and item == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], item)
        else:
            parts.append((item, item))
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
