"""What checks between campaigns and the operations log show of a provider, as numbers that belong to no trial. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from plumbline.analysis.availability import AvailabilityHistory
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Preference
from plumbline.declarations.workloads.workload import PROVIDER_PHASE
from plumbline.metrics import is_of_provider
from plumbline.metrics.pooling import PooledMetric, pool_measurements
from plumbline.metrics.proportions import CONFIDENCE, wilson_interval
from plumbline.metrics.rows import MetricRow, metric_row
from plumbline.metrics.time_spans import TimeSpan, total_s, without
from plumbline.results.operations import LogEntryView, LogKind

NOT_KNOWN = {
    "availability": "no check of its uptime counts (watch.uptime of the provider)",
    "capacity_availability": "no check of its capacity counts (watch.capacity of the provider)",
    "support_response": "an interval needs six answered tickets in the operations log",
    "quota_response": "an interval needs six answered quota requests in the operations log",
}
"""Metrics of a provider, and why one is missing."""


@dataclass(frozen=True)
class ServiceRecord:
    """`watches`: checks of uptime and capacity in some months. Of the log's entries that are not ours, opened in the year up to the end of these
    months, `logged` by kind; their seconds, maintenance left out: `recovery` of the provider's incidents, `answers` (first answer) and `solutions`
    of tickets and quota requests."""

    watches: tuple[AvailabilityHistory, ...]
    logged: Mapping[LogKind, int]
    recovery: PooledMetric
    answers: Mapping[LogKind, PooledMetric]
    solutions: Mapping[LogKind, PooledMetric]

    @property
    def numbers(self) -> tuple[MetricRow, ...]:
        """As the numbers of a trial, each with its 95 % interval; what has none is missing."""
        known = [number for w in self.watches if (number := _watched(w)) is not None]
        known += [(m.metric, m.value, m.low, m.high, m.n) for m in self.answers.values() if (m.coverage or 0.0) >= CONFIDENCE]
        return tuple(
            metric_row(name, value, n, phase=PROVIDER_PHASE, ci=None if low is None or high is None else (low, high))
            for name, value, low, high, n in known
        )


def _watched(watch: AvailabilityHistory) -> tuple[str, float | None, float | None, float | None, int] | None:
    """The share that is certain, as a gate judges it: what is unknown counts as down. Its interval reaches to what may be, and is not narrower than
    that of so many checks."""
    share, unproven, bounds = watch.share, sum(m.unproven for m in watch.months), watch.bounds
    if share.ratio is None or share.low is None or share.high is None or bounds is None:
        return None
    if watch.kind == "capacity":
        least = wilson_interval(share.successes, share.n + unproven)
        return "capacity_availability", least.ratio, least.low, share.high, share.n
    return "availability", bounds[0], min(bounds[0], share.low), max(bounds[1], share.high), share.n


def with_service(trials: Iterable[TrialSample], records: Mapping[str, ServiceRecord], preference: Preference) -> tuple[TrialSample, ...]:
    """The trials with those numbers of their provider that the preference weighs or has a gate on."""
    wanted = service_metrics(preference)
    numbers = {name: tuple(m for m in record.numbers if m.metric in wanted) for name, record in records.items()} if wanted else {}
    return tuple(replace(t, metrics=(*t.metrics, *numbers[t.provider])) if numbers.get(t.provider) else t for t in trials)


def service_metrics(preference: Preference) -> frozenset[str]:
    """Metrics of providers that it weighs or has a gate on."""
    return frozenset(name for name in (*preference.weights, *(g.metric for g in preference.gates)) if is_of_provider(name))


def service_record(watches: tuple[AvailabilityHistory, ...], log: Sequence[LogEntryView], excluded: Sequence[TimeSpan]) -> ServiceRecord:
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
