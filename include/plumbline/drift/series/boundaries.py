"""Which candidates are changes: each boundary must pass four tests against its two neighbouring segments, the weakest goes first.

size         the levels differ by the caller's floor
evidence     the difference of two robust levels over its standard error, which one robust scatter of all segments gives: Student's t, with
             what the robust scatter costs in degrees of freedom. Its p must be 0.028 % at 12 points and that × (12 / n)² at n: a series
             is looked at after every point, and the sum over all looks stays finite. So at most 1 % of normal series alarm in 24 points
             (`make perf-drift` counts it)
superiority  a point after the change lies beyond a point before it with a probability of 80 %: modes that alternate do not
ranks        Mann–Whitney |z| ≥ 2.8, or the segments are too short for that and do not overlap at all: no shape of noise fools ranks

The newest segment needs four points: three equal wild ones are common on real machines, and one campaign's wait costs less than an alarm.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from plumbline.drift.series.points import FEWEST, Array, scatter_within

CONFIRMED_BY = 4
"""Points that the newest segment must have."""
REACH = 250
"""Points of each neighbouring segment that judge a boundary: nearer ones say more, and long series stay fast."""
_LEVEL = 2.8e-4
_SPENT = 2
_FREEDOM = 0.8  # of n − k degrees of freedom are left to a scatter that winsorizes
_SUPERIORITY = 0.8
_RANK_Z = 2.8
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


def allowed(points: int) -> float:
    """The p that a series of `points` may spend on one look."""
    return _LEVEL * (FEWEST / points) ** _SPENT


def p_of(t: float, freedom: int) -> float:
    """Two-sided p of a difference of `t` standard errors by a robust scatter from `freedom` degrees of freedom; never 0."""
    return max(2 * float(stdtr(max(1.0, _FREEDOM * freedom), -t)), 1e-300)


def standing_out(before: Array, after: Array, rising: bool) -> float:
    """How far `after` lies beyond `before` by ranks alone, as a ratio to what is needed: below 1 they mix too much."""
    ranked = np.sort(before)
    above = float(np.mean(np.searchsorted(ranked, after, "left") + np.searchsorted(ranked, after, "right"))) / (2 * len(before))
    superior = above if rising else 1 - above
    spread = math.sqrt((len(before) + len(after) + 1) / (12 * len(before) * len(after)))  # of `superior`, if nothing changed
    return min(superior / _SUPERIORITY, (superior - 0.5) / min(_RANK_Z * spread, 0.5))


def _judge(y: Array, edges: list[int], k: int, noise: float, floor: float) -> tuple[float, float]:
    """(the least ratio of what was found to what is needed, p): below 1 the boundary fails."""
    at = edges[k]
    before, after = y[max(edges[k - 1], at - REACH) : at], y[at : min(edges[k + 1], at + REACH)]
    moved = _level(after, noise) - _level(before, noise)
    p = p_of(abs(moved) / (noise * math.sqrt(1 / len(before) + 1 / len(after))), len(y) - len(edges) + 1)
    strength = min(abs(moved) / floor, math.log(p) / math.log(allowed(len(y))), standing_out(before, after, moved > 0))
    if edges[k + 1] == len(y) and edges[k + 1] - at < CONFIRMED_BY:
        strength = min(strength, 0.5)
    return strength, p


def _level(y: Array, noise: float) -> float:
    """The mean, with what lies far from the median pulled in: nearly as exact as the mean, and no spike moves it much."""
    middle = float(np.median(y))
    return middle + float(np.clip(y - middle, -_FAR * noise, _FAR * noise).mean())
