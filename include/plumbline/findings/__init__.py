"""Findings: what observations mean for the open ones, and how each kind is worded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plumbline.results.finding import Finding, FindingKind, Severity, finding_id

_MOST_NAMED = 3


@dataclass(frozen=True)
class Reconciliation:
    """What an observation means for findings.

    `opened`: new ones. `continued`: open ones as they are to be stored now. `unchanged`: open ones that were seen again. `resolved`: those that
    recovered, each with why.
    """

    opened: tuple[Finding, ...] = ()
    continued: tuple[Finding, ...] = ()
    resolved: tuple[tuple[Finding, str], ...] = ()
    unchanged: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, the new ones first."""
        return (*self.opened, *self.continued, *self.unchanged, *(finding for finding, _ in self.resolved))


def provider_finding(
    provider: str,
    kind: FindingKind,
    subject: str,
    *,
    began: str,
    since: str,
    severity: Severity,
    title: str,
    headline: str,
    simulated: bool = False,
    **fields: Any,
) -> Finding:
    """A finding about a provider as a whole, which no campaign measured. `began` makes its id; `headline` is without severity and provider."""
    return Finding(
        finding_id=finding_id(provider, began, kind, subject),
        series_key="",
        campaign_id=None,
        kind=kind,
        severity=severity,
        headline=f"{severity.upper()}  {'SIMULATED  ' if simulated else ''}{provider} · {headline}",
        provider=provider,
        workload_kind="",
        workload="",
        subject=subject,
        title=title,
        simulated=simulated,
        since=since,
        **fields,
    )


def shorten(names: Sequence[str]) -> str:
    """The first three names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
