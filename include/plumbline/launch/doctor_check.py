"""One check of a doctor, and the verdict over all of its checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.judgement import Judgement, broken, judges, met, not_shown
from plumbline.metrics.formatting import format_count, shorten

Status = Literal["ok", "failed", "unknown", "skipped"]


@dataclass(frozen=True)
class DoctorCheck:
    """A check's result. `unknown`: it could not be made, which is no success. `skipped`: it does not apply or is optional, which `found` says; it
    decides nothing. `remedy`: of a failure what repairs it, of an unknown what would decide it."""

    check: str
    status: Status
    found: str
    remedy: str = ""

    @property
    def judgement(self) -> Judgement:
        """Of this check alone; one that was left out is not shown."""
        if self.status in ("ok", "failed"):
            return met(self.found) if self.status == "ok" else broken(self.found)
        return not_shown(self.found, "not checked", self.remedy or "an installation to which it applies")


@dataclass(frozen=True)
class Examination:
    """All checks of a doctor."""

    checks: tuple[DoctorCheck, ...]
    judgement: Judgement


def ok(check: str, detail: str) -> DoctorCheck:
    return DoctorCheck(check, "ok", detail)


def failed(check: str, detail: str, remedy: str) -> DoctorCheck:
    return DoctorCheck(check, "failed", detail, remedy)


def unknown(check: str, detail: str, decides: str) -> DoctorCheck:
    """A check that could not be made. `decides`: what makes it possible."""
    return DoctorCheck(check, "unknown", detail, decides)


def skipped(check: str, why: str) -> DoctorCheck:
    """A check that does not apply here or is optional, as `why` says."""
    return DoctorCheck(check, "skipped", why)


@judges("checks of the doctor")
def judge_checks(checks: Sequence[DoctorCheck]) -> Examination:
    """Broken if a check failed; met if at least one passed and none that applies could not be made."""
    by = {status: [c.check for c in checks if c.status == status] for status in ("ok", "failed", "unknown", "skipped")}
    made = len(checks) - len(by["skipped"])
    rest = f"; {len(by['skipped'])} left out: they do not apply here or are optional" if by["skipped"] else ""
    if by["failed"]:
        undone = f", {len(by['unknown'])} could not be made" if by["unknown"] else ""
        return Examination(tuple(checks), broken(f"{len(by['failed'])} of {format_count(made, 'check')} failed{undone}{rest}"))
    if by["unknown"]:
        missing = f"{len(by['unknown'])} could not be made"
        seen = f"{len(by['ok'])} of {format_count(made, 'check')} passed, none failed{rest}"
        return Examination(tuple(checks), not_shown(seen, missing, shorten(by["unknown"])))
    if not by["ok"]:
        return Examination(tuple(checks), not_shown(f"nothing was checked{rest}", "no check applies", "a check that passes"))
    every = "the one check passed" if made == 1 else f"all {made} checks passed"
    return Examination(tuple(checks), met(f"{every}{rest}"))
