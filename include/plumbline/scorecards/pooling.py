"""Several repeats into one number with an interval, and a ratio into one that admits how little a few launches prove."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Pooled:
    """The median over repeats with an order-statistic interval; `coverage` is the confidence that the interval really has.

    The interval makes no assumption about the distribution: between the k-th smallest and k-th largest of n repeats lies the true
    median with probability 1 - 2·P(Binomial(n, ½) < k). The largest k that keeps 95 % is taken; below six repeats even smallest to
    largest cannot reach 95 %, and the honest coverage (50 % for two, 75 % for three) is given with it. One repeat has no interval.
    """

    value: float
    low: float | None
    high: float | None
    coverage: float | None
    n: int


def pool(values: Sequence[float]) -> Pooled:
    """Pool at least one value; ValueError on none."""
    if not values:
        raise ValueError("nothing to pool; expected at least one value")
    ordered = sorted(values)
    n = len(ordered)
    if n == 1:
        return Pooled(ordered[0], None, None, None, 1)
    k = next((k for k in range((n + 1) // 2, 0, -1) if _coverage(n, k) >= CONFIDENCE), 1)
    return Pooled(median(ordered), ordered[k - 1], ordered[n - k], _coverage(n, k), n)


def _coverage(n: int, k: int) -> float:
    return max(0.0, 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2.0**n)


@dataclass(frozen=True)
class Share:
    """`successes` of `n` with Wilson's interval; all None when nothing was tried."""

    successes: int
    n: int
    ratio: float | None
    low: float | None
    high: float | None


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Share:
    """Wilson's score interval: keeps its promise at 0 of n and n of n, where the textbook interval has no width."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}; expected 0 <= successes <= n")
    if n == 0:
        return Share(0, 0, None, None, None)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # At the ends the interval touches 0 or 1 exactly; rounding must not push it past.
    return Share(successes, n, p, 0.0 if successes == 0 else centre - half, 1.0 if successes == n else centre + half)


def at_most(successes: int, n: int, p: float) -> float:
    """Probability of at most that many successes in `n` tries that each succeed with probability `p`."""
    if successes >= n or p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    logs = (
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
        for k in range(successes + 1)
    )
    return min(1.0, math.fsum(math.exp(log) for log in logs))


def launches_to_prove(target: float, confidence: float = CONFIDENCE) -> int:
    """Launches without a single failure after which Wilson's lower bound reaches `target` (0 < target < 1)."""
    if not 0 < target < 1:
        raise ValueError(f"target {target:g}; expected a share between 0 and 1")
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    return math.ceil(target * z * z / (1 - target))
