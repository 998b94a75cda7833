"""The billed time of an endpoint that scales to zero: while requests are present, while it waits for the next one, and while it starts.

A worker has c = ⌈rate · residence⌉ slots (Little's law), in each of which a request stays for its residence. With λ requests a second that
arrive at random (Poisson), a = λ · residence of them are present on average, and none is (Erlang C; c = 1: 1 − a; many slots: e^(−a)) with

    p0     = 1 / (Σ a^k/k! for k < c + a^c / (c! · (1 − a/c)))
    starts = min(1 / (1/(λ · p0 · e^(−λ · idle)) + start), (1 − λ/rate) / (e^(λ · idle)/λ + start))    a second
    billed = 1 − starts/λ + starts · (what its up time lacks of the minimum)

The second term of `starts` is the conservation of work: what arrives during a start is served after it. Workers are filled one after the
other: full ones, and the last with the rest of the requests. `perf/serverless.py` compares it with a simulation of events."""

from __future__ import annotations

import math
from dataclasses import dataclass

MONTH_S = 730.5 * 3600.0
_FULL = 700.0
"""Present requests from which on none present is rarer than a float shows."""


@dataclass(frozen=True)
class ScaleToZero:
    """`rate`: requests a second of one worker at most. `residence`: mean seconds from the moment a request is sent to its last token.
    `idle`, `minimum`, `start`: seconds it stays up after the last request, that a start is billed at least, and of a start. ValueError
    without a rate or a residence above 0."""

    rate: float
    residence: float
    idle: float = 0.0
    minimum: float = 0.0
    start: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.rate < math.inf and 0 < self.residence < math.inf) or min(self.idle, self.minimum, self.start) < 0:
            raise ValueError(f"{self}; expected a rate and a residence above 0, and no time below 0")

    def hours(self, requests: float) -> float:
        """Worker-hours that are billed for so many requests a month, those that are sent again included."""
        full, rest = divmod(requests / MONTH_S, self.rate)
        return (full * self._billed(self.rate) + self._billed(rest)) * MONTH_S / 3600.0

    def _billed(self, arrivals: float) -> float:
        """Billed over wall time of one worker. `arrivals`: a second, at most `rate`."""
        if arrivals <= 0:
            return 0.0
        stays = math.exp(-arrivals * self.idle)  # the chance that no request comes while it waits
        off = self._empty(arrivals) * stays
        if off <= 0:
            return 1.0
        by_work = max(0.0, 1 - arrivals / self.rate) / (1 / (arrivals * stays) + self.start)
        starts = min(1 / (1 / (arrivals * off) + self.start), by_work)
        if starts <= 0:
            return 1.0
        return 1 - starts / arrivals + starts * self._lacking(arrivals, 1 / starts - 1 / arrivals - self.start)

    def _empty(self, arrivals: float) -> float:
        load, slots = arrivals * self.residence, max(1, math.ceil(round(self.rate * self.residence, 9)))
        if load >= min(slots, _FULL):
            return 0.0
        term = total = 1.0
        for k in range(1, slots):
            term *= load / k
            total += term
            if term < 1e-17 * total and k > load:
                return 1 / total
        return 1 / (total + term * load / slots / (1 - load / slots))

    def _lacking(self, arrivals: float, up: float) -> float:
        """Mean seconds that a start is billed beyond its up time. `up`: the mean without the start. At least one request with its idle time;
        with more of them what exceeds it is exponential, as sums of a geometric number of gaps nearly are."""
        one = self.residence + self.idle
        short, alone = self.minimum - self.start - one, math.exp(-arrivals * one)
        if short <= 0:
            return 0.0
        more = max(0.0, up - one) / (1 - alone) if alone < 1 else 0.0
        return alone * short + (1 - alone) * (short + more * math.expm1(-short / more) if more else short)
