"""What a finished training run is expected to cost on instances that can be taken away, against ones that cannot. Pure arithmetic.

Model    Interruptions come at random, at a constant rate λ for the whole run while it holds its instances (a Poisson process), also while it
         recovers. A checkpoint follows every `every_s` seconds of work and holds it up for `checkpoint_s`. After an interruption the run is
         back at work after `restart_s` of paid time and does again what it did since the last checkpoint: half an interval on average, if λ is small.
Time     A stretch of s seconds (work and its checkpoint) then takes E(s) = e^(λ·restart_s) · (e^(λ·s) − 1) / λ seconds in the mean: exact, with
         interruptions of recoveries and of work that is done again. A run is its full intervals and what is left over.
Paid     Every second in which instances are held. Waiting for capacity to come back is not paid and not in it: it makes the run later, not dearer.

`every_s` None: the penalty that was measured holds the work done again too, and cannot be told apart from it; it is then all that an
interruption costs, and the time is work · e^(λ·restart_s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from plumbline.prices.cost import HOUR_S

_HIGHEST = 1.0
"""Interruptions a second: no run makes progress at such a rate; where the search for the break-even ends."""


@dataclass(frozen=True)
class Run:
    """One finished run: `work_s` seconds of work at the measured rate, checkpoints every `every_s` of it, each holding it up `checkpoint_s`;
    `restart_s`: paid seconds from an interruption to work going on, without what is done again (with it, where `every_s` is None)."""

    work_s: float
    restart_s: float
    every_s: float | None = None
    checkpoint_s: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("work_s", self.work_s), ("every_s", 1.0 if self.every_s is None else self.every_s)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} is {value:g}; expected seconds above 0")
        for name, value in (("restart_s", self.restart_s), ("checkpoint_s", self.checkpoint_s)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value:g}; expected seconds, at least 0")


@dataclass(frozen=True)
class Expected:
    """Mean seconds that a run holds its instances, and what they go into. All are infinite where a run never ends."""

    held_s: float
    work_s: float
    checkpoint_s: float
    restarting_s: float
    again_s: float
    interruptions: float


@dataclass(frozen=True)
class SpotCost:
    """A finished run on spot against on demand, USD. `break_even`: interruptions an hour from which on spot is not cheaper; None: see `why`."""

    on_demand: float
    spot: float
    expected: Expected
    break_even: float | None
    why: str

    @property
    def saving(self) -> float:
        """Of the cost on demand, the share that spot is expected to save; negative if it costs more."""
        return 1 - self.spot / self.on_demand if self.on_demand else 0.0


def expected_time(run: Run, per_s: float) -> Expected:
    """Mean time of a run that is interrupted `per_s` times a second. OverflowError never: a run that practically never ends is infinite."""
    count = 0.0 if run.every_s is None else run.work_s / run.every_s
    checkpoints = math.floor(count) * run.checkpoint_s
    if per_s <= 0:
        return Expected(run.work_s + checkpoints, run.work_s, checkpoints, 0.0, 0.0, 0.0)
    try:
        held = _held(run, per_s)
    except OverflowError:
        return Expected(*[math.inf] * 6)
    interruptions = per_s * held
    # A recovery lasts until work goes on or the next interruption, whichever comes first.
    restarting = interruptions * -math.expm1(-per_s * run.restart_s) / per_s
    return Expected(held, run.work_s, checkpoints, restarting, max(0.0, held - run.work_s - checkpoints - restarting), interruptions)


def _held(run: Run, per_s: float) -> float:
    recovering = math.exp(per_s * run.restart_s)
    if run.every_s is None:
        return run.work_s * recovering

    def stretch(seconds: float) -> float:
        return recovering * math.expm1(per_s * seconds) / per_s

    full = math.floor(run.work_s / run.every_s)
    rest = max(0.0, run.work_s - full * run.every_s)
    return full * stretch(run.every_s + run.checkpoint_s) + stretch(rest)


def spot_cost(run: Run, on_demand_per_hour: float, spot_per_hour: float, per_hour: float) -> SpotCost:
    """What a finished run is expected to cost both ways. Prices in USD an hour of all its instances; `per_hour`: interruptions of the whole
    run an hour (each instance's rate times their number: one that is taken away stops all). On demand is reckoned without interruptions."""
    quiet, expected = expected_time(run, 0.0), expected_time(run, per_hour / HOUR_S)
    on_demand = on_demand_per_hour * quiet.held_s / HOUR_S
    spot = spot_per_hour * expected.held_s / HOUR_S if spot_per_hour else 0.0
    even, why = break_even_rate(run, on_demand_per_hour, spot_per_hour)
    return SpotCost(on_demand, spot, expected, even, why)


def break_even_rate(run: Run, on_demand_per_hour: float, spot_per_hour: float) -> tuple[float | None, str]:
    """Interruptions an hour at which both cost the same, and a sentence; None where there is no such rate."""
    if spot_per_hour <= 0:
        return None, "spot costs nothing: it is cheaper however often it is taken away"
    if spot_per_hour >= on_demand_per_hour:
        return (
            None,
            f"spot at {spot_per_hour:.10g} USD/h is no cheaper than {on_demand_per_hour:.10g} USD/h on demand, without any interruption",
        )
    if run.every_s is None and run.restart_s == 0:
        return None, "an interruption costs no paid time: spot is cheaper however often it is taken away"
    longest = expected_time(run, 0.0).held_s * on_demand_per_hour / spot_per_hour
    low, high = 0.0, _HIGHEST
    for _ in range(200):  # more than the bits of a float: it ends where no float lies between
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if expected_time(run, middle).held_s < longest else (low, middle)
    if high == _HIGHEST:
        return None, "spot is cheaper even if it is taken away every second"
    return high * HOUR_S, f"from {high * HOUR_S:.3g} interruptions an hour on, spot is no longer cheaper"
