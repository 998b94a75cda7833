"""Findings: what observations mean for the open ones, and how each kind is worded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from plumbline.results.finding import Finding, FindingKind, Severity, finding_id


@dataclass(frozen=True)
class Reconciliation:
    """The effect of an observation on findings.

    `opened`: new ones. `continued`: open ones as they are to be stored now. `unchanged`: open ones that were seen again. `resolved`: those that
    recovered, each with why. `taken_back`: those that a correction of what they rest on takes back, each with why.
    """

    opened: tuple[Finding, ...] = ()
    continued: tuple[Finding, ...] = ()
    resolved: tuple[tuple[Finding, str], ...] = ()
    unchanged: tuple[Finding, ...] = ()
    taken_back: tuple[tuple[Finding, str], ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, the new ones first."""
        return (*self.opened, *self.continued, *self.unchanged, *(finding for finding, _ in (*self.resolved, *self.taken_back)))


def provider_finding(
    provider: str,
    kind: FindingKind,
    subject: str,
    *,
    since: str,
    began: str = "",
    name: str | None = None,
    severity: Severity,
    title: str,
    evidence: str = "",
    simulated: bool = False,
    **fields: Any,
) -> Finding:
    """A finding about a provider as a whole, which no campaign measured. `name`: its id, by default made from `began`; `evidence`: the title if
    left out."""
    return Finding(
        finding_id=finding_id(provider, began, kind, subject) if name is None else name,
        series_key="",
        campaign_id=None,
        kind=kind,
        severity=severity,
        evidence=evidence or title,
        provider=provider,
        workload_kind="",
        workload="",
        subject=subject,
        title=title,
        simulated=simulated,
        since=since,
        **fields,
    )


def unsettled_id(provider: str, since: str, kind: FindingKind, subject: str, settled: Collection[str]) -> str:
    """The id by day of beginning; another one if a finding with that id is settled."""
    name, more = finding_id(provider, since, kind, subject), 2
    while name in settled:
        name, more = finding_id(provider, f"{since} {more}", kind, subject), more + 1
    return name
