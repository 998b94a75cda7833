"""At which price of a provider's instance the decision changes, and who is first then."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plumbline.declarations import Preference
from plumbline.scorecards.decide import rank
from plumbline.scorecards.inputs import Kind, TrialNumbers

CHEAPEST, DEAREST = 0.1, 10.0
"""Factors of today's price between which a change is looked for: a tenth to the tenfold."""
_STEPS = 8
"""Prices looked at on each side before the change is pinned down: each a third more than the last, so that a provider that is first
over a narrower range of prices than that may be passed over."""
_EXACT = 1e-4

Priced = Callable[[Mapping[str, float]], Sequence[TrialNumbers]]
"""The trials with the instance price of each named provider multiplied by its factor."""


@dataclass(frozen=True)
class PriceFlip:
    """From this factor of today's price on, `first` ranks first. `usd_per_hour`: that price of the instance, None if today's is unknown."""

    factor: float
    usd_per_hour: float | None
    first: str


@dataclass(frozen=True)
class PriceSwing:
    """One provider's price: the nearest change of the first place when it falls and when it rises; None: none within a tenth to tenfold."""

    provider: str
    usd_per_hour: float | None
    falls: PriceFlip | None
    rises: PriceFlip | None


def price_sensitivity(
    team: str, kind: Kind, preference: Preference, priced: Priced, prices: Mapping[str, float] | None = None
) -> tuple[PriceSwing, ...]:
    """One swing per provider that ran the preference's workloads; empty when nobody is eligible at today's prices.

    `prices`: today's price of each provider's instance in USD per hour, for the answer in money.
    """
    today = rank(team, kind, preference, priced({}))
    if today.first is None:
        return ()
    first = today.first.provider

    def first_at(provider: str, factor: float) -> str | None:
        found = rank(team, kind, preference, priced({provider: factor})).first
        return found.provider if found else None

    swings = []
    for provider in sorted(r.provider for r in today.ranking):
        usd = (prices or {}).get(provider)
        flips = [_flip(lambda factor, name=provider: first_at(name, factor), first, end, usd) for end in (CHEAPEST, DEAREST)]  # type: ignore[misc]
        swings.append(PriceSwing(provider, usd, *flips))
    return tuple(swings)


def _flip(first_at: Callable[[float], str | None], first: str, end: float, usd: float | None) -> PriceFlip | None:
    """The factor between 1 and `end` nearest to 1 at which another provider is first."""
    same, other, then = 0.0, 0.0, first
    for step in range(1, _STEPS + 1):
        log = math.log(end) * step / _STEPS
        found = first_at(math.exp(log))
        if found is not None and found != first:
            other, then = log, found
            break
        same = log
    else:
        return None
    while abs(other - same) > _EXACT:
        middle = (same + other) / 2
        found = first_at(math.exp(middle))
        if found is None or found == first:
            same = middle
        else:
            other, then = middle, found
    factor = math.exp(other)
    return PriceFlip(factor, None if usd is None else usd * factor, then)
