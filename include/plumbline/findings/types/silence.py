"""Series that stopped reporting, or a provider that no monthly campaign ever measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from plumbline.declarations.purposes import is_monthly
from plumbline.findings import provider_finding
from plumbline.findings.types.base import register
from plumbline.findings.types.missing_trials import MissingTrials
from plumbline.metrics.formatting import shorten
from plumbline.results.finding import Finding, Member, Severity, finding_id
from plumbline.results.sample import Series

if TYPE_CHECKING:
    from plumbline.analysis.drift.comparison import Comparison

GRACE = timedelta(hours=36)
"""Time from a campaign's first day to its completion: all slots are on that day, the last ones queue and retry."""


@register
class Silence(MissingTrials):
    id = "silence"
    subject = "silence"
    usual = False

    def has_recovered(self, known: Finding, now: Comparison) -> bool:
        # A campaign on demand replaces no month's rerun; it does count for a provider that was never measured.
        return now.reliability.attempts > 0 and (known.campaign_id is None or is_monthly(now.candidate_campaign))


def is_complete(campaign_id: str, now: datetime) -> bool:
    """Whether a monthly campaign is past its deadline, or of another month than this one (a simulated one may lie ahead)."""
    return f"{now.astimezone(timezone.utc):%Y-%m}" != campaign_id or now >= campaign_deadline(campaign_id)


def campaign_deadline(campaign_id: str) -> datetime:
    """When a monthly campaign is complete."""
    return datetime.fromisoformat(f"{campaign_id}-01T00:00:00+00:00") + GRACE


def missing_series_findings(
    campaign_id: str, last: Mapping[str, str | None], simulated: frozenset[str] = frozenset(), never: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """One finding per provider and last campaign. `last`: each expected series' newest monthly campaign, None if it never had one.
    `never`: providers that should have taken part in a monthly campaign by now and have not.

    PAGE if no expected series of the provider reports, else WARN.
    """
    gone: dict[tuple[str, str], list[str]] = defaultdict(list)
    reporting = set()
    for series_key, newest in sorted(last.items()):
        provider = Series.parse(series_key).provider
        if newest is not None and newest < campaign_id:
            gone[provider, newest].append(series_key)
        elif newest is not None:
            reporting.add(provider)
    stopped = [
        _finding(campaign_id, provider, newest, keys, "warn" if provider in reporting else "page", keys[0] in simulated)
        for (provider, newest), keys in sorted(gone.items())
    ]
    unmeasured = {provider: [key for key in sorted(last) if Series.parse(key).provider == provider] for provider in sorted(never)}
    return (
        *stopped,
        *(_never_measured(campaign_id, provider, keys, keys[0] in simulated) for provider, keys in unmeasured.items() if keys),
    )


def _never_measured(campaign_id: str, provider: str, keys: list[str], simulated: bool) -> Finding:
    names = [f"{s.kind} {s.workload}" for s in map(Series.parse, keys)]
    return provider_finding(
        provider,
        "missing_data",
        Silence.subject,
        began="",
        since=f"{campaign_id}-01",
        severity="warn",
        title=f"never measured by a monthly campaign, no results in {campaign_id}",
        explanation=f"expected: {shorten(names)}; check that its DAG is unpaused and Airflow runs. If you enabled the provider after this month's "
        f'slots, measure it now: plumbline trigger {provider} --reason "first measurement"',
        simulated=simulated,
        members=tuple(Member(name, f"{name}: never", series_key=key) for name, key in zip(names, keys, strict=True)),
        series=tuple(keys),
        standing=tuple(keys),
    )


def _finding(campaign_id: str, provider: str, newest: str, keys: list[str], severity: Severity, simulated: bool) -> Finding:
    series = [Series.parse(key) for key in keys]
    names = [f"{s.kind} {s.workload}" for s in series]
    shortened = shorten(names)
    who = shortened if severity == "warn" else "the whole provider"
    return Finding(
        finding_id=finding_id(provider, newest, "missing_data", Silence.subject),
        series_key=keys[0],
        campaign_id=newest,
        kind="missing_data",
        severity=severity,
        evidence=f"{who} stopped reporting: no results in campaign {campaign_id}, last in {newest}",
        explanation=f"expected: {shortened}; check that the provider is reachable, its DAG unpaused and Airflow running; "
        "missing results do not count as zero",
        provider=provider,
        workload_kind=series[0].kind if severity == "warn" else "",
        workload=series[0].workload if severity == "warn" else "",
        subject=Silence.subject,
        title="stopped reporting" + (f", and {len(keys) - 1} more" if severity == "warn" and len(keys) > 1 else ""),
        simulated=simulated,
        members=tuple(Member(name, f"{name}: last in {newest}", series_key=key) for name, key in zip(names, keys, strict=True)),
        series=tuple(keys),
        standing=tuple(keys),
    )
