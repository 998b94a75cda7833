"""Whether the latency grows while a rate is offered: a queue that grows has no steady state, however short it still is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from plumbline.metrics.proportions import CONFIDENCE

_WINDOWS = 12
_MIN_REQUESTS = 45
"""Two seconds at 25/s are enough: from an empty server they pass an overload of a fifth, which only the slope shows."""
_LONGEST_START = 0.25


@dataclass(frozen=True)
class Growth:
    """`slope`: seconds of latency a second of schedule. A server that is offered (1 + x) times its capacity has a slope of x.

    `z`: the one-sided Mann-Kendall statistic of a rising trend."""

    slope: float
    z: float

    def sure(self) -> bool:
        """Whether the trend is no chance, one-sided."""
        return self.z > NormalDist().inv_cdf(CONFIDENCE)


def growth_of(scheduled: NDArray[np.float64], latency: NDArray[np.float64], duration_s: float) -> Growth | None:
    """Growth of the latencies (seconds, [n]) of requests scheduled at seconds [n], rising, of a load of `duration_s`; None with too few of them.

    Theil-Sen's slope over the medians of 12 windows: single slow requests do not move it. Its test is Mann-Kendall's, whose variance is
    multiplied by (1 + r) / (1 - r) for the first autocorrelation r of what the slope leaves (Bayley and Hammersley 1946): a queue near its
    capacity remembers, and windows that resemble their neighbours prove less than as many independent ones. The first residence time does not
    count: until the first answers leave an empty server, nobody waits for anybody.
    """
    begun = scheduled >= min(float(np.median(latency)), _LONGEST_START * duration_s) if len(latency) else np.zeros(0, bool)
    if np.count_nonzero(begun) < _MIN_REQUESTS:
        return None
    at, took = (np.array_split(values[begun], _WINDOWS) for values in (scheduled, latency))
    # In whole microseconds: the last bits of equal latencies are no order.
    x, y = np.array([float(np.mean(part)) for part in at]), np.array([round(float(np.median(part)), 6) for part in took])
    first, second = np.triu_indices(_WINDOWS, 1)
    rises = y[second] - y[first]
    slope = float(np.median(rises / (x[second] - x[first])))
    rest = y - slope * x
    rest -= rest.mean()
    squares = float(rest @ rest)
    r = max(0.0, sum(a * b for a, b in pairwise(rest.tolist())) / squares) if squares > 0 else 0.0
    variance = _WINDOWS * (_WINDOWS - 1) * (2 * _WINDOWS + 5) / 18 * (1 + r) / (1 - r)
    score = float(np.sign(rises).sum())
    return Growth(slope, (score - np.sign(score)) / math.sqrt(variance))


def pooled_growth(runs: Sequence[Growth]) -> Growth | None:
    """Several runs at one rate: their mean slope, and Stouffer's sum of their statistics; None of none."""
    if not runs:
        return None
    return Growth(float(np.mean([run.slope for run in runs])), sum(run.z for run in runs) / math.sqrt(len(runs)))
