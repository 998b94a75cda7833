"""A provider's promises against the archive's measurements: the one source for the page, the command and the claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from plumbline.analysis.availability import Outage, WatchHistory, month_span
from plumbline.analysis.operations import (
    credit_of,
    month_availability,
    provider_outages,
    response_times,
)
from plumbline.analysis.prices.book import with_effective_prices
from plumbline.analysis.scorecards.pooling import PooledMetric, pool_measurements
from plumbline.analysis.scorecards.promises import SpeedFloor, judge_share, judge_speed, tries_to_keep
from plumbline.analysis.scorecards.provisioning import capacity_kept, judge_lead_time, launch_success
from plumbline.answers.watch_histories import watch_histories
from plumbline.archive import Archive
from plumbline.archive.trends import LaunchCounts
from plumbline.declarations import Criterion, Declarations, Provider
from plumbline.declarations.providers.provider import ServiceLevel
from plumbline.presentation.promises import (
    PromiseRow,
    availability_row,
    capacity_row,
    launch_row,
    lead_time_row,
    response_row,
    speed_row,
)
from plumbline.results.operations import LogEntryView

LAUNCH_CAMPAIGNS = 24
"""Newest campaigns whose launches count."""
_SPEED_CAMPAIGNS = 6
_MONTHS = 13
"""The present month and a year of earlier ones: contracts let claims expire."""
_REPEATS = tries_to_keep(0.5) or 0
"""The fewest repeats that tell on which side of a speed their median lies."""


DECLARE = "sla: {launch_success: 99%, provisioning_lead_time: 15min}"
"""A sample for a provider's declaration."""


@dataclass(frozen=True)
class ProviderPromises:
    """A provider's promises as rows: of launches, of speeds by workload, and of what the operations log and checks show. `launches`: by campaign, oldest
    first. Of a speed the newest repeats count, as many as an interval needs. `log`: newest entry first. `outages`: those that checks found to be the provider's, newest first."""

    provider: str
    launches: tuple[LaunchCounts, ...]
    launch_rows: tuple[PromiseRow, ...]
    speed_rows: Mapping[str, PromiseRow]
    log_rows: tuple[PromiseRow, ...]
    log: tuple[LogEntryView, ...]
    outages: tuple[Outage, ...] = ()

    @property
    def rows(self) -> tuple[PromiseRow, ...]:
        """Rows of promises only."""
        rows = (*self.launch_rows, *self.speed_rows.values(), *self.log_rows)
        return tuple(row for row in rows if row.verdict != "not_promised")

    @property
    def view(self) -> dict[str, Any]:
        return {"provider": self.provider, "campaigns": [c.campaign_id for c in self.launches], "promises": self.rows, "log": self.log}


def provider_promises(archive: Archive, declared: Declarations, name: str) -> ProviderPromises:
    """Credits at the declared volumes and each day's price, as far as the declarations hold them."""
    provider, now = declared.providers.get(name), datetime.now(timezone.utc)
    sla = provider.sla if provider is not None else ServiceLevel()
    counts, log = archive.launches(name, LAUNCH_CAMPAIGNS), tuple(archive.operations(name))
    ended: Counter[str | None] = Counter()
    for each in counts:
        ended.update(each.ended)
    priced = None if provider is None else with_effective_prices(provider, archive.prices(name))

    def granting(row: PromiseRow, share: float | None = sla.credit, at: datetime = now) -> PromiseRow:
        if row.verdict != "broken" or share is None or priced is None:
            return row
        return row.granting(share, credit_of(share, priced, declared.alerts.volumes_of(name), at))

    lead, capacity = judge_lead_time(_lead_time(provider, counts), sla), capacity_kept(ended, sla.capacity)
    speeds = {workload: speed_row(_speed(archive, name, workload, floor)) for workload, floor in sorted(sla.speed_floors.items())}
    middle = month_span(now)[0] + timedelta(days=14)  # of a month; so many months of mean length before it is another one's
    watched = {h.kind: h for h in (watch_histories(archive, provider, now, _MONTHS) if provider is not None and checkable(sla) else ())}
    uptime, asked = watched.get("uptime"), watched.get("capacity")
    outages = provider_outages(uptime.outages, log, now) if uptime else ()
    down = [(o.began, o.ended or now) for o in outages]
    checked = {month.begin: month for month in uptime.months} if uptime else {}
    months = [month_availability(middle - timedelta(days=30.4375 * back), log, sla, now, down, checked) for back in range(_MONTHS)]
    first = max((i for i, month in enumerate(months) if month.seen), default=0)  # a later month without evidence is one that nothing shows
    return ProviderPromises(
        provider=name,
        launches=tuple(counts),
        launch_rows=tuple(
            map(granting, (launch_row(launch_success(ended, sla.launch_success)), lead_time_row(lead), capacity_row(capacity)))
        ),
        speed_rows={workload: granting(row) for workload, row in speeds.items()},
        log_rows=(
            *(granting(response_row(each)) for each in response_times(log, sla, now, outages)),
            *([granting(_capacity_checks(asked, sla))] if asked is not None and sla.capacity is not None else []),
            *(granting(availability_row(m), m.tier.credit if m.tier else None, m.begin) for m in months[: first + 1]),
        ),
        log=log,
        outages=(*outages, *(o for o in (asked.outages if asked else ()) if o.whose == "provider")),
    )


def broken_promises(archive: Archive, declared: Declarations, names: Iterable[str]) -> dict[str, tuple[PromiseRow, ...]]:
    """The broken promises of those of these providers that have one."""
    promising = [name for name in names if name in declared.providers and declared.providers[name].sla != ServiceLevel()]
    rows = {name: [r for r in provider_promises(archive, declared, name).rows if r.verdict == "broken"] for name in sorted(promising)}
    return {name: tuple(broken) for name, broken in rows.items() if broken}


def checkable(sla: ServiceLevel) -> bool:
    """Whether checks between campaigns bear on a promise."""
    return any(promise is not None for promise in (sla.availability, sla.time_to_recover, sla.capacity))


def _capacity_checks(asked: WatchHistory, sla: ServiceLevel) -> PromiseRow:
    refused = [o.began for o in asked.outages if o.whose == "provider"]
    return capacity_row(judge_share(asked.share, sla.capacity), "capacity between campaigns", "check", max(refused, default=None))


def _lead_time(provider: Provider | None, counts: Sequence[LaunchCounts]) -> PooledMetric:
    unprovisioned = provider.launcher.not_provisioned if provider is not None else None
    times = [] if unprovisioned is not None else [(c.campaign_id, t) for c in counts for t in c.lead_times]
    return pool_measurements("provisioning_lead_time", times, unprovisioned or "no launch was observed")


def _speed(archive: Archive, name: str, workload: str, floor: Criterion) -> SpeedFloor:
    """A promised speed against the newest repeats of the series that ran last."""
    newest = archive.newest_by_place(archive.series_of([name], workload=workload)).get((name, workload))
    values: list[tuple[str, float]] = []
    if newest is not None:
        key = newest.series.series_key
        pairs = [(key, campaign) for campaign, _ in reversed(archive.series_campaigns(key, _SPEED_CAMPAIGNS))]
        samples, wanted = archive.samples(pairs, [floor.metric]), (floor.metric, floor.statistic, floor.phase)
        for pair in pairs:
            if len(values) < _REPEATS:
                values += [(pair[1], o.value) for o in samples[pair].observations if (o.metric, o.statistic, o.phase) == wanted]
    return judge_speed(workload, floor, values)
