"""How far a weight or a price must move until another provider ranks first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from plumbline.analysis.decisions.decide import Repricing, rank
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.trial_sample import TrialSample, WorkloadKind
from plumbline.declarations import Preference
from plumbline.metrics.units import Amount


@dataclass(frozen=True)
class WeightFlip:
    """Beyond this weight (0 to 1, the others rescaled in proportion) `first` ranks first."""

    weight: float
    first: str


@dataclass(frozen=True)
class WeightSwing:
    """One metric's weight as declared, and the nearest weights below and above it at which another provider is first; None: none is."""

    metric: str
    weight: float
    below: WeightFlip | None
    above: WeightFlip | None


def weight_sensitivity(team: str, kind: WorkloadKind, preference: Preference, trials: Sequence[TrialSample]) -> tuple[WeightSwing, ...]:
    """One swing per weighted metric; empty when there is no choice to make (fewer than two eligible providers).

    `trials`: priced trials, as `decide` takes them.
    """
    decision = rank(team, kind, preference, trials)
    if decision.winner is None:
        return ()
    return tuple(_swing(decision, name, weight) for name, weight in preference.weights.items())


def _swing(decision: Decision, metric: str, weight: float) -> WeightSwing:
    if weight > 1 - 1e-9:
        return WeightSwing(metric, weight, None, None)  # nothing to rescale: every other weight says nothing about proportions
    lines = {}
    for ranked in decision.ranking:
        if ranked.ratios is None:
            continue
        logs = [(c, float(np.log(value))) for c, value in zip(decision.columns, ranked.ratios, strict=True)]
        own = sum(c.weight * v for c, v in logs if c.metric == metric) / weight
        others = sum(c.weight * v for c, v in logs if c.metric != metric) / (1 - weight)
        lines[ranked.provider] = (own, others)
    first = next(iter(lines))
    flips = [(x, name) for name in lines if name != first and (x := _crossing(lines[first], lines[name])) is not None]
    return WeightSwing(metric, weight, _nearest(flips, lines, weight, "below"), _nearest(flips, lines, weight, "above"))


def _crossing(first: tuple[float, float], other: tuple[float, float]) -> float | None:
    """The weight at which both score alike, strictly between 0 and 1; None if there is none."""
    own, rest = first[0] - other[0], first[1] - other[1]
    if abs(own - rest) < 1e-12:
        return None
    weight = rest / (rest - own)
    return weight if 0 < weight < 1 else None


def _nearest(
    flips: Sequence[tuple[float, str]], lines: dict[str, tuple[float, float]], weight: float, side: Literal["below", "above"]
) -> WeightFlip | None:
    above = side == "above"
    beyond = [(x, name) for x, name in flips if (x >= weight if above else x <= weight) and _overtakes(lines, name, above)]
    if not beyond:
        return None
    nearest = min(x for x, _ in beyond) if above else max(x for x, _ in beyond)
    # Several may cross at the same weight: past it the steepest is first.
    there = [name for x, name in beyond if abs(x - nearest) < 1e-9]
    slope = {name: lines[name][0] - lines[name][1] for name in there}
    return WeightFlip(nearest, (max if above else min)(there, key=lambda name: slope[name]))


def _overtakes(lines: dict[str, tuple[float, float]], name: str, above: bool) -> bool:
    first = next(iter(lines.values()))
    steeper = (lines[name][0] - lines[name][1]) - (first[0] - first[1])
    return steeper > 0 if above else steeper < 0


CHEAPEST, DEAREST = 0.1, 10.0
"""Factors of today's price between which a change is looked for: a tenth to the tenfold."""
_STEPS = 8
"""Prices looked at on each side before the change is pinned down: each a third more than the last, so that a provider that is first
over a narrower range of prices than that may be passed over."""
_EXACT = 1e-4

RepricedTrials = Callable[[Mapping[str, float]], Sequence[TrialSample]]
"""The trials with the instance price of each named provider multiplied by its factor."""


@dataclass(frozen=True)
class PriceFlip:
    """From this factor of today's price on, `first` ranks first. `usd_per_hour`: that price of the instance, None if today's is unknown."""

    factor: float
    usd_per_hour: Amount | None
    first: str


@dataclass(frozen=True)
class PriceSwing:
    """One provider's price: the nearest change of the first place when it falls and when it rises; None: none within a tenth to tenfold."""

    provider: str
    usd_per_hour: Amount | None
    falls: PriceFlip | None
    rises: PriceFlip | None


def price_sensitivity(
    team: str, kind: WorkloadKind, preference: Preference, priced: RepricedTrials, prices: Mapping[str, float] | None = None
) -> tuple[PriceSwing, ...]:
    """One swing per provider that ran the preference's workloads; empty when nobody is eligible at today's prices.

    `prices`: today's price of each provider's instance in USD per hour, for the answer in money.
    """
    trials = priced({})
    today = rank(team, kind, preference, trials)
    if today.first is None:
        return ()
    first, names = today.first.provider, sorted(r.provider for r in today.ranking)
    repricing = Repricing(kind, preference, trials, priced(dict.fromkeys(names, 2.0)))
    flips = [_flips(repricing, first, end) for end in (CHEAPEST, DEAREST)]

    def flip(provider: str, factors: Mapping[str, tuple[float, str]]) -> PriceFlip | None:
        if provider not in factors:
            return None
        factor, then = factors[provider]
        return PriceFlip(factor, None if (usd := (prices or {}).get(provider)) is None else usd * factor, then)

    return tuple(PriceSwing(name, (prices or {}).get(name), *(flip(name, factors) for factors in flips)) for name in names)


def _flips(repricing: Repricing, first: str, end: float) -> dict[str, tuple[float, str]]:
    """Of each provider whose price changes the first place: the factor between 1 and `end` nearest to 1 at which it does, and who is first
    then. The providers are searched together: a step costs hardly more for fifty of them than for one."""
    flips: dict[int, tuple[float, float, str]] = {}
    waiting = np.arange(len(repricing.providers))
    for step in range(1, _STEPS + 1):
        log = math.log(end) * step / _STEPS
        then = repricing.firsts(waiting, np.full(len(waiting), math.exp(log)))
        moved = [name is not None and name != first for name in then]
        same = math.log(end) * (step - 1) / _STEPS
        flips |= {int(i): (same, log, str(name)) for i, name, here in zip(waiting, then, moved, strict=True) if here}
        waiting = waiting[~np.array(moved, dtype=bool)]
    # Each has been caught between two steps, so that all are narrowed down equally often.
    while any(abs(other - same) > _EXACT for same, other, _ in flips.values()):
        middles = [(same + other) / 2 for same, other, _ in flips.values()]
        then = repricing.firsts(np.array([*flips]), np.exp(middles))
        for (i, (same, other, before)), middle, name in zip(list(flips.items()), middles, then, strict=True):
            flips[i] = (middle, other, before) if name is None or name == first else (same, middle, name)
    return {repricing.providers[i]: (math.exp(other), then) for i, (_, other, then) in flips.items()}
