"""Which candidates are changes: each boundary must pass four tests against its two neighbouring segments, the weakest goes first.

size         the levels differ by the caller's floor
evidence     log likelihood ratio of two levels against one under Student-t noise with 3 degrees of freedom: a wild repeat costs a
             few units whatever its height, so that spikes neither make a change nor hide one. The nominal level is 0.006 % at 12 points
             and 12 / n of that at n: a series has n places to change and is looked at after every point. With it at most 1 % of
             normal series alarm in 24 points (tests/unit/drift/series/test_false_alarms.py simulates that)
superiority  a point after the change lies beyond a point before it with a probability of 85 %: modes that alternate do not
ranks        Mann–Whitney p ≤ 1 %, or the segments are too short for that and do not overlap at all

The newest segment needs four points: three equal wild ones are common on real machines, and one campaign's wait costs less than an alarm.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from plumbline.drift.series.points import FEWEST, Array, scatter_within

CONFIRMED_BY = 4
"""Points that the newest segment must have."""
REACH = 250
"""Points of each neighbouring segment that judge a boundary: nearer ones say more, and long series stay fast."""
_LEVEL = 6e-5
_SPENT = 1
_SUPERIORITY = 0.85
_RANK_Z = 2.5758  # two-sided 1 %
_TAILS = 3.0
_FAR = 2.0


@dataclass(frozen=True)
class Boundary:
    """A boundary that holds: levels on the analysis scale, and the p of its evidence."""

    at: int
    before: float
    after: float
    p: float


def prune(y: Array, candidates: list[int], floor: float) -> tuple[list[Boundary], float]:
    """The boundaries that pass every test, ascending, and the scatter within the segments between them; `floor` on the analysis scale."""
    edges = [0, *candidates, len(y)]
    while True:
        levels = [float(np.median(y[i:j])) for i, j in itertools.pairwise(edges)]
        noise = scatter_within(y, edges, levels)
        judged = [_judge(y, edges, k, noise, floor) for k in range(1, len(edges) - 1)]
        strength = [math.inf, *(s for s, _ in judged), math.inf]
        # Of neighbours that fail, only the weakest goes: what it was merged with may hold afterwards.
        failed = {
            k for k in range(1, len(edges) - 1) if strength[k] < 1 and strength[k] <= strength[k - 1] and strength[k] < strength[k + 1]
        }
        if not failed:
            lasting = [Boundary(edges[k], levels[k - 1], levels[k], p) for k, (_, p) in enumerate(judged, 1) if strength[k] >= 1]
            return lasting, noise
        edges = [edge for k, edge in enumerate(edges) if k not in failed]


def _judge(y: Array, edges: list[int], k: int, noise: float, floor: float) -> tuple[float, float]:
    """(the least ratio of what was found to what is needed, p): below 1 the boundary fails."""
    at = edges[k]
    before, after = y[max(edges[k - 1], at - REACH) : at], y[at : min(edges[k + 1], at + REACH)]
    m, n = len(before), len(after)
    old, new = _level(before, noise), _level(after, noise)
    both = np.concatenate([before, after])
    one = min(_surprise(both, level, noise) for level in (old, new, _level(both, noise)))
    evidence = max(0.0, one - _surprise(before, old, noise) - _surprise(after, new, noise))
    needed = _SPENT * math.log(min(len(y), 2 * REACH) / FEWEST) - math.log(_LEVEL)
    ranked = np.sort(before)
    above = float(np.mean(np.searchsorted(ranked, after, "left") + np.searchsorted(ranked, after, "right"))) / (2 * m)
    superior = above if new > old else 1 - above
    spread = math.sqrt((m + n + 1) / (12 * m * n))  # of `superior`, if nothing changed
    strength = min(
        abs(new - old) / floor,
        evidence / needed,
        superior / _SUPERIORITY,
        (superior - 0.5) / min(_RANK_Z * spread, 0.5),
    )
    if edges[k + 1] == len(y) and edges[k + 1] - at < CONFIRMED_BY:
        strength = min(strength, 0.5)
    return strength, math.exp(-evidence)


def _level(y: Array, noise: float) -> float:
    """The mean, with what lies far from the median pulled in: nearly as exact as the mean, and no spike moves it much."""
    middle = float(np.median(y))
    return middle + float(np.clip(y - middle, -_FAR * noise, _FAR * noise).mean())


def _surprise(y: Array, level: float, noise: float) -> float:
    """Negative log likelihood of Student-t noise about `level`, less its constant."""
    return float((_TAILS + 1) / 2 * np.log1p(((y - level) / noise) ** 2 / _TAILS).sum())
