"""Providers whose probes and whose workload contradict each other: faster at everything that was probed, and slower at the work.

Such a pair was not compared by its hardware: something that is not declared lies between. No certainty rests on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import median

from plumbline.analysis.trial_sample import SUSTAINED, TrialSample
from plumbline.metrics import METRICS

FASTER = 1.5
"""From so much in every probe a provider is faster beyond what a workload could turn round."""
_PROBED = ("matmul_tflops", "memory_bandwidth")
_WORK = (
    (SUSTAINED, "value", "sweep"),
    ("tokens_per_second", "median", "steady"),
    ("samples_per_second", "median", "steady"),
    ("request_throughput", "value", "sweep"),
)
"""What a workload did, best first: (metric, statistic, phase)."""


@dataclass(frozen=True)
class Contradiction:
    """`faster` is at least `probed` times as fast as `slower` in each of `probes`, and its `metric` on the workload is `ratio` times the other's."""

    workload: str
    faster: str
    slower: str
    probes: tuple[str, ...]
    probed: float
    metric: str
    ratio: float


def contradictions(providers: Iterable[str], trials: Sequence[TrialSample]) -> tuple[Contradiction, ...]:
    """Of each pair of these providers on each workload that both ran; by name."""
    found = []
    names, usable = sorted(providers), [t for t in trials if t.usable]
    for workload in sorted({t.workload for t in usable}):
        of = {name: [t for t in usable if (t.workload, t.provider) == (workload, name)] for name in names}
        for faster, slower in permutations(names, 2):
            if (one := _contradiction(workload, of[faster], of[slower])) is not None:
                found.append(one)
    return tuple(found)


def _contradiction(workload: str, faster: Sequence[TrialSample], slower: Sequence[TrialSample]) -> Contradiction | None:
    ratios = {name: ratio for name in _PROBED if (ratio := _ratio(faster, slower, name, METRICS[name].statistic, "environment"))}
    worked = ((name, ratio) for name, statistic, phase in _WORK if (ratio := _ratio(faster, slower, name, statistic, phase)))
    metric, ratio = next(worked, ("", 1.0))
    if not ratios or min(ratios.values()) < FASTER or ratio >= 1:
        return None
    return Contradiction(workload, faster[0].provider, slower[0].provider, tuple(ratios), min(ratios.values()), metric, ratio)


def _ratio(ones: Sequence[TrialSample], others: Sequence[TrialSample], metric: str, statistic: str, phase: str) -> float | None:
    """Median over median; None where one side did not measure it."""
    both = [[v for t in side if (v := t.value(metric, statistic, phase)) is not None and v > 0] for side in (ones, others)]
    return median(both[0]) / median(both[1]) if all(both) else None
