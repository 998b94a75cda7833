"""Quantiles as observed values, and their distribution-free confidence intervals from order statistics. Needs numpy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from plumbline.metrics.proportions import CONFIDENCE, min_observations_for_quantile
from plumbline.metrics.proportions import QUANTILES as PERCENTILES

__all__ = ["PERCENTILES", "Values", "interval", "percentile", "rank", "supported"]

Values = NDArray[np.float64]


def rank(n: int, q: float) -> int:
    """Rank (from 1) of the q-quantile of n values: the smallest value that at least a share q of them does not exceed."""
    # The product of two exact decimals (0.95 × 20) may come out just above the integer that it is.
    return min(max(math.ceil(round(n * q, 9)), 1), n)


def percentile(ordered: Values, q: float) -> float:
    """The q-quantile of ascending values [n], always one of them; NaN without values.

    Interpolating would invent a latency, and between a finite and an infinite value it is meaningless."""
    return float(ordered[rank(len(ordered), q) - 1]) if len(ordered) else math.nan


def supported(n: int, q: float) -> bool:
    """Whether n values can speak of their q-quantile at all: at least one is expected beyond it."""
    return n >= min_observations_for_quantile(q)


def interval(ordered: Values, q: float) -> tuple[float, float] | None:
    """The order statistics between which the q-quantile lies with at least 95 % confidence, for independent values.

    None if there are too few values for that, or the upper one is infinite (requests that failed).
    """
    n = len(ordered)
    if n == 0:
        return None
    # Below the quantile lie Binomial(n, q) many values.
    k = np.arange(n + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    log_pmf = log_factorial[n] - log_factorial[k] - log_factorial[n - k] + k * math.log(q) + (n - k) * math.log1p(-q)
    below = np.cumsum(np.exp(log_pmf))
    tail = (1 - CONFIDENCE) / 2
    low = int(np.searchsorted(below, tail, side="right"))
    high = int(np.searchsorted(below, 1 - tail, side="left")) + 1
    if low < 1 or high > n or not math.isfinite(ordered[high - 1]):
        return None
    return float(ordered[low - 1]), float(ordered[high - 1])
