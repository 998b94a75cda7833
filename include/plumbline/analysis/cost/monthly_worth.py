"""The worth of a month of a workload at the declared volumes: the one base of the money in findings and decisions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from plumbline.analysis.cost.unit_costs import HOUR_S
from plumbline.declarations.alerts import RentedVolume


def monthly_hours(
    provider: str, workload: str, among: Collection[str], volumes: Iterable[RentedVolume]
) -> tuple[tuple[RentedVolume, float], ...]:
    """Declared instance-hours a month of a workload on a provider, by volume.

    A volume without a workload is shared equally among those of `among`, the workloads that run there, that no other volume names.
    """
    own: Sequence[RentedVolume] = [v for v in volumes if fnmatchcase(provider, v.provider)]
    named = {v.workload for v in own if v.workload}
    rest = {*among, workload} - named
    return tuple(
        (v, v.time_per_month / HOUR_S / (1 if v.workload else len(rest)))
        for v in own
        if v.workload == workload or (v.workload is None and workload in rest)
    )


def relative_cost(now: float, then: float) -> float:
    """How much more a unit costs then, as a fraction of what it costs now: what a month at a fixed output costs more."""
    return then / now - 1
