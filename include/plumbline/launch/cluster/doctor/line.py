"""One line of the doctor: what was looked at, what was found, what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "unknown"]


@dataclass(frozen=True)
class Line:
    """`status` unknown: it could not be looked at, or there is nothing to look at; it fails nothing. `remedy` comes with a failure."""

    check: str
    status: Status
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Line:
    """All is well."""
    return Line(check, "ok", found)


def failed(check: str, found: str, remedy: str) -> Line:
    """A trial would fail, or fail one day; the remedy is for whoever reads it."""
    return Line(check, "failed", found, remedy)


def unknown(check: str, found: str) -> Line:
    """Nothing can be said, and why."""
    return Line(check, "unknown", found)
