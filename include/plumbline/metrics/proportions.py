"""Wilson's interval of a proportion, the binomial distribution, and how many observations a quantile or an interval needs. Standard library only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

CONFIDENCE = 0.95
QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
"""The percentiles that are reported, as quantiles."""


@dataclass(frozen=True)
class Proportion:
    """`successes` of `n` with Wilson's interval; all None when nothing was tried."""

    successes: int
    n: int
    ratio: float | None
    low: float | None
    high: float | None


def wilson_interval(successes: int, n: int) -> Proportion:
    """Wilson's score interval: keeps its promise at 0 of n and n of n, where the textbook interval has no width."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}; expected 0 <= successes <= n")
    if n == 0:
        return Proportion(0, 0, None, None, None)
    z = _z(CONFIDENCE)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # At the ends the interval touches 0 or 1 exactly; rounding must not push it past.
    return Proportion(successes, n, p, 0.0 if successes == 0 else centre - half, 1.0 if successes == n else centre + half)


def min_observations_for_quantile(q: float) -> int:
    """Observations from which on the q-quantile (0 < q < 1) has a value at all: at least one is expected beyond it."""
    return math.ceil(round(1 / (1 - q), 6))


def min_observations_for_interval(q: float) -> int:
    """Observations from which on two order statistics enclose the q-quantile with 95 % confidence, whatever the distribution.

    Both extremes together do so once P(all below) = q^n and P(all above) = (1-q)^n are each at most half of what the confidence leaves.
    """
    return math.ceil(math.log((1 - CONFIDENCE) / 2) / math.log(max(q, 1 - q)))


def sample_size_for_margin(share: float, margin: float, confidence: float = CONFIDENCE) -> int:
    """Observations after which a share (0 … 1) is known to within ± `margin`, by the normal approximation of the binomial: z² p (1-p) / m².

    MLPerf's counts for a latency percentile are this formula at 99 % confidence with a twentieth of 1-p as the margin.
    """
    return round(_z(confidence) ** 2 * share * (1 - share) / margin**2)


def min_successes_to_prove(share: float) -> int:
    """Tries without a single failure after which Wilson's lower bound reaches `share` (0 < share < 1)."""
    if not 0 < share < 1:
        raise ValueError(f"share {share:g}; expected one between 0 and 1")
    z = _z(CONFIDENCE)
    return math.ceil(share * z * z / (1 - share))


def binomial_at_most(successes: int, n: int, p: float) -> float:
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


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2)
