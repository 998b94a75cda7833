"""Findings about missing data: series that stopped reporting, providers never measured, price sources without prices."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone

from plumbline.findings import provider_finding
from plumbline.metrics.formatting import shorten
from plumbline.results.finding import Finding, Member, Severity, finding_id
from plumbline.results.sample import Series

SILENCE_SUBJECT = "silence"
GRACE = timedelta(hours=36)
"""Time from a campaign's first day to its completion: all slots are on that day, the last ones queue and retry."""
_MONTHLY = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


def is_monthly(campaign_id: str) -> bool:
    """Whether every declared series takes part in the campaign."""
    return _MONTHLY.fullmatch(campaign_id) is not None


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
        SILENCE_SUBJECT,
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
        finding_id=finding_id(provider, newest, "missing_data", SILENCE_SUBJECT),
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
        subject=SILENCE_SUBJECT,
        title="stopped reporting" + (f", and {len(keys) - 1} more" if severity == "warn" and len(keys) > 1 else ""),
        simulated=simulated,
        members=tuple(Member(name, f"{name}: last in {newest}", series_key=key) for name, key in zip(names, keys, strict=True)),
        series=tuple(keys),
        standing=tuple(keys),
    )


def unusable_workload_finding(
    provider: str, campaign_id: str, series: Sequence[str], reasons: Mapping[str, int], simulated: bool
) -> Finding:
    """A workload of which no trial is usable anywhere. `series`: its series of the campaign; `reasons`: why, by how many attempts, the most
    common one first."""
    first = Series.parse(series[0])
    attempts = sum(reasons.values())
    why, most = next(iter(reasons.items()))
    title = f"no usable result: {most} of {attempts} attempts {why}"
    others = [f"{name} × {n}" for name, n in reasons.items()][1:]
    where = f"{len(series)} {'providers' if len(series) != 1 else 'provider'}"
    return Finding(
        finding_id=finding_id(provider, campaign_id, "missing_data", unusable_subject(series[0])),
        series_key=series[0],
        campaign_id=campaign_id,
        kind="missing_data",
        severity="page",
        evidence=f"{title}, in campaign {campaign_id}",
        explanation=f"nothing of the workload can be used on {where}" + (f"; also {shorten(others)}" if others else ""),
        provider=provider,
        workload_kind=first.kind,
        workload=first.workload,
        subject=unusable_subject(series[0]),
        title=title,
        simulated=simulated,
        members=tuple(Member(name, f"{name} × {n}") for name, n in reasons.items()),
        series=tuple(series),
        standing=tuple(series),
    )


def unusable_subject(series_key: str) -> str:
    """The finding's subject, such as `unusable training gpt@2`."""
    series = Series.parse(series_key)
    return f"unusable {series.kind} {series.workload}@{series.version}"


_PRICE_SOURCE = "price source "


def price_source_subject(source: str) -> str:
    """The finding's subject, such as `price source gpuhunt`."""
    return f"{_PRICE_SOURCE}{source}"


def price_source_of(subject: str) -> str | None:
    """The source of a finding with this subject; None for other findings."""
    return subject.removeprefix(_PRICE_SOURCE) if subject.startswith(_PRICE_SOURCE) else None


def silent_price_source_finding(provider: str, source: str, last: date | None, now: date, why: str, simulated: bool = False) -> Finding:
    """`last`: the day of the source's last price of the provider, None if it never reported one; `why` it failed on the day `now`."""
    title = f"{source} reports no price since {last}" if last is not None else f"{source} has never reported a price"
    return provider_finding(
        provider,
        "missing_data",
        price_source_subject(source),
        began=str(last or "never"),  # one finding, on whatever day it is noticed
        since=str(last or now),
        severity="warn",
        title=title,
        explanation=f"{why}; price changes go unnoticed and costs use the accepted price until it reports again",
        simulated=simulated,
    )
