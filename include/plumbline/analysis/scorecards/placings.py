"""The place of every provider on one number: the same for pages, report and commands, whatever part of the fleet they show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from plumbline.metrics.pooling import Estimate


@dataclass(frozen=True)
class Placing:
    """One provider among all that measured a number. `behind`: distance to the best as a fraction of it, 0 for the best. `leads`: it is the
    best, or its interval overlaps the best one's."""

    provider: str
    place: int
    number: Estimate
    behind: float
    leads: bool

    @property
    def value(self) -> float:
        assert self.number.value is not None, "providers without a value have no place"
        return self.number.value


def place(numbers: Mapping[str, Estimate], lower_is_better: bool) -> tuple[Placing, ...]:
    """Providers with a value, best first; equal values share a place."""
    known = {name: (number.value, number) for name, number in numbers.items() if number.value is not None}
    if not known:
        return ()
    sign = 1 if lower_is_better else -1
    best = sign * min(sign * value for value, _ in known.values())
    first = next(number for value, number in known.values() if value == best)
    low, high = _span(first)
    ordered = sorted((sign * value, name) for name, (value, _) in known.items())
    placings: list[Placing] = []
    for index, (_, name) in enumerate(ordered, 1):
        value, number = known[name]
        same = bool(placings) and placings[-1].value == value
        own_low, own_high = _span(number)
        placings.append(
            Placing(
                provider=name,
                place=placings[-1].place if same else index,
                number=number,
                behind=sign * (value - best) / abs(best) if best else (0.0 if value == best else math.inf),
                leads=number is first or (own_low <= high and low <= own_high),
            )
        )
    return tuple(placings)


def _span(number: Estimate) -> tuple[float, float]:
    # One repeat says nothing about its spread: it overlaps everything.
    return (number.low if number.low is not None else -math.inf, number.high if number.high is not None else math.inf)
