"""Statistics of step times. No assumption about their distribution beyond that steps are alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

_EXACT_UP_TO = 1000
_TREND_BLOCKS = 5
_TREND_LEAST_STEPS = 45
_TREND_LEAST_CHANGE = 0.05
_SETTLED_BLOCK = 5
_SETTLED_LEAST_STEPS = 45
_SETTLED_LEAST_LEFT = 6
_SETTLED_OVERLAP = 0.05


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


def settled_from(values: Sequence[float]) -> int:
    """From which value on a series no longer changes: how many at its beginning are to be left out. 0 if too few to say.

    MSER-5 (White 1997), made deaf to bursts: blocks of 5 values, each by its median; of all cuts that leave 6 blocks, the one after which
    the rest tells its mean best, that is with the least sum of squared deviations over the squared number of blocks. A cut counts only if
    what it leaves out is clearly different: its median is 5 % away from the rest's, and at most 1 in 20 blocks of either is on the other
    side of the other's median. So a burst in the middle leaves nothing out, and noise seldom more than a block or two.
    """
    n = len(values)
    if n < _SETTLED_LEAST_STEPS:
        return 0
    count = n // _SETTLED_BLOCK
    first = n - count * _SETTLED_BLOCK  # what is over belongs to the first block: it is the one in doubt
    blocks = np.median(np.asarray(values[first:]).reshape(count, _SETTLED_BLOCK), axis=1)
    cuts = [cut for cut in range(count - _SETTLED_LEAST_LEFT + 1) if cut == 0 or _apart(blocks[:cut], blocks[cut:])]
    best = min(cuts, key=lambda cut: float(np.var(blocks[cut:])) / (count - cut))
    return first + best * _SETTLED_BLOCK if best else 0


def _apart(head: npt.NDArray[np.float64], rest: npt.NDArray[np.float64]) -> bool:
    middle, usual = float(np.median(head)), float(np.median(rest))
    slower = middle > usual
    mixed = max(float(np.mean((rest >= middle) == slower)), float(np.mean((head <= usual) == slower)))
    return abs(middle / usual - 1.0) >= _TREND_LEAST_CHANGE and mixed <= _SETTLED_OVERLAP
