"""How the highest rate under the SLO is searched for: which rate to try next, and what a probe proves. Pure: probes in, decisions out.

From the lower end the rate is doubled until a probe fails (or the upper end holds); then the geometric middle of the highest rate that held
and the lowest that did not is tried, until the two are within the tolerance or the probes are used up.

A probe of n requests, of which g were good, holds at a share p surely if Wilson's interval of g / n lies above p, and surely not if it lies
below. In between, the rate is probed once more with another seed and both probes are judged as one; if that leaves it open, the share
itself decides, and the result says so. Where even two probes without a single bad request could prove nothing, none is repeated: only a longer
probe would help. The interval takes requests for independent; they share a queue, so "surely" is a little less than the 95 % it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from plumbline.declarations.confidence import needed_to_prove, wilson
from plumbline.declarations.load import Search

Ending = Literal["between", "upper_end", "lower_end", "client_limited"]
"""between      the rate lies between one that held and one that did not
upper_end       the upper end of the declared range held: the rate is at least that
lower_end       the lower end did not hold: the rate is less than that
client_limited  twice in a row a probe failed in which the client itself was the limit: nothing above what held is known"""


@dataclass(frozen=True)
class Probe:
    """What one probe saw. `n` requests of which at most `good` could be good; `hopeless`: ended early, since that could not be enough.
    `client_limited`: why the client was the limit, None if it was not."""

    rate: float
    n: int
    good: int
    hopeless: bool = False
    client_limited: str | None = None


@dataclass(frozen=True)
class Verdict:
    """On one rate, by all its probes so far. `holds` None: open, the rate is probed again. `sure`: by confidence, not by the bare share."""

    holds: bool | None
    sure: bool
    share: float
    low: float
    high: float


@dataclass
class Saturation:
    """The search's state. `held` and `failed` are the closest rates known to hold and not to (None: none yet)."""

    search: Search
    held: float | None = None
    failed: float | None = None
    ending: Ending | None = None
    probes: list[tuple[Probe, Verdict]] = field(default_factory=list)
    _again: list[Probe] = field(default_factory=list)
    _void: Probe | None = None

    def next_rate(self) -> float | None:
        """The rate to probe now; None when the search is over."""
        if self.ending is not None or len(self.probes) >= self.search.at_most:
            return None
        low, high = (float(rate) for rate in self.search.between)
        if self._void or self._again:
            return (self._void or self._again[0]).rate
        if self.held is None:
            return low
        if self.failed is None:
            return min(2 * self.held, high)
        return None if self.known else math.sqrt(self.held * self.failed)

    def learn(self, probe: Probe) -> Verdict:
        """Take in a probe of the rate that `next_rate` gave."""
        verdict = self._judge([*self._again, probe])
        if not verdict.holds and probe.client_limited is not None:
            verdict = replace(verdict, holds=None, sure=False)
        self.probes.append((probe, verdict))
        if not verdict.holds and probe.client_limited is not None:
            # What the client did not manage says nothing of the server. It may have been disturbed for a moment, so it gets a second chance.
            self.ending = "client_limited" if self._void else None
            self._void = probe
            return verdict
        self._void = None
        self._again = [probe] if verdict.holds is None else []
        if verdict.holds:
            self.held = probe.rate
            self.ending = "upper_end" if probe.rate >= self.search.between[1] else None
        elif verdict.holds is False:
            self.failed = probe.rate
            self.ending = "lower_end" if self.held is None else None
        if self.ending is None and self.known:
            self.ending = "between"
        return verdict

    @property
    def known(self) -> bool:
        """Whether the rate is known within the tolerance."""
        return self.held is not None and self.failed is not None and self.failed <= self.held * (1 + self.search.tolerance) * (1 + 1e-9)

    @property
    def highest(self) -> float | None:
        """The highest rate that held, once one above it did not; None if the search cannot say."""
        return self.held if self.failed is not None and self.ending != "client_limited" else None

    def told(self) -> str:
        """How the search ended, in words."""
        share, (low, high) = f"{self.search.goodput:.4g}", self.search.between
        n = f"{len(self.probes)} probes"
        if self.ending == "client_limited":
            probe = self.probes[-1][0]
            known = f"{self.held:.4g}/s held before" if self.held else "no rate held before"
            return f"at {probe.rate:.4g}/s the client was the limit, not the server ({probe.client_limited}); {known}"
        if self.ending == "upper_end":
            return f"the server held {high:.4g}/s, the upper end: its highest rate with a good share of {share} is above that ({n})"
        if self.ending == "lower_end":
            return f"not even {low:.4g}/s, the lower end, held with a good share of {share} ({n})"
        if self.held is None or self.failed is None:
            return f"after {n}, as many as declared, {'nothing held' if self.held is None else f'{self.held:.4g}/s held'} and nothing more is known"
        doubtful = sorted({probe.rate for probe, verdict in self.probes if probe.rate in (self.held, self.failed) and not verdict.sure})
        unsure = f"; by the bare share, not by confidence: {', '.join(f'{rate:.4g}/s' for rate in doubtful)}" if doubtful else ""
        wide = "" if self.known else f", wider than the tolerance of {self.search.tolerance:.2g}"
        return f"{self.held:.4g}/s held and {self.failed:.4g}/s did not ({n}{wide}{unsure})"

    def _judge(self, probes: list[Probe]) -> Verdict:
        target = self.search.goodput
        n, good = sum(p.n for p in probes), sum(p.good for p in probes)
        seen = wilson(good, n)
        assert seen.ratio is not None and seen.low is not None and seen.high is not None
        verdict = (seen.ratio, seen.low, seen.high)
        if probes[-1].hopeless or seen.high < target:
            return Verdict(False, True, *verdict)
        if seen.low >= target:
            return Verdict(True, True, *verdict)
        # All requests of every probe good is the only proof of a share of 1 there is.
        provable = target < 1 and 2 * n >= needed_to_prove(target)
        last = len(self.probes) + 1 >= self.search.at_most
        if len(probes) == 1 and provable and not last:
            return Verdict(None, False, *verdict)
        return Verdict(seen.ratio >= target, False, *verdict)


def cannot_hold(bad: int, n: int, target: float) -> bool:
    """Whether `bad` requests of n are so many that the share surely misses `target`, even if all the others are good."""
    high = wilson(n - bad, n).high
    return high is not None and high < target
