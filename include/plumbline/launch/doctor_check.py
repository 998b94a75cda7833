"""One check of a doctor: its status, what was found, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "unknown"]


@dataclass(frozen=True)
class DoctorCheck:
    """`status` unknown: it could not be looked at, or there is nothing to look at; it fails nothing. `remedy` comes with a failure."""

    check: str
    status: Status
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> DoctorCheck:
    """All is well."""
    return DoctorCheck(check, "ok", found)


def failed(check: str, found: str, remedy: str) -> DoctorCheck:
    """A trial would fail, or fail one day; the remedy is for whoever reads it."""
    return DoctorCheck(check, "failed", found, remedy)


def unknown(check: str, found: str) -> DoctorCheck:
    """Nothing can be said, and why."""
    return DoctorCheck(check, "unknown", found)
