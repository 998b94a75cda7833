"""A failure of this installation as a finding of kind `self`: one that a person repairs, and that resolves when its cause is gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from plumbline.drift.finding import Finding, Severity, finding_id

OWNER_NAME = "plumbline"
"""What these findings name instead of a provider."""
Code = Literal["task_failed", "dag_unreadable", "benchmark_missed", "dag_paused", "component_away", "finding_unreadable"]


@dataclass(frozen=True)
class OwnFailure:
    """`what` is the part that failed, such as a task of one run; with the code it says which failure this is. `occurrence` tells this
    failure of the part from its next one, such as the id of the run or the last heartbeat: a person who resolved it is not asked again."""

    code: Code
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


def own_finding(failure: OwnFailure) -> Finding:
    """The finding that the failure opens."""
    since = failure.since.astimezone(timezone.utc)
    return Finding(
        finding_id=finding_id(OWNER_NAME, failure.occurrence, "self", failure.subject),
        series_key="",
        campaign_id=None,
        since=since.date().isoformat(),
        kind="self",
        severity=failure.severity,
        headline=f"{failure.severity.upper()}  {OWNER_NAME} · {failure.title}",
        explanation=failure.cause,
        provider=OWNER_NAME,
        workload_kind="",
        workload="",
        subject=failure.subject,
        title=failure.title,
        remedy=failure.remedy,
    )
