"""A failure of this installation itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from plumbline.findings import provider_finding
from plumbline.findings.types.base import FindingType, Step, register
from plumbline.results.finding import Finding, Severity


@register
class Installation(FindingType):
    id = "installation"
    kinds = ("self",)
    subject = " "
    order = 70
    usual = True
    noun = "problem of this installation"
    nouns = "problems of this installation"
    advice = "Repair"

    def looks(self, finding: Finding) -> list[Step]:
        return [("plumbline doctor", "every part of this installation, with the remedy of what fails")]

    def about(self, finding: Finding) -> list[Step]:
        return [("Part of this installation", finding.subject)]


INSTALLATION = "plumbline"
"""Takes the place of the provider's name."""
FailureCode = Literal[
    "task_failed",
    "dag_unreadable",
    "dag_missing",
    "dag_paused",
    "dag_late",
    "benchmark_missed",
    "review_missing",
    "connection_missing",
    "component_away",
    "finding_unreadable",
    "watch_silent",
    "check_ahead",
]


@dataclass(frozen=True)
class InstallationFailure:
    """`what`: the part that failed, such as a task of one run. `occurrence` separates this failure of the part from its next one, such as a run
    id or the last heartbeat: a resolved failure does not open again."""

    code: FailureCode
    what: str
    occurrence: str
    since: datetime
    severity: Severity
    title: str
    cause: str
    remedy: str

    @property
    def subject(self) -> str:
        """The finding's subject, such as `dag_unreadable dags/upkeep.py`."""
        return f"{self.code} {self.what}"


def installation_finding(failure: InstallationFailure) -> Finding:
    since = failure.since.astimezone(timezone.utc)
    return provider_finding(
        INSTALLATION,
        "self",
        failure.subject,
        began=failure.occurrence,
        since=since.date().isoformat(),
        severity=failure.severity,
        title=failure.title,
        explanation=failure.cause,
        remedy=failure.remedy,
    )
