"""Statistics of step times. No assumption about their distribution beyond that steps are alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

_EXACT_UP_TO = 1000
_TREND_BLOCKS = 5
_TREND_LEAST_STEPS = 45
_TREND_LEAST_CHANGE = 0.05


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Confidence interval of the median from order statistics; None if there are too few values for that confidence.

    The number of values below the median is binomial(n, 1/2); the interval is the narrowest symmetric pair of order statistics
    that covers it with at least `confidence`.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail = (1.0 - confidence) / 2
    if n == 0 or 0.5**n > tail:
        return None
    if n <= _EXACT_UP_TO:
        below, rank = 0.5**n, 0  # P(binomial <= rank)
        while below + math.comb(n, rank + 1) * 0.5**n <= tail:
            rank += 1
            below += math.comb(n, rank) * 0.5**n
    else:
        rank = math.floor(n / 2 + NormalDist().inv_cdf(tail) * math.sqrt(n) / 2) - 1
    return ordered[rank], ordered[n - 1 - rank]


def trend(values: Sequence[float]) -> float | None:
    """Relative change from the first third to the last third of a series, if it is clear; else None.

    Clear means: at least 5 %, and the medians of five blocks of either third do not overlap (by chance in 2 of 252 orders, also
    when neighbouring values resemble each other within a block). Too few values to say are no trend.
    """
    n = len(values)
    if n < _TREND_LEAST_STEPS:
        return None
    third = n // 3
    first, last = (
        [float(np.median(block)) for block in np.array_split(np.asarray(part), _TREND_BLOCKS)] for part in (values[:third], values[-third:])
    )
    change = float(np.median(values[-third:]) / np.median(values[:third])) - 1.0
    apart = max(first) < min(last) or max(last) < min(first)
    return change if apart and abs(change) >= _TREND_LEAST_CHANGE else None
