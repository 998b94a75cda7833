"""Failures of this installation as findings of kind `self`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from plumbline.results.finding import Finding, Severity, finding_id

INSTALLATION = "plumbline"
"""What these findings name instead of a provider."""
FailureCode = Literal["task_failed", "dag_unreadable", "benchmark_missed", "dag_paused", "component_away", "finding_unreadable"]


@dataclass(frozen=True)
class InstallationFailure:
    """`what` is the part that failed, such as a task of one run; with the code it says which failure this is. `occurrence` tells this
    failure of the part from its next one, such as the id of the run or the last heartbeat: a person who resolved it is not asked again."""

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
        """Such as `dag_unreadable dags/upkeep.py`."""
        return f"{self.code} {self.what}"


def installation_finding(failure: InstallationFailure) -> Finding:
    """The finding that the failure opens."""
    since = failure.since.astimezone(timezone.utc)
    return Finding(
        finding_id=finding_id(INSTALLATION, failure.occurrence, "self", failure.subject),
        series_key="",
        campaign_id=None,
        since=since.date().isoformat(),
        kind="self",
        severity=failure.severity,
        headline=f"{failure.severity.upper()}  {INSTALLATION} · {failure.title}",
        explanation=failure.cause,
        provider=INSTALLATION,
        workload_kind="",
        workload="",
        subject=failure.subject,
        title=failure.title,
        remedy=failure.remedy,
    )
