"""Several repeats into one number with an interval, and a ratio into one that admits how little a few launches prove."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any

from plumbline.metrics.proportions import CONFIDENCE


@dataclass(frozen=True)
class Estimate:
    """One number over `n` repeats: `value`, and `low`…`high` around it at the confidence `coverage`. All None where no repeat measured it."""

    value: float | None
    low: float | None
    high: float | None
    coverage: float | None
    n: int


@dataclass(frozen=True)
class Pooled(Estimate):
    """The median over repeats with an order-statistic interval; `coverage` is the confidence that the interval really has.

    The interval makes no assumption about the distribution: between the k-th smallest and k-th largest of n repeats lies the true
    median with probability 1 - 2·P(Binomial(n, ½) < k). The largest k that keeps 95 % is taken; below six repeats even smallest to
    largest cannot reach 95 %, and the honest coverage (50 % for two, 75 % for three) is given with it. One repeat has no interval.
    """

    value: float


def pool(values: Sequence[float], brackets: Sequence[tuple[float, float]] = ()) -> Pooled:
    """Pool at least one value; ValueError on none. `brackets`: between which ends each value is known, which repeats do not narrow: searches that
    step on the same rates stop at the same one. The interval then holds their median ends as well."""
    if brackets:
        own, (lows, highs) = pool(values), zip(*brackets, strict=True)
        low, high = (own.value if end is None else end for end in (own.low, own.high))
        return replace(own, low=min(low, median(lows)), high=max(high, median(highs)))
    if not values:
        raise ValueError("nothing to pool; expected at least one value")
    ordered = sorted(values)
    n = len(ordered)
    if n == 1:
        return Pooled(ordered[0], None, None, None, 1)
    k, coverage = _interval(n)
    return Pooled(median(ordered), ordered[k - 1], ordered[n - k], coverage, n)


def pooled_fields(values: Sequence[float], brackets: Sequence[tuple[float, float]] = ()) -> dict[str, Any]:
    """The fields of `Pooled` by name, also of no value."""
    return vars(pool(values, brackets)) if values else {"value": None, "low": None, "high": None, "coverage": None, "n": 0}


@lru_cache(maxsize=256)
def _interval(n: int) -> tuple[int, float]:
    """(k, coverage) of the interval of `n` repeats."""
    k = next((k for k in range((n + 1) // 2, 0, -1) if _coverage(n, k) >= CONFIDENCE), 1)
    return k, _coverage(n, k)


def _coverage(n: int, k: int) -> float:
    return max(0.0, 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2.0**n)


@dataclass(frozen=True)
class _Name:
    metric: str


@dataclass(frozen=True)
class PooledMetric(Estimate, _Name):
    """Several measurements of one metric as a median with its interval, or None with the reason in words.

    `values`, in the catalogue's unit, and `trials` belong together: one entry for each measurement. `reason` is empty where there is a value.
    """

    values: tuple[float, ...]
    trials: tuple[str, ...]
    reason: str = ""


def pool_measurements(metric: str, measurements: Sequence[tuple[str, float]], reason: str) -> PooledMetric:
    """The measurements (trial id, value) of a metric pooled; `reason` says why there is none, and is dropped where there is one."""
    trials, values = tuple(trial for trial, _ in measurements), tuple(value for _, value in measurements)
    return PooledMetric(metric, **pooled_fields(values), values=values, trials=trials, reason="" if values else reason)
