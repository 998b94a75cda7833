"""Findings about missing data: series that stopped reporting, providers never measured, silent price sources."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone

from plumbline.results.finding import Finding, Member, Severity, finding_id
from plumbline.results.sample import Series

SILENCE_SUBJECT = "silence"
GRACE = timedelta(hours=36)
"""How long after its first day began a campaign may still be running: all slots lie on that day, and the last ones queue and retry."""
_MONTHLY = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_MOST_NAMED = 3


def is_monthly(campaign_id: str) -> bool:
    """Whether it is a campaign that every declared series takes part in."""
    return _MONTHLY.fullmatch(campaign_id) is not None


def is_complete(campaign_id: str, now: datetime) -> bool:
    """Whether all of a monthly campaign can be there: another month than this one (a simulated one may lie ahead), or past its first days."""
    return f"{now.astimezone(timezone.utc):%Y-%m}" != campaign_id or now >= campaign_deadline(campaign_id)


def campaign_deadline(campaign_id: str) -> datetime:
    """From when on nothing more is expected of a monthly campaign."""
    return datetime.fromisoformat(f"{campaign_id}-01T00:00:00+00:00") + GRACE


def missing_series_findings(
    campaign_id: str, last: Mapping[str, str | None], simulated: frozenset[str] = frozenset(), never: frozenset[str] = frozenset()
) -> tuple[Finding, ...]:
    """One finding per provider and last campaign. `last`: each expected series' newest monthly campaign, None if it never had one.
    `never`: providers that should have taken part in a monthly campaign by now and have not.

    PAGE if nothing that is expected of the provider reports any more, else WARN.
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
    return (*stopped, *(_never(campaign_id, provider, keys, keys[0] in simulated) for provider, keys in unmeasured.items() if keys))


def _never(campaign_id: str, provider: str, keys: list[str], simulated: bool) -> Finding:
    names = [f"{s.kind} {s.workload}" for s in map(Series.parse, keys)]
    return Finding(
        finding_id=finding_id(provider, "", "missing_data", SILENCE_SUBJECT),
        series_key="",
        campaign_id=None,
        since=f"{campaign_id}-01",
        kind="missing_data",
        severity="warn",
        headline=f"WARN  {'SIMULATED  ' if simulated else ''}{provider} · never measured by a monthly campaign: nothing in campaign {campaign_id}",
        explanation=f"expected: {_named(names)}; is its DAG unpaused, Airflow up? If the provider was enabled after the slots of the month, "
        f'measure it now: plumbline trigger {provider} --reason "first measurement"',
        provider=provider,
        workload_kind="",
        workload="",
        subject=SILENCE_SUBJECT,
        title="never measured",
        simulated=simulated,
        members=tuple(Member(name, f"{name}: never", series_key=key) for name, key in zip(names, keys, strict=True)),
        series=tuple(keys),
        standing=tuple(keys),
    )


def _named(names: list[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


def _finding(campaign_id: str, provider: str, newest: str, keys: list[str], severity: Severity, simulated: bool) -> Finding:
    series = [Series.parse(key) for key in keys]
    names = [f"{s.kind} {s.workload}" for s in series]
    named = _named(names)
    who = named if severity == "warn" else "the whole provider"
    return Finding(
        finding_id=finding_id(provider, newest, "missing_data", SILENCE_SUBJECT),
        series_key=keys[0],
        campaign_id=newest,
        kind="missing_data",
        severity=severity,
        headline=f"{severity.upper()}  {'SIMULATED  ' if simulated else ''}{provider} · {who} stopped reporting: "
        f"nothing in campaign {campaign_id}, last in {newest}",
        explanation=f"expected: {named}; is the provider there, its DAG unpaused, Airflow up? absent is not zero: nothing is concluded about it",
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


_PRICE_SOURCE = "price source "


def price_source_subject(source: str) -> str:
    """The subject of a finding about a source, such as `price source gpuhunt`."""
    return f"{_PRICE_SOURCE}{source}"


def price_source_of(subject: str) -> str | None:
    """The source that a finding of this subject is about; None for another finding."""
    return subject.removeprefix(_PRICE_SOURCE) if subject.startswith(_PRICE_SOURCE) else None


def silent_price_source_finding(provider: str, source: str, last: date | None, now: date, why: str, simulated: bool = False) -> Finding:
    """That a source tells no price of the provider since the day `last`, or never did; `why` it failed `now`."""
    subject = price_source_subject(source)
    since = last if last is not None else now
    title = f"{source} tells no price" + (f" since {last}" if last is not None else " and never did")
    return Finding(
        # One that never told anything is one finding, on whatever day it is noticed.
        finding_id=finding_id(provider, str(last) if last is not None else "never", "missing_data", subject),
        series_key="",
        campaign_id=None,
        kind="missing_data",
        severity="warn",
        headline=f"WARN  {'SIMULATED  ' if simulated else ''}{provider} · {title}",
        explanation=f"{why}; until it answers, a price that moves goes unseen and the accepted one holds",
        provider=provider,
        workload_kind="",
        workload="",
        subject=subject,
        title=title,
        simulated=simulated,
        since=str(since),
    )
