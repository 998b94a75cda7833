"""What checks between campaigns and the operations log show of a provider, as numbers that belong to no trial. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plumbline.analysis.availability import TimeSpan, WatchHistory, total_s, without
from plumbline.analysis.scorecards.pooling import PooledMetric, pool_measurements
from plumbline.results.operations import LogEntryView, LogKind


@dataclass(frozen=True)
class ServiceRecord:
    """`watches`: checks of uptime and capacity in some months. Of the log's entries that are not ours, opened in the year up to the end of these
    months, `logged` by kind; their seconds, maintenance left out: `recovery` of the provider's incidents, `answers` (first answer) and `solutions`
    of tickets and quota requests."""

    watches: tuple[WatchHistory, ...]
    logged: Mapping[LogKind, int]
    recovery: PooledMetric
    answers: Mapping[LogKind, PooledMetric]
    solutions: Mapping[LogKind, PooledMetric]


def service_record(watches: tuple[WatchHistory, ...], log: Sequence[LogEntryView], excluded: Sequence[TimeSpan]) -> ServiceRecord:
    """The record of one provider; `log`: what the year has; `excluded`: maintenance."""
    theirs = [e for e in log if e.whose != "us"]

    def pooled(metric: str, kind: LogKind, *fields: str) -> PooledMetric:
        own = [e for e in theirs if e.kind == kind and (kind != "incident" or e.whose == "provider")]
        ends = [(e, next((at for name in fields if (at := getattr(e, name)) is not None), None)) for e in own]
        times = [(e.entry_id, total_s(without([(e.opened, end)], excluded))) for e, end in ends if end is not None]
        return pool_measurements(metric, times, f"none of {len(own)} ended" if own else "none is logged")

    return ServiceRecord(
        watches,
        Counter(e.kind for e in theirs),
        pooled("time_to_recover", "incident", "solved"),
        {
            "ticket": pooled("support_response", "ticket", "answered", "solved"),
            "quota": pooled("quota_response", "quota", "answered", "solved"),
        },
        {kind: pooled("", kind, "solved") for kind in ("ticket", "quota")},
    )
