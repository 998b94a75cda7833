"""Arrival processes and length distributions: numbers from a seeded generator, by exact methods and without a server in sight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.load import Arrivals, Portion, Tokens

Seconds = NDArray[np.float64]
Counts = NDArray[np.int32]
Random = np.random.Generator


@dataclass(frozen=True)
class Overload:
    """`factor` times the arrivals between `start_s` and `end_s`, seconds from the start of the phase."""

    start_s: float
    end_s: float
    factor: float


def microseconds(times: Seconds) -> Seconds:
    """Times in whole microseconds: the last bits of a logarithm differ between machines, and a schedule's hash must not."""
    rounded: Seconds = np.rint(times * 1e6) / 1e6
    return rounded


def arrival_times(arrivals: Arrivals, duration_s: float, rng: Random, overload: Overload | None = None) -> Seconds:
    """Arrivals of an open loop, float64 [n]: seconds from the start of the phase, rising, whole microseconds, below `duration_s`.

    Raises ValueError for a closed loop, whose arrivals are no numbers, and for a trace, which carries its own.
    """
    if arrivals.on_off is not None or arrivals.ramp is not None:
        times = _by_intensity(_intensity(arrivals, duration_s, overload), rng)
    else:
        # One clock that runs `factor` times as fast while overloaded: of any process of one rate it makes that process, sped up.
        real, clock = _clock(duration_s, overload)
        times = _stationary(arrivals, float(clock[-1]), rng)
        if overload is not None:
            times = np.interp(times[times < clock[-1]], clock, real)
    rounded = microseconds(times)
    return rounded[rounded < duration_s]


def in_time(times: Seconds, overload: Overload | None, duration_s: float) -> Seconds:
    """Recorded times as they are replayed under an overload: `factor` times as fast while it lasts."""
    if overload is None:
        return times
    real, clock = _clock(duration_s, overload)
    replayed: Seconds = np.interp(times, clock, real, right=np.inf)
    return replayed


def _clock(duration_s: float, overload: Overload | None) -> tuple[Seconds, Seconds]:
    """Real seconds and the seconds of a clock that runs faster under overload, at the corners between which both run evenly."""
    if overload is None:
        return np.array([0.0, duration_s]), np.array([0.0, duration_s])
    real = np.array([0.0, overload.start_s, overload.end_s, duration_s])
    return real, np.concatenate([[0.0], np.cumsum(np.diff(real) * [1.0, overload.factor, 1.0])])


def _stationary(arrivals: Arrivals, duration_s: float, rng: Random) -> Seconds:
    if arrivals.constant is not None:
        rate = arrivals.constant.rate
        return np.asarray(np.arange(int(np.ceil(rate * duration_s))) / rate)
    if arrivals.poisson is not None:
        rate = arrivals.poisson.rate
        return _renewals(lambda n: rng.standard_exponential(n) / rate, rate, duration_s)
    if arrivals.gamma is not None:
        rate, shape = arrivals.gamma.rate, arrivals.gamma.cv**-2
        return _renewals(lambda n: rng.standard_gamma(shape, n) / (shape * rate), rate, duration_s)
    raise ValueError(f"{arrivals.process} is not drawn at one rate; expected constant, poisson or gamma")


def _renewals(gaps: Callable[[int], Seconds], rate: float, duration_s: float) -> Seconds:
    """Sums of gaps until past the end, drawn in blocks: the number of arrivals is itself random."""
    times = np.empty(0)
    while not len(times) or times[-1] < duration_s:
        times = np.concatenate([times, (times[-1] if len(times) else 0.0) + np.cumsum(gaps(max(16, int(rate * duration_s))))])
    return times


@dataclass(frozen=True)
class _Intensity:
    """A rate that changes evenly within each stretch and may jump between them. `at` float64 [k + 1], the others float64 [k]."""

    at: Seconds
    first: Seconds
    last: Seconds

    @property
    def cumulative(self) -> Seconds:
        """Arrivals to be expected until each corner, float64 [k + 1]."""
        return np.concatenate([[0.0], np.cumsum(np.diff(self.at) * (self.first + self.last) / 2)])


def _intensity(arrivals: Arrivals, duration_s: float, overload: Overload | None) -> _Intensity:
    corners = [0.0, duration_s, *((overload.start_s, overload.end_s) if overload else ())]
    if arrivals.on_off is not None:
        on, off = arrivals.on_off.on, arrivals.on_off.off
        starts = np.arange(int(np.ceil(duration_s / (on.duration + off.duration)))) * (on.duration + off.duration)
        corners += [*starts, *(starts + on.duration)]
    at = np.unique(np.clip(corners, 0.0, duration_s))
    middle = (at[:-1] + at[1:]) / 2
    if arrivals.on_off is not None:
        first = last = np.where(middle % (on.duration + off.duration) < on.duration, on.rate, off.rate)
    else:
        ramp = arrivals.ramp
        assert ramp is not None
        rates = ramp.start + (ramp.end - ramp.start) * at / duration_s
        first, last = rates[:-1], rates[1:]
    times = np.where((overload.start_s < middle) & (middle < overload.end_s), overload.factor, 1.0) if overload else np.ones(len(middle))
    return _Intensity(at, first * times, last * times)


def _by_intensity(intensity: _Intensity, rng: Random) -> Seconds:
    """An inhomogeneous Poisson process by change of time: one of rate 1, carried through the inverse of the expected number of arrivals."""
    expected = intensity.cumulative
    unit = _renewals(rng.standard_exponential, 1.0, float(expected[-1]))
    unit = unit[unit < expected[-1]]
    stretch = np.searchsorted(expected, unit, side="right") - 1
    into, first = unit - expected[stretch], intensity.first[stretch]
    slope = ((intensity.last - intensity.first) / np.diff(intensity.at))[stretch]
    # Of rate·t + slope·t²/2 = into, in the form of the solution that holds for a slope of 0 as well.
    times: Seconds = intensity.at[stretch] + 2 * into / (first + np.sqrt(np.maximum(first**2 + 2 * slope * into, 0.0)))
    return times


def lengths(tokens: Tokens | Portion, n: int, rng: Random) -> Counts:
    """`n` lengths in tokens, int32 [n]."""
    if isinstance(tokens, Tokens) and tokens.mixed is not None:
        shares = np.cumsum([portion.share for portion in tokens.mixed])
        chosen = np.searchsorted(shares[:-1], rng.random(n), side="right")
        return np.choose(chosen, [lengths(portion, n, rng) for portion in tokens.mixed]).astype(np.int32)
    if tokens.constant is not None:
        return np.full(n, tokens.constant, np.int32)
    if tokens.uniform is not None:
        return rng.integers(tokens.uniform.min, tokens.uniform.max, n, dtype=np.int32, endpoint=True)
    normal = tokens.normal
    assert normal is not None
    drawn = normal.mean + normal.stddev * rng.standard_normal(n)
    return np.clip(np.rint(drawn), normal.min, normal.max).astype(np.int32)
