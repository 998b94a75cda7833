"""A provider's promises against the archive's measurements: the one source for the page, the command and the claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plumbline.analysis.scorecards.pooling import PooledMetric, pool_measurements
from plumbline.analysis.scorecards.promises import PromisedShare, SpeedFloor, judge_speed, tries_to_keep
from plumbline.analysis.scorecards.provisioning import LeadTime, judge_lead_time, launch_success
from plumbline.archive import Archive
from plumbline.archive.trends import LaunchCounts
from plumbline.declarations import Criterion, Declarations, Provider
from plumbline.declarations.providers.provider import ServiceLevel
from plumbline.presentation.promises import PromiseRow, launch_row, lead_time_row, speed_row

LAUNCH_CAMPAIGNS = 24
"""Newest campaigns whose launches count."""
_SPEED_CAMPAIGNS = 6
_REPEATS = tries_to_keep(0.5) or 0
"""The fewest repeats that tell on which side of a speed their median lies."""


DECLARE = "sla: {launch_success: 99%, provisioning_lead_time: 15min}"
"""A sample for a provider's declaration."""


@dataclass(frozen=True)
class ProviderPromises:
    """`launches`: by campaign, oldest first. Of a speed the newest repeats count, as many as an interval needs."""

    provider: str
    launches: tuple[LaunchCounts, ...]
    launch: PromisedShare
    lead: LeadTime
    speeds: tuple[SpeedFloor, ...]

    @property
    def rows(self) -> tuple[PromiseRow, ...]:
        """Rows of promises only."""
        rows = (launch_row(self.launch), lead_time_row(self.lead), *map(speed_row, self.speeds))
        return tuple(row for row in rows if row.verdict != "not_promised")

    @property
    def view(self) -> dict[str, Any]:
        return {"provider": self.provider, "campaigns": [c.campaign_id for c in self.launches], "promises": self.rows}


def provider_promises(archive: Archive, declared: Declarations, name: str) -> ProviderPromises:
    provider = declared.providers.get(name)
    sla = provider.sla if provider is not None else ServiceLevel()
    counts = archive.launches(name, LAUNCH_CAMPAIGNS)
    ended: Counter[str | None] = Counter()
    for each in counts:
        ended.update(each.ended)
    return ProviderPromises(
        provider=name,
        launches=tuple(counts),
        launch=launch_success(ended, sla.launch_success),
        lead=judge_lead_time(_lead_time(provider, counts), sla),
        speeds=tuple(_speed(archive, name, workload, floor) for workload, floor in sorted(sla.speed_floors.items())),
    )


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
