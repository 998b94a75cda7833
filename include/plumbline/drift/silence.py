"""What should have been measured and was not: series that took part in earlier monthly campaigns and left nothing in this one.

Absence leaves no row that a comparison could meet, so it is looked for from the other side: from what is declared and reported before.
Only monthly campaigns (`2026-11`) are expected of anybody; one on demand asks for what it asks for. A finding is about the last campaign
that the series did report in, so that months of one silence are one finding.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from plumbline.drift.finding import Finding, Member, Severity, finding_id
from plumbline.drift.sample import Series

SUBJECT = "silence"
GRACE = timedelta(hours=36)
"""How long after its first day began a campaign may still be running: all slots lie on that day, and the last ones queue and retry."""
_MONTHLY = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_MOST_NAMED = 3


def monthly(campaign_id: str) -> bool:
    """Whether it is a campaign that every declared series takes part in."""
    return _MONTHLY.fullmatch(campaign_id) is not None


def over(campaign_id: str, now: datetime) -> bool:
    """Whether all of a monthly campaign can be there: another month than this one (a simulated one may lie ahead), or past its first days."""
    return (
        f"{now.astimezone(timezone.utc):%Y-%m}" != campaign_id or now - datetime.fromisoformat(f"{campaign_id}-01T00:00:00+00:00") >= GRACE
    )


def silence(campaign_id: str, last: Mapping[str, str | None], simulated: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """One finding per provider and last campaign. `last`: each expected series' newest monthly campaign, None if it never had one.

    PAGE if nothing that is expected of the provider reported, else WARN.
    """
    gone: dict[tuple[str, str], list[str]] = defaultdict(list)
    reporting = set()
    for series_key, newest in sorted(last.items()):
        provider = Series.parse(series_key).provider
        if newest is not None and newest < campaign_id:
            gone[provider, newest].append(series_key)
        elif newest is not None:
            reporting.add(provider)
    return tuple(
        _finding(campaign_id, provider, newest, keys, "warn" if provider in reporting else "page", keys[0] in simulated)
        for (provider, newest), keys in sorted(gone.items())
    )


def _finding(campaign_id: str, provider: str, newest: str, keys: list[str], severity: Severity, simulated: bool) -> Finding:
    series = [Series.parse(key) for key in keys]
    names = [f"{s.kind} {s.workload}" for s in series]
    named = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
    who = named if severity == "warn" else "the whole provider"
    return Finding(
        finding_id=finding_id(provider, newest, "missing_data", SUBJECT),
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
        subject=SUBJECT,
        title="stopped reporting" + (f", and {len(keys) - 1} more" if severity == "warn" and len(keys) > 1 else ""),
        simulated=simulated,
        members=tuple(Member(name, f"{name}: last in {newest}", series_key=key) for name, key in zip(names, keys, strict=True)),
        series=tuple(keys),
        standing=tuple(keys),
    )
