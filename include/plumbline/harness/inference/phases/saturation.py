"""Which rate a search tries next, and what a probe proves. Pure: probes in, decisions out; no clock, so tests run it in virtual time.

From the lower end the rate is doubled until a probe fails (or the upper end passes). Then the geometric middle of the highest rate that
passed and the lowest that failed is tried, until the two are within the tolerance or the search's seconds are used up.

Two kinds of probe. A quick one costs little and shows gross overload; from an empty server it also passes an overload x as long as x times its
seconds fits into the latency limits. A rate holds only after a confirming run: long enough that a growing queue shows, with the share of good
requests above the target and no growth of the latency (`growth_of`) beyond half of the tolerance, which the bracket cannot tell apart.
Quick probes narrow the bracket to four tolerances, confirming runs do the rest. One that fails, ended early or not, shows by its slope what was
served: quick probes that passed above that are void, and the next confirming runs go just below and just above it. A failure that the result rests on is looked at twice: a
machine that was disturbed for a second has failed once.

n requests of which g were good prove a share p if Wilson's interval of g / n lies above p, and disprove it if it lies below. While the interval
contains the target, or the latency grew without a clear trend, the rate is open. The search looks for one that holds below it, comes back with
more confirming runs, and judges all runs of the rate as one, until that is decided or the seconds are used up; then the share and the slope
themselves decide, and the result says so. Where even all the seconds left without a bad request could prove nothing, they decide at once. The interval takes requests for independent; they share a queue, so
"surely" is a little less than the 95 % it says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.workloads.load import Search
from plumbline.metrics.proportions import CONFIDENCE, min_successes_to_prove, wilson_interval

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

    A queue that grows has no steady state, however short it still is.
    Theil-Sen's slope over the medians of 12 windows: single slow requests do not move it. Its test is Mann-Kendall's, whose variance is
    multiplied by (1 + r) / (1 - r) for the first autocorrelation r of what the slope leaves (Bayley and Hammersley 1946): a queue near its
    capacity remembers, and windows that resemble their neighbours prove less than as many independent ones. The first residence time does not
    count: until the first answers leave an empty server, no request waits for another.
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


Ending = Literal["between", "upper_end", "lower_end", "client_limited"]
"""between      the rate lies between one that held and one that did not
upper_end       the upper end of the declared range passed: the rate is at least that
lower_end       the lower end did not hold, twice: the rate is less than that
client_limited  twice in a row a probe failed in which the client itself was the limit: nothing above what held is known"""

_RESIDENCES = 5
"""A confirming run is at least so many times as long as a request stays in the server: before that a queue has hardly begun."""
_QUICK_UNTIL = 4
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Planned:
    """The next probe: `rate` × `seconds` is a whole number of requests."""

    rate: float
    seconds: float
    confirming: bool


@dataclass(frozen=True)
class Probe:
    """The result of a probe: `n` requests of which at most `good` can be good, in `seconds` of load.

    `hopeless`: ended early, since that cannot suffice. `client_limited`: why the client was the limit. `residence_s`: the median latency of
    the good requests."""

    rate: float
    n: int
    good: int
    seconds: float
    confirming: bool
    hopeless: bool = False
    client_limited: str | None = None
    residence_s: float = 0.0
    growth: Growth | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict of all probes of one rate that belong together. `holds` None: undecided. `sure`: by confidence, not by share and slope alone."""

    holds: bool | None
    sure: bool
    share: float
    low: float
    high: float


@dataclass
class Saturation:
    """The search's state. `held`: the highest rate that a confirming run proved; `failed`: the lowest rate above it that did not hold."""

    search: Search
    held: float | None = None
    failed: float | None = None
    ending: Ending | None = None
    spent_s: float = 0.0
    probes: list[tuple[Probe, Verdict]] = field(default_factory=list)
    _passed: dict[float, float] = field(default_factory=dict)  # rate: residence
    _failures: dict[float, int] = field(default_factory=dict)  # rate: how often; 0 while it is open
    _slopes: dict[float, float] = field(default_factory=dict)  # rate: growth in its last confirming run
    _open: dict[float, list[Probe]] = field(default_factory=dict)  # rate: confirming runs that are judged as one
    _void: Probe | None = None

    def next_probe(self) -> Planned | None:
        """The probe to run now; None when the search is over."""
        planned = None if self.ending is not None else self._plan()
        return planned if planned is None or planned.seconds <= self._left_s * _ROUNDING else None

    def learn(self, probe: Probe) -> Verdict:
        self.spent_s += probe.seconds
        runs = [*(self._open.pop(probe.rate, []) if probe.confirming else []), probe]
        verdict = self._judge(runs)
        limited = not verdict.holds and probe.client_limited is not None
        if limited:
            verdict = replace(verdict, holds=None, sure=False)
        self.probes.append((probe, verdict))
        if limited:
            # What the client did not manage says nothing of the server. It may have been disturbed for a moment, so it gets a second chance.
            self.ending = "client_limited" if self._void else None
            self._void = probe
            return verdict
        self._void = None
        self._file(probe, verdict, runs)
        self.failed = min(self._failures, default=None)
        self._end(probe.rate)
        return verdict

    def _file(self, probe: Probe, verdict: Verdict, runs: list[Probe]) -> None:
        """Where the rate belongs now. One that is open does not count as held, and is looked at again once the bracket is narrow."""
        rate, failures = probe.rate, self._failures.pop(probe.rate, 0)
        if probe.confirming and probe.growth is not None:
            self._slopes[rate] = max(0.0, probe.growth.slope)
        if verdict.holds is None and probe.confirming:
            self._open[rate] = runs
        # While nothing has failed a rate in doubt is no failure: a higher one shows more requests in the same time.
        if verdict.holds or (verdict.holds is None and (self.failed is None or not probe.confirming)):
            self._passed[rate] = probe.residence_s
            self.held = rate if verdict.holds and probe.confirming else self.held
            return
        self._passed.pop(rate, None)
        self.held = None if rate == self.held else self.held
        if verdict.holds is False and rate in self._slopes:
            # A quick probe also passes what was offered beyond what this run saw served.
            served = max(self.held or 0.0, rate / (1 + self._slopes[rate]))
            self._passed = {other: residence_s for other, residence_s in self._passed.items() if other <= served}
        self._failures[rate] = failures if verdict.holds is None else failures + 1

    @property
    def known(self) -> bool:
        return self.held is not None and self._narrow(self.held, 1)

    @property
    def highest(self) -> float | None:
        """The highest rate that held, once one above it did not; None if the search cannot say."""
        return self.held if self.failed is not None and self.ending != "client_limited" else None

    @property
    def _left_s(self) -> float:
        return self.search.budget_s - self.spent_s

    @property
    def _floor(self) -> float | None:
        """The highest rate below the failed one that passed, be it a quick probe."""
        return max((rate for rate in self._passed if self.failed is None or rate < self.failed), default=None)

    @property
    def _confirming_s(self) -> float:
        """Whole probes, so that a rate that was probed can be confirmed exactly; at most a third of all seconds."""
        probe, floor = self.search.probe, self._floor
        wanted = max(self.search.confirm or probe, _RESIDENCES * (self._passed[floor] if floor is not None else 0.0))
        return float(probe * max(1, min(math.ceil(wanted / probe / _ROUNDING), int(self.search.budget_s / probe / 3))))

    def _narrow(self, low: float, tolerances: int) -> bool:
        if self.failed is None:
            return False
        # Rates closer than two requests in a probe's time have no whole number of requests between them.
        return bool(
            self.failed <= low * (1 + self.search.tolerance) ** tolerances * _ROUNDING or (self.failed - low) * self.search.probe < 1.5
        )

    def _plan(self) -> Planned | None:
        if self._void is not None:
            return Planned(self._void.rate, self._confirming_s if self._void.confirming else self.search.probe, self._void.confirming)
        (low, high), floor, failed = self.search.between, self._floor, self.failed
        if failed is None:
            return self._quick(low if floor is None else min(2 * floor, high))
        if floor is None:
            return self._confirming(low)  # the lower end, which failed once or is open
        runs = int(self._left_s * _ROUNDING / self._confirming_s)
        if self.known:
            return self._confirming(failed)  # it failed once or is open; a second failure ends the search
        # A queue that grew tells what was served: just below that is nearer than the middle, where what passed is far away.
        served = failed / (1 + self._slopes.get(failed, math.inf)) / (1 + self.search.tolerance)
        if self._narrow(floor, 1) or (self.held is None and runs <= (1 if served > floor else 2)):
            return self._confirming(floor)
        above = self._whole(served * (1 + self.search.tolerance) ** 2)
        if floor == self.held and floor < above < failed:
            return self._confirming(above)
        middle = math.sqrt(floor * failed)
        if served > middle:
            return self._confirming(served)
        return self._confirming(middle) if self._narrow(floor, _QUICK_UNTIL) else self._quick(middle)

    def _quick(self, rate: float) -> Planned:
        if self._confirming_s <= self.search.probe:
            return self._confirming(rate)
        return Planned(self._whole(rate), self.search.probe, False)

    def _confirming(self, rate: float) -> Planned:
        return Planned(self._whole(rate), self._confirming_s, True)

    def _whole(self, rate: float) -> float:
        """The rate that a whole number of requests in a probe's time offers."""
        return float(max(1, round(rate * self.search.probe)) / self.search.probe)

    def _end(self, rate: float) -> None:
        low, high = (self._whole(end) for end in self.search.between)
        if self.failed is None:
            self.ending = "upper_end" if rate >= high else None
        elif self._floor is None:
            self.ending = "lower_end" if self._failures.get(low, 0) > 1 else None
        elif self.known and (self._failures[self.failed] > 1 or self._left_s * _ROUNDING < self._confirming_s):
            self.ending = "between"

    def summary(self) -> str:
        share, (low, high) = f"{self.search.goodput:.4g}", self.search.between
        n = f"{len(self.probes)} probes"
        if self.ending == "client_limited":
            probe = self.probes[-1][0]
            known = f"{self.held:.4g}/s held before" if self.held else "no rate held before"
            return f"the client, not the server, was the limit at {probe.rate:.4g}/s ({probe.client_limited}); {known}"
        if self.ending == "upper_end":
            return f"the server held the upper end, {high:.4g}/s, with a good share of {share}: its highest rate is above that ({n})"
        if self.ending == "lower_end":
            return f"the lower end, {low:.4g}/s, did not hold with a good share of {share} ({n})"
        if self.held is None or self.failed is None:
            held = "no rate held in a confirming run" if self.held is None else f"{self.held:.4g}/s held"
            failed = "no rate failed" if self.failed is None else f"{self.failed:.4g}/s did not"
            return f"all {self.search.budget_s:.4g} s used ({n}): {held} and {failed}"
        own = [(probe.rate, verdict) for probe, verdict in self.probes if probe.rate in (self.held, self.failed)]
        doubtful = sorted({rate for rate, verdict in own if verdict.holds is not None and not verdict.sure})
        unsure = f"; decided by the share alone, without confidence: {', '.join(f'{rate:.4g}/s' for rate in doubtful)}" if doubtful else ""
        wide = "" if self.known else f", wider than the tolerance of {self.search.tolerance:.2g}"
        return f"{self.held:.4g}/s held and {self.failed:.4g}/s did not ({n}{wide}{unsure})"

    def _judge(self, probes: list[Probe]) -> Verdict:
        target, last = self.search.goodput, probes[-1]
        n, good = sum(p.n for p in probes), sum(p.good for p in probes)
        interval = wilson_interval(good, n)
        assert interval.ratio is not None and interval.low is not None and interval.high is not None
        shares = (interval.ratio, interval.low, interval.high)
        growth = pooled_growth([p.growth for p in probes if p.growth is not None])
        # A quick probe's slope is known less well, and only narrows the bracket.
        grew = growth is not None and growth.slope > self.search.tolerance / 2 * (1 if last.confirming else _QUICK_UNTIL)
        if last.hopeless or interval.high < target or (growth is not None and grew and growth.sure()):
            return Verdict(False, True, *shares)
        if interval.low >= target and not grew:
            return Verdict(True, True, *shares)
        if not last.confirming:
            return Verdict(True if interval.ratio >= target else None if self.failed is None else False, False, *shares)
        # All requests of every probe good is the only proof of a share of 1 there is.
        provable = target < 1 and n + last.rate * self._left_s >= min_successes_to_prove(target)
        if provable and self._left_s * _ROUNDING >= self._confirming_s:
            return Verdict(None, False, *shares)
        return Verdict(interval.ratio >= target and not grew, False, *shares)


def cannot_hold(bad: int, n: int, target: float) -> bool:
    """`bad` failed requests of n miss `target` even if all the others are good."""
    high = wilson_interval(n - bad, n).high
    return high is not None and high < target
