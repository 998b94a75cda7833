"""How far each weight would have to move until another provider is first.

On the way from 0 to 1 of one weight, the others rescaled in proportion, the logarithm of every score is a straight line in that
weight. The crossings of the first provider's line with the others' are therefore exact, and the nearest on either side is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from plumbline.declarations import Preference
from plumbline.scorecards.decide import rank
from plumbline.scorecards.decision import Decision
from plumbline.scorecards.inputs import Kind, TrialNumbers


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


def weight_sensitivity(team: str, kind: Kind, preference: Preference, trials: Sequence[TrialNumbers]) -> tuple[WeightSwing, ...]:
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
