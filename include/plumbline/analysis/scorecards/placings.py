"""The place of every provider on one number: the same for pages, report and commands, whatever part of the fleet they show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Interval(Protocol):
    """A number and its interval; no interval from one repeat."""

    @property
    def value(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


@dataclass(frozen=True)
class Placing:
    """One provider among all that measured a number. `behind`: distance to the best as a fraction of it, 0 for the best. `leads`: it is the
    best, or its interval overlaps the best one's."""

    provider: str
    place: int
    value: float
    low: float | None
    high: float | None
    behind: float
    leads: bool


def place(numbers: Mapping[str, Interval], lower_is_better: bool) -> tuple[Placing, ...]:
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
    for index, (signed, name) in enumerate(ordered, 1):
        value, number = known[name]
        same = bool(placings) and sign * placings[-1].value == signed
        own_low, own_high = _span(number)
        placings.append(
            Placing(
                provider=name,
                place=placings[-1].place if same else index,
                value=value,
                low=number.low,
                high=number.high,
                behind=sign * (value - best) / abs(best) if best else (0.0 if value == best else math.inf),
                leads=number is first or (own_low <= high and low <= own_high),
            )
        )
    return tuple(placings)


def _span(number: Interval) -> tuple[float, float]:
    # One repeat says nothing about its spread: it overlaps everything.
    return (number.low if number.low is not None else -math.inf, number.high if number.high is not None else math.inf)
