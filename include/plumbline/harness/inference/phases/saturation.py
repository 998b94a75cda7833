"""Which rate a search tries next, and what a probe proves. Pure: probes in, decisions out; no clock, so tests run it in virtual time.

From near the lower end the rate is multiplied by four until a quick probe fails (or the upper end passes). A quick probe costs little and shows
gross overload; from an empty server it also passes an overload x as long as x times its seconds fits into the latency limits.

Then a confirming run offers a quarter more than the failed probe saw served, and shows what the server works off while more is offered: the
ceiling. That settles within a few residence times, where a rate just below the capacity settles in many. The next run has to hold just below it.
Where the limits fail first, and no queue grows, the geometric middle of what passed and what failed is tried.

A rate holds only after a confirming run whose share of good requests is above the target, whose wait does not grow (`growth_of`), and whose
backlog has settled (`Flow.settled`) within half of the tolerance, which the bracket cannot tell apart. It is extended while that is open, to five
times its seconds. It fails when the share surely misses the target, or when the wait and the backlog surely grow: a server that only fills has
a backlog that grows and a wait that does not. A failure that the result rests on is looked at twice: a machine that was disturbed for a
second has failed once.

n requests of which g were good prove a share p if Wilson's interval of g / n lies above p, and disprove it if it lies below; n and g are those
of as many independent requests (`dependence`). A rate that stays open is left for one below it and looked at again, all its runs as one,
until it is decided or the seconds are used up; then the share and the slope themselves decide, and the result says so. Where even all the
seconds left without a bad request could prove nothing, they decide at once. A result that rests on such a decision, or whose bracket is wider
than the tolerance, is not `certain`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from plumbline.declarations.workloads.load import Search
from plumbline.harness.inference.phases.growth import Ceiling, Flow, Growth, pooled_ceiling, pooled_growth
from plumbline.metrics.proportions import min_successes_to_prove, wilson_interval

Ending = Literal["between", "upper_end", "lower_end", "client_limited"]
"""between      the rate lies between one that held and one that did not
upper_end       the upper end of the declared range passed: the rate is at least that
lower_end       the lower end did not hold, twice: the rate is less than that
client_limited  twice in a row a probe failed in which the client itself was the limit: nothing above what held is known"""

_RESIDENCES = 5
"""A confirming run is at least so many times as long as a request stays in the server: before that a queue has hardly begun."""
_LONGEST = 5
"""A confirming run is extended to so many times its seconds at most."""
_MOST_REQUESTS = 100_000
"""An extended run has no more, because the prompts of all of it are made before it begins."""
_OVERLOAD = 1.25
"""So much more than a failed probe saw served is offered to see what the server works off: enough to fill it, and soon drained."""
_STRIDE = 4
"""The step of the rates until a first one fails."""
_QUICK_UNTIL = 4
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Planned:
    """The next probe: `rate` × `seconds` is a whole number of requests. From `at_least_s` on it ends as soon as its rate is decided. `overload`: it
    is to show what the server works off while more is offered, and does not end before that because it cannot hold."""

    rate: float
    seconds: float
    confirming: bool
    at_least_s: float
    overload: bool = False


@dataclass(frozen=True)
class RateProbe:
    """The result of a probe: `n` requests of which `good` were good, in `seconds` of load; of a confirming run those of its latter half.

    `hopeless`: ended early, since that cannot suffice. `client_limited`: why the client was the limit. `residence_s`: the median latency of
    the good requests. `dependence`: by how much the variance of their share exceeds that of independent ones."""

    rate: float
    n: int
    good: int
    seconds: float
    confirming: bool
    hopeless: bool = False
    client_limited: str | None = None
    residence_s: float = 0.0
    growth: Growth | None = None
    flow: Flow | None = None
    dependence: float = 1.0


@dataclass(frozen=True)
class RateVerdict:
    """The verdict of all probes of one rate that belong together. `holds` None: undecided. `sure`: by confidence, not by share and slope alone."""

    holds: bool | None
    sure: bool
    share: float
    low: float
    high: float


@dataclass
class Saturation:
    """The search's state. `held`: the highest rate that a confirming run proved; `failed`: the lowest rate above it that did not hold.

    `offset`: where the rates begin, 0 to 1 of their first step above the lower end."""

    search: Search
    offset: float = 0.0
    held: float | None = None
    failed: float | None = None
    ending: Ending | None = None
    spent_s: float = 0.0
    probes: list[tuple[RateProbe, RateVerdict]] = field(default_factory=list)
    _passed: dict[float, float] = field(default_factory=dict)  # rate: residence
    _failures: dict[float, int] = field(default_factory=dict)  # rate: how often; 0 while it is open
    _slopes: dict[float, float] = field(default_factory=dict)  # rate: growth in its last confirming run
    _open: dict[float, list[RateProbe]] = field(default_factory=dict)  # rate: confirming runs that are judged as one
    _flows: dict[float, Flow] = field(default_factory=dict)  # rate: what its last probe saw served
    _overloaded: list[Flow] = field(default_factory=list)  # of confirming runs in which the queue surely grew
    _confirmed: set[float] = field(default_factory=set)  # rates that had a confirming run
    _void: RateProbe | None = None

    def next_probe(self) -> Planned | None:
        """The probe to run now; None when the search is over."""
        planned = None if self.ending is not None else self._plan()
        return planned if planned is None or planned.at_least_s <= self._left_s * _ROUNDING else None

    def learn(self, probe: RateProbe) -> RateVerdict:
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

    def _file(self, probe: RateProbe, verdict: RateVerdict, runs: list[RateProbe]) -> None:
        """Where the rate belongs now. One that is open does not count as held, and is looked at again once the bracket is narrow."""
        rate, failures = probe.rate, self._failures.pop(probe.rate, 0)
        if probe.flow is not None:
            self._flows[rate] = probe.flow
        if probe.confirming:
            self._confirmed.add(rate)
            self._overload(probe, verdict)
        if probe.confirming and probe.growth is not None:
            self._slopes[rate] = max(0.0, probe.growth.slope)
        if verdict.holds is None and probe.confirming:
            self._open[rate] = runs
        # While nothing has failed a rate in doubt is no failure: a higher one shows more requests in the same time.
        if verdict.holds or (verdict.holds is None and (self.failed is None or not probe.confirming)):
            self._passed[rate] = probe.residence_s
            self.held = max(rate, self.held or 0.0) if verdict.holds and probe.confirming else self.held
            return
        self._passed.pop(rate, None)
        self.held = None if rate == self.held else self.held
        if verdict.holds is False and rate in self._slopes:
            # A quick probe also passes what was offered beyond what this run saw served.
            served = max(self.held or 0.0, self.ceiling.high if self.ceiling else rate / (1 + self._slopes[rate]))
            self._passed = {other: residence_s for other, residence_s in self._passed.items() if other <= served}
        self._failures[rate] = failures if verdict.holds is None else failures + 1

    def _overload(self, probe: RateProbe, verdict: RateVerdict) -> None:
        """Note what an overloaded server worked off. It cannot do more than it can: a run that served surely less was disturbed, or found
        a cache cold, and does not count."""
        grew = probe.growth is not None and probe.growth.sure() and probe.growth.slope > self.search.tolerance / 2
        if verdict.holds is not False or not grew or probe.flow is None or not probe.flow.grows(self.search.tolerance / 2):
            return
        self._overloaded.append(probe.flow)
        most = max(self._overloaded, key=lambda flow: flow.served)
        least = max(most.served * (1 - self.search.tolerance), self.held or 0.0)
        self._overloaded = [flow for flow in self._overloaded if flow.served + 2 * math.hypot(flow.served_error, most.served_error) > least]

    @property
    def ceiling(self) -> Ceiling | None:
        """What the server works off while more is offered; None until a confirming run showed it."""
        return pooled_ceiling(self._overloaded)

    @property
    def upper(self) -> float | None:
        """A rate that surely does not hold: the lowest that failed, or the highest that an overloaded server may have worked off."""
        if self.failed is None or self.ceiling is None:
            return self.failed
        return max(self.held or 0.0, min(self.failed, self.ceiling.high))

    @property
    def known(self) -> bool:
        if self.held is None or (self.ceiling is not None and self.ceiling.rate * (1 + self.search.tolerance / 2) < self.held):
            return False
        return self._narrow(self.held, 1)

    @property
    def certain(self) -> bool:
        """Whether the bracket is within the tolerance and both its ends were decided with confidence."""
        return self.known and not self._doubtful

    @property
    def bracket(self) -> tuple[float, float] | None:
        return None if self.held is None or self.upper is None else (self.held, self.upper)

    @property
    def highest(self) -> float | None:
        """The highest rate that the server sustains: the geometric middle between the one that held and the next that did not, or what an
        overloaded server worked off. None if the search cannot say."""
        if self.held is None or self.failed is None or self.ending == "client_limited":
            return None
        above = self.failed if self.ceiling is None else max(self.held, min(self.failed, self.ceiling.rate))
        return math.sqrt(self.held * above)

    @property
    def _doubtful(self) -> list[float]:
        """Rates of the bracket that were decided without confidence."""
        last = {probe.rate: verdict for probe, verdict in self.probes if verdict.holds is not None}
        ends = (self.held, self.failed if self.upper == self.failed else None)
        return sorted(rate for rate in ends if rate in last and not last[rate].sure)

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
        if self.failed is None or self.upper is None:
            return False
        # Rates closer than two requests in a probe's time have no whole number of requests between them.
        return bool(
            self.upper <= low * (1 + self.search.tolerance) ** tolerances * _ROUNDING or (self.upper - low) * self.search.probe < 1.5
        )

    def _plan(self) -> Planned | None:
        if self._void is not None:
            return self.confirming_run(self._void.rate) if self._void.confirming else self._quick(self._void.rate)
        (low, high), floor, failed = self.search.between, self._floor, self.failed
        if failed is None:
            return self._quick(min(low * math.pow(_STRIDE, self.offset) if floor is None else _STRIDE * floor, high))
        if floor is None:
            return self.confirming_run(low)  # the lower end, which failed once or is open
        if (overload := self._overload_rate(failed)) is not None:
            return self.confirming_run(overload, overload=True)
        ceiling, upper = self.ceiling, self.upper
        assert upper is not None
        # The failure that the result rests on is looked at twice.
        again = ceiling is not None and ceiling.high < failed and len(self._overloaded) < 2
        if self.known:
            return self.confirming_run(ceiling.rate * _OVERLOAD, overload=True) if again and ceiling else self.confirming_run(failed)
        if ceiling is not None:
            below = self._whole(self._below(ceiling, upper))
            if (self.held or 0.0) < below < failed and below not in self._confirmed:
                return self.confirming_run(below)
            if again and self.held is not None:
                return self.confirming_run(ceiling.rate * _OVERLOAD, overload=True)
        runs = int(self._left_s * _ROUNDING / self._confirming_s)
        if self._narrow(floor, 1) or (self.held is None and runs <= 2):
            return self.confirming_run(floor)
        middle = math.sqrt(floor * upper)
        if ceiling is not None and self._whole(ceiling.rate) > floor:
            middle = min(middle, ceiling.rate)
        return self.confirming_run(middle) if ceiling is not None or self._narrow(floor, _QUICK_UNTIL) else self._quick(middle)

    def _below(self, ceiling: Ceiling, upper: float) -> float:
        """The rate to hold below what an overloaded server works off: one that closes the bracket, unless that is too near for a queue to settle."""
        tolerance = self.search.tolerance
        closing = upper / (1 + tolerance) + 1 / self.search.probe
        return float(max(ceiling.low / (1 + tolerance / 2), closing if closing <= ceiling.rate * (1 - tolerance / 4) else 0.0))

    def _overload_rate(self, failed: float) -> float | None:
        """A rate at which to see what the server works off, a quarter more than the failed probe saw; None where that is known or cannot be seen."""
        flow = self._flows.get(failed)
        if self.ceiling is not None or failed in self._confirmed or self._left_s * _ROUNDING < 2 * self._confirming_s:
            return None
        if flow is not None and not flow.grows(self.search.tolerance / 2):
            return None
        gently = self._whole(min(failed, _OVERLOAD * flow.served)) if flow is not None else failed
        return failed if gently in self._confirmed else gently

    def _quick(self, rate: float) -> Planned:
        return Planned(self._whole(rate), self.search.probe, False, self.search.probe)

    def confirming_run(self, rate: float, overload: bool = False) -> Planned:
        """At least `_confirming_s`, and longer while the server fills or the rate is in doubt: five times that, if the seconds suffice."""
        rate, least, probe = self._whole(rate), self._confirming_s, self.search.probe
        most = min(_LONGEST * least, _MOST_REQUESTS / rate, self._left_s * _ROUNDING)
        if self.held is None and self.ceiling is None:
            most = min(most, 2 * least)
        return Planned(rate, max(least, int(most / probe) * probe), True, least, overload)

    def _whole(self, rate: float) -> float:
        """The rate that a whole number of requests in a probe's time offers."""
        return float(max(1, round(rate * self.search.probe)) / self.search.probe)

    def _end(self, rate: float) -> None:
        low, high = (self._whole(end) for end in self.search.between)
        if self.failed is None:
            self.ending = "upper_end" if rate >= high else None
        elif self._floor is None:
            self.ending = "lower_end" if self._failures.get(low, 0) > 1 else None
        elif self.known and (self._failures[self.failed] > 1 or len(self._overloaded) > 1 or self._left_s * _ROUNDING < self._confirming_s):
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
        doubtful = ", ".join(f"{rate:.4g}/s" for rate in self._doubtful)
        unsure = f"; decided by the share alone, without confidence: {doubtful}" if doubtful else ""
        wide = "" if self.known else f", wider than the tolerance of {self.search.tolerance:.2g}"
        if self.ceiling is not None and self.ceiling.high < self.failed:
            did_not = f"an overloaded server worked off {self.ceiling.rate:.4g}/s, at most {self.ceiling.high:.4g}/s"
        else:
            did_not = f"{self.failed:.4g}/s did not"
        return f"{self.held:.4g}/s held and {did_not} ({n}{wide}{unsure})"

    def decides(self, probe: RateProbe) -> bool:
        """Whether what a running probe shows decides its rate for sure."""
        verdict = self._judge([*(self._open.get(probe.rate, []) if probe.confirming else []), probe])
        return verdict.holds is not None and verdict.sure

    def _judge(self, probes: list[RateProbe]) -> RateVerdict:
        target, last = self.search.goodput, probes[-1]
        n = sum(p.n for p in probes)
        weighed = sum(p.n / p.dependence for p in probes)
        interval = wilson_interval(round(sum(p.good / p.dependence for p in probes)), max(1, round(weighed)))
        assert interval.ratio is not None and interval.low is not None and interval.high is not None
        shares = (interval.ratio, interval.low, interval.high)
        growth = pooled_growth([p.growth for p in probes if p.growth is not None])
        # A quick probe's slope is known less well, and only narrows the bracket.
        limit = self.search.tolerance / 2 * (1 if last.confirming else _QUICK_UNTIL)
        grew = growth is not None and growth.slope > limit
        surely = grew and growth is not None and growth.sure() and (last.flow is None or last.flow.grows(limit))
        # A server that still fills shows neither the latency nor the share that it ends at.
        moves = last.confirming and last.flow is not None and not last.flow.settled(limit)
        if last.hopeless or interval.high < target or surely:
            return RateVerdict(False, True, *shares)
        if interval.low >= target and not grew and not moves:
            return RateVerdict(True, True, *shares)
        if not last.confirming:
            good = interval.ratio >= target and not surely
            return RateVerdict(True if good else None if self.failed is None else False, False, *shares)
        # All requests of every probe good is the only proof of a share of 1 there is.
        provable = target < 1 and n + last.rate * self._left_s >= min_successes_to_prove(target)
        if (provable or moves or grew) and self._left_s * _ROUNDING >= self._confirming_s:
            return RateVerdict(None, False, *shares)
        grew = grew or (last.flow is not None and last.flow.grows(limit))
        return RateVerdict(interval.ratio >= target and not grew, False, *shares)


def cannot_hold(bad: int, n: int, target: float) -> bool:
    """`bad` failed requests of n miss `target` even if all the others are good."""
    high = wilson_interval(n - bad, n).high
    return high is not None and high < target
