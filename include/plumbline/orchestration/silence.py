"""Which declared series and providers left nothing in a monthly campaign, from the declarations and the archive. No Airflow in here."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from plumbline.declarations import Declarations, series_key

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Finding

_MONTHS = 24
"""Campaigns of a series among which its newest monthly one is looked for."""


def missed(
    archive: Archive,
    declared: Declarations,
    campaign_id: str,
    provider: str | None = None,
    now: datetime | None = None,
    *,
    unmeasured: bool = False,
) -> tuple[Finding, ...]:
    """What stopped reporting, as findings that stand or are to be opened; nothing for a campaign on demand or one that still runs.

    `unmeasured`: what never took part in a monthly campaign as well, which the review of a campaign is no occasion for."""
    from plumbline.drift import silence

    if not silence.monthly(campaign_id) or not silence.over(campaign_id, now or datetime.now(timezone.utc)):
        return ()
    # One that is simulated is rehearsed without being enabled; who asks for it by name means it.
    enabled = {p.name for p in declared.enabled_providers()}
    providers = [p for name, p in declared.providers.items() if name == provider and (name in enabled or p.simulated)]
    if provider is None:
        providers = list(declared.enabled_providers())
    left_out = {series_key(w, p): p for p in providers for w, _ in declared.left_out(p)}
    expected = {series_key(w, p): p for p in providers for w in declared.monthly_workloads(p)} | left_out
    last = {
        key: max((c for c, _ in archive.series_campaigns(key, _MONTHS) if silence.monthly(c) and c <= campaign_id), default=None)
        for key in expected
    }
    # A series that reported and is left out now is missed; one that never did is a warning of `plumbline check` alone.
    expected = {key: p for key, p in expected.items() if key not in left_out or last[key] is not None}
    last = {key: last[key] for key in expected}
    simulated = frozenset(key for key, p in expected.items() if p.simulated)
    never = set()
    for name in {p.name for p in expected.values()}:
        keys = [key for key, p in expected.items() if p.name == name]
        if any(last[key] is not None for key in keys):
            continue
        # All of it is new, such as after a new version of every workload: what the provider measured before stands for it.
        before = [c for s in archive.series(provider=name) for c in archive.series_campaigns(s.series_key, _MONTHS)]
        newest = max((c for c, _ in before if silence.monthly(c) and c <= campaign_id), default=None)
        if newest is not None:
            last |= dict.fromkeys(keys, newest)
        elif unmeasured and (not before or min(at for _, at in before) < silence.ends(campaign_id)):
            never.add(name)
    return silence.silence(campaign_id, last, simulated, frozenset(never))


def keep_missed(archive: Archive, found: tuple[Finding, ...], campaign_id: str) -> None:
    """Open what is new and let go on what stands."""
    from plumbline.drift import Finding
    from plumbline.orchestration.stored import record_of

    for finding in found:
        known = {f.finding_id: f for f in archive.findings_of(finding.provider, "missing_data")}.get(finding.finding_id)
        if known is None:
            archive.save_findings([record_of(replace(finding, seen_in=(campaign_id,)))])
        elif campaign_id not in (seen := Finding.of(known.detail).seen_in):
            going_on = replace(finding, since=Finding.of(known.detail).since, seen_in=(*seen, campaign_id))
            archive.continue_finding(record_of(going_on), campaign_id, finding.headline)


def look_for_silence(now: datetime | None = None) -> list[str]:
    """The same for the month of `now` (the present if left out), whether or not anything reported: ids of what is missing."""
    from plumbline.archive import open_archive
    from plumbline.declarations import load

    now = now or datetime.now(timezone.utc)
    campaign_id = f"{now:%Y-%m}"
    with open_archive() as archive:
        found = missed(archive, load(), campaign_id, now=now, unmeasured=True)
        keep_missed(archive, found, campaign_id)
    return [finding.finding_id for finding in found]
