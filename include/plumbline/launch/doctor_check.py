"""One check of a doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "failed", "unknown"]


@dataclass(frozen=True)
class DoctorCheck:
    """A check's result. `unknown`: it could not be checked or does not apply, which fails nothing. A failure has a `remedy`."""

    check: str
    status: Status
    found: str
    remedy: str = ""


def ok(check: str, detail: str) -> DoctorCheck:
    return DoctorCheck(check, "ok", detail)


def failed(check: str, detail: str, remedy: str) -> DoctorCheck:
    return DoctorCheck(check, "failed", detail, remedy)


def unknown(check: str, detail: str) -> DoctorCheck:
    return DoctorCheck(check, "unknown", detail)
