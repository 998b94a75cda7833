"""From which utilisation and which monthly volume on a model of one's own is cheaper than a hosted one. Pure arithmetic.

    self-hosted = max(volume · price / (3600 · rate · utilisation · (1 − failure rate)), always_on · 730.5 · price) + fixed
    hosted      = volume · price of a request (or of its tokens)

Where the hosted price is by tokens, a request is what the workload asks and gets.
"""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.prices.cost import HOUR_S
from plumbline.prices.scenarios import instance_hours
from plumbline.prices.trial_bill import MONTH_H


@dataclass(frozen=True)
class SelfHosted:
    """`price`: USD an hour of all instances that deliver `rate` requests a second together. `fixed`: USD a month that no volume changes."""

    price: float
    rate: float
    failure_rate: float = 0.0
    fixed: float = 0.0
    always_on: int = 0

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.price < 0 or self.fixed < 0 or not 0 <= self.failure_rate < 1:
            raise ValueError(f"{self}; expected a rate above 0, a failure rate below 1, and no amount below 0")

    def per_request(self, utilisation: float) -> float:
        """USD for one request, what is fixed left out."""
        return self.price / (HOUR_S * self.rate * (1 - self.failure_rate) * utilisation)

    @property
    def standing(self) -> float:
        """USD a month that instances cost before the first request."""
        return self.always_on * MONTH_H * self.price

    def monthly(self, volume: float, utilisation: float) -> float:
        """USD a month for so many requests."""
        return self.price * instance_hours(volume, self.rate, utilisation, self.failure_rate, self.always_on) + self.fixed


@dataclass(frozen=True)
class Even:
    """Where both cost the same, or None, and in a sentence what follows."""

    value: float | None
    sentence: str


def even_volume(own: SelfHosted, hosted: float, utilisation: float) -> Even:
    """The requests a month from which on one's own is cheaper, at a utilisation; `hosted`: USD for one request there."""
    each, waiting = own.per_request(utilisation), own.standing
    if hosted <= each:
        return Even(
            None,
            f"hosted is cheaper at any volume: a request costs {each:.3g} USD of one's own at {utilisation:.0%} utilisation, and {hosted:.3g} USD there",
        )
    value = (waiting + own.fixed) / hosted
    if value * each > waiting:  # the instances that always run are full before the fixed costs are earned
        value = own.fixed / (hosted - each)
    if value == 0:
        return Even(0.0, "one's own is cheaper from the first request on: nothing is paid that does not grow with the volume")
    return Even(value, f"one's own is cheaper from {value:,.0f} requests a month on, at {utilisation:.0%} utilisation")


def even_utilisation(own: SelfHosted, hosted: float, volume: float) -> Even:
    """The utilisation from which on one's own is cheaper, at a monthly volume."""
    budget = volume * hosted
    left = budget - own.fixed
    if left <= 0:
        return Even(
            None, f"hosted is cheaper at any utilisation: it costs {budget:,.2f} USD a month, and what is fixed alone {own.fixed:,.2f} USD"
        )
    if own.standing > left:
        return Even(
            None,
            f"hosted is cheaper at any utilisation: it costs {budget:,.2f} USD a month, and instances that always run with what is fixed "
            f"{own.standing + own.fixed:,.2f} USD",
        )
    value = own.per_request(1.0) * volume / left
    if value > 1:
        return Even(
            None,
            f"hosted is cheaper even if every paid hour is used: {budget:,.2f} USD a month there, {own.monthly(volume, 1.0):,.2f} USD of one's own",
        )
    return Even(value, f"one's own is cheaper from {value:.1%} utilisation on, at {volume:,.0f} requests a month")
