"""What a load's request log shows of a queue: whether the wait grows, whether the server has settled, and how much it served. Pure.

Three different things look alike in the first minute of a load. A queue grows, for good. A server that steps all present sequences together
fills: each request is slower than the one before until as many leave as come, for a server near its capacity after minutes. And a queue near
its capacity wanders. The wait for the first answer tells the first from the second: it grows only once a request has to wait for a place.
The backlog over the latter half of the load tells whether anything still moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from plumbline.loadclient.request_log import RequestLog
from plumbline.metrics.proportions import CONFIDENCE

_WINDOWS = 12
_MIN_REQUESTS = 45
"""Two seconds at 25/s are enough: from an empty server they pass an overload of a fifth, which only the slope shows."""
_LONGEST_START = 0.25
_FLOW_WINDOWS = 24
_Z = NormalDist().inv_cdf(CONFIDENCE)
_Z_GROWS = NormalDist().inv_cdf(0.99)
"""A rate that is refused although it holds costs a search more than one that needs another look."""
_NEAR = 0.8


@dataclass(frozen=True)
class Growth:
    """`slope`: seconds of wait a second of schedule. A server that is offered (1 + x) times its capacity has a slope of x.

    `z`: the one-sided Mann-Kendall statistic of a rising trend."""

    slope: float
    z: float

    def sure(self) -> bool:
        """Whether the trend is no chance, one-sided."""
        return self.z > _Z_GROWS


@dataclass(frozen=True)
class Flow:
    """`served`: requests a second that the server worked off in the latter two thirds of a load, a part answered counting as that part;
    `growth`: seconds of backlog a second of schedule in its latter half, as `Growth.slope`. Each with its standard error."""

    served: float
    served_error: float
    growth: float
    growth_error: float

    def settled(self, limit: float) -> bool:
        """Whether the backlog grows by less than `limit`, one-sided at the confidence of every interval."""
        return self.growth + _Z * self.growth_error <= limit

    def grows(self, limit: float) -> bool:
        return self.growth - _Z_GROWS * self.growth_error > limit


@dataclass(frozen=True)
class Ceiling:
    """Requests a second that the server worked off while more were offered, with its interval."""

    rate: float
    low: float
    high: float


def growth_of(scheduled: NDArray[np.float64], wait: NDArray[np.float64], duration_s: float) -> Growth | None:
    """Growth of the waits (seconds, [n]) of requests scheduled at seconds [n], rising, of a load of `duration_s`; None with too few of them.

    A queue that grows has no steady state, however short it still is.
    Theil-Sen's slope over the medians of 12 windows: single slow requests do not move it. Its test is Mann-Kendall's, whose variance is
    multiplied by (1 + r) / (1 - r) for the first autocorrelation r of what the slope leaves (Bayley and Hammersley 1946): a queue near its
    capacity remembers, and windows that resemble their neighbours prove less than as many independent ones. The first residence time does not
    count: until the first answers leave an empty server, no request waits for another.
    """
    begun = scheduled >= min(float(np.median(wait)), _LONGEST_START * duration_s) if len(wait) else np.zeros(0, bool)
    if np.count_nonzero(begun) < _MIN_REQUESTS:
        return None
    at, took = (np.array_split(values[begun], _WINDOWS) for values in (scheduled, wait))
    # In whole microseconds: the last bits of equal latencies are no order.
    x, y = np.array([float(np.mean(part)) for part in at]), np.array([round(float(np.median(part)), 6) for part in took])
    first, second = np.triu_indices(_WINDOWS, 1)
    rises = y[second] - y[first]
    slope = float(np.median(rises / (x[second] - x[first])))
    variance = _WINDOWS * (_WINDOWS - 1) * (2 * _WINDOWS + 5) / 18 * _memory(y - slope * x)
    score = float(np.sign(rises).sum())
    return Growth(slope, (score - np.sign(score)) / math.sqrt(variance))


def pooled_growth(runs: Sequence[Growth]) -> Growth | None:
    """Several runs at one rate: their mean slope, and Stouffer's sum of their statistics; None of none."""
    if not runs:
        return None
    return Growth(float(np.mean([run.slope for run in runs])), sum(run.z for run in runs) / math.sqrt(len(runs)))


def wait_growth(log: RequestLog, duration_s: float, known_s: float = math.inf) -> Growth | None:
    """Growth of the wait for the first answer over `duration_s` seconds of load, by what was known at second `known_s`; None with too few requests."""
    first = log.first_token
    seen = log.ok & (log.scheduled < duration_s) & (first <= known_s)
    if np.count_nonzero(seen) < _MIN_REQUESTS:
        return None
    wait = first - log.scheduled
    if math.isfinite(known_s):
        # Of those that came last only the quick ones were answered: they do not count.
        recent = wait[seen & (log.scheduled >= np.quantile(log.scheduled[seen], 0.75))]
        seen &= log.scheduled <= known_s - float(np.quantile(recent, 0.9))
    order = np.argsort(log.scheduled[seen], kind="stable")
    return growth_of(log.scheduled[seen][order], wait[seen][order], duration_s)


def flow_of(log: RequestLog, until_s: float) -> Flow | None:
    """What the server worked off in `until_s` seconds of load, without their first part; None with too few requests.

    By answered parts, not by answered requests: a server that began empty answers in waves, and works evenly. A request that failed is worked
    off when it failed. The growth is the least-squares slope of the backlog; its error allows for the autocorrelation of what it leaves.
    """
    at, parts = _work(log)
    order = np.argsort(at, kind="stable")
    at, total = at[order], np.concatenate([[0.0], np.cumsum(parts[order])])
    third, edges = (np.linspace(from_s, until_s, _FLOW_WINDOWS + 1) for from_s in (until_s / 3, until_s / 2))
    each = np.diff(total[np.searchsorted(at, third, side="right")])
    served, width = float(each.sum()) / (third[-1] - third[0]), third[1] - third[0]
    arrived = np.searchsorted(np.sort(log.scheduled[np.isfinite(log.scheduled)]), edges).astype(np.float64)
    if arrived[-1] - arrived[0] < _MIN_REQUESTS / 2 or served <= 0:
        return None
    backlog, x = arrived - total[np.searchsorted(at, edges, side="right")], edges - edges.mean()
    slope = float(x @ backlog / (x @ x))
    rest = backlog - backlog.mean() - slope * x
    error = math.sqrt(float(rest @ rest) / (len(x) - 2) / float(x @ x) * _memory(rest))
    spread = float(np.std(each, ddof=1)) / width / math.sqrt(_FLOW_WINDOWS) * math.sqrt(_memory(each, least=-0.3))
    return Flow(served, spread, slope / served, error / served)


def pooled_ceiling(flows: Sequence[Flow], least: float = 0.002) -> Ceiling | None:
    """What several overloaded runs say of one server: weighted by their precision, of which each has at most `least`; None of none."""
    if not flows:
        return None
    errors = np.array([max(flow.served_error, least * flow.served) for flow in flows])
    served = np.array([flow.served for flow in flows])
    weights = errors**-2.0
    rate = float(served @ weights / weights.sum())
    # Runs that differ by more than each of them explains: the spread of the runs counts.
    excess = max(1.0, float((((served - rate) / errors) ** 2).sum()) / max(1, len(flows) - 1))
    half = _Z * math.sqrt(excess / float(weights.sum()))
    return Ceiling(rate, rate - half, rate + half)


def dependence(used: NDArray[np.float64], target: float) -> float:
    """By how much the variance of a share of good requests exceeds that of as many independent ones, at least 1.

    `used` [n], in order of arrival: the part of its limits that each request used, above 1 of those that missed one. Requests share a queue and
    the steps of a batch, and miss a limit together. Where `target` of them use less than four fifths, no wave of the queue decides."""
    used = np.minimum(np.nan_to_num(used, nan=2.0, posinf=2.0), 2.0)
    if len(used) < 2 * _WINDOWS or np.mean(used <= _NEAR) >= target:
        return 1.0
    parts = np.array_split(used, _WINDOWS)
    means = np.array([part.mean() for part in parts])
    within = float(np.mean([part.var(ddof=1) for part in parts])) / (len(used) / _WINDOWS)
    between = float(means.var(ddof=1)) * _memory(means)
    return min(float(len(used)), max(1.0, between / within)) if within > 0 else float(len(used)) if between > 0 else 1.0


def _memory(rest: NDArray[np.float64], least: float = 0.0) -> float:
    """By how much autocorrelation multiplies the variance of a mean or a slope of these values; one below `least` is taken for it."""
    rest = rest - rest.mean()
    squares = float(rest @ rest)
    r = max(least, sum(a * b for a, b in pairwise(rest.tolist())) / squares) if squares > 0 else 0.0
    return (1 + r) / (1 - r)


def _work(log: RequestLog) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Moments and sizes of the parts in which requests were worked off: a token of m is a part of 1/m; what failed is done at its end."""
    wanted = np.diff(log.first_token_of)
    token = np.isfinite(log.token_at)
    whole = np.where(log.ok & np.isfinite(log.ended) & (log.received > 0), np.minimum(log.received, wanted), wanted)
    parts = np.repeat(1.0 / np.maximum(whole, 1), wanted)[token]
    failed = np.isfinite(log.ended) & ~log.ok
    at = np.concatenate([log.token_at[token], log.ended[failed]])
    left = 1.0 - np.bincount(np.repeat(np.arange(log.load.n), wanted)[token], parts, minlength=log.load.n)
    return at, np.concatenate([parts, left[failed]])
