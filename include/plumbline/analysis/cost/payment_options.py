"""Ways to pay for one service: rented, reserved, owned, serverless or hosted. Which is cheapest at which utilisation, and over twelve months.

Instances that are reserved or owned cost their whole month; rented ones cost the hours in which they serve; serverless ones the hours in which
requests keep them up (`scale_to_zero`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from plumbline.analysis.cost.forecast import ForecastInputs, RateBasis
from plumbline.analysis.cost.hosted_forecast import SelfHosted, Serverless, deployment, hosted_forecast
from plumbline.analysis.cost.scale_to_zero import MONTH_S
from plumbline.analysis.cost.scenarios import FleetScenario
from plumbline.declarations import Provider
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.units import Amount

_KINDS: dict[Purchase, str] = {"on_demand": "rent", "reserved": "reserve", "owned": "own"}
_STEPS, MONTHS = 1000, 12


class PaymentOption(NamedTuple):
    """`cost`: of instances, or USD for one hosted request. `basis`: what the price rests on, in words; `rate`: of an endpoint that scales
    to zero, what its rate rests on."""

    name: str
    cost: SelfHosted | Amount
    basis: str
    rate: RateBasis | None = None

    def monthly(self, volume: float, utilisation: float) -> float:
        return volume * self.cost if isinstance(self.cost, float) else self.cost.monthly(volume, utilisation)

    def fleet(self, volume: float, utilisation: float) -> FleetScenario | None:
        """The instances of a month; None of what is not paid by instances."""
        return None if isinstance(self.cost, float | Serverless) else self.cost.fleet(volume, utilisation)


class Month(NamedTuple):
    """A month's volume, and in the options' order the costs in USD and the instances."""

    volume: float
    costs: tuple[Amount, ...]
    fleets: tuple[FleetScenario | None, ...]


@dataclass(frozen=True)
class PaymentOptions:
    """`capacity`: requests a month of one deployment, of a whole instance of them where one is paid whole. `spans`: (option, utilisation from, to) where it is cheapest. `months`: twelve, from the
    declared volume on, at the `utilisation` of paid time; empty without a volume. `left_out`: what has no price or no measurement."""

    options: tuple[PaymentOption, ...]
    capacity: float
    spans: tuple[tuple[str, float, float], ...]
    months: tuple[Month, ...]
    growth: float
    utilisation: float
    left_out: tuple[str, ...]

    @property
    def totals(self) -> tuple[float, ...]:
        """USD of each option over the months."""
        return tuple(math.fsum(costs) for costs in zip(*(m.costs for m in self.months), strict=True))


def cheapest_spans(options: Iterable[PaymentOption], capacity: float) -> tuple[tuple[str, float, float], ...]:
    """The cheapest option by utilisation of the capacity, in steps of a thousandth; of equal ones the first."""
    each = _by_use(options)
    spans: list[tuple[str, float, float]] = []
    for step in range(1, _STEPS + 1):
        name = min(each, key=lambda o: o.monthly(step / _STEPS * capacity, 1.0)).name
        low = spans.pop()[1] if spans and spans[-1][0] == name else (step - 1) / _STEPS
        spans.append((name, low, step / _STEPS))
    return tuple(spans)


def costs_by_utilisation(ways: PaymentOptions, shares: Iterable[float]) -> tuple[tuple[float, ...], ...]:
    """USD a month of each option at these shares of the capacity, as `cheapest_spans` compares them."""
    volumes = [share * ways.capacity for share in shares]
    return tuple(tuple(option.monthly(volume, 1.0) for volume in volumes) for option in _by_use(ways.options))


def _by_use(options: Iterable[PaymentOption]) -> list[PaymentOption]:
    """The options, rented instances by the hours in which they serve."""
    return [o._replace(cost=replace(o.cost, always_on=0)) if o.name == "rent" and isinstance(o.cost, SelfHosted) else o for o in options]


def twelve_months(options: Sequence[PaymentOption], volume: float, growth: float, utilisation: float) -> tuple[Month, ...]:
    """Costs at a volume that grows by `growth` each month."""

    def month(now: float) -> Month:
        return Month(now, tuple(o.monthly(now, utilisation) for o in options), tuple(o.fleet(now, utilisation) for o in options))

    return tuple(month(volume * (1 + growth) ** n) for n in range(MONTHS))


def payment_options(case: ForecastInputs, others: Iterable[Provider] = (), growth: float | None = None) -> PaymentOptions | str:
    """Every way to pay that has a price: those of the provider's instances, serverless ones of it and of `others`, hosted models; or why there are
    not two. `growth`: a month; as declared if None, else 0."""
    outcome, options, left_out = case.at_best("cost_per_1k_requests"), list[PaymentOption](), list[str]()
    about = case.provider.name, case.workload.name
    known = {price.purchase for price in case.provider.price_list} | {p for p in _KINDS if case.economics.price_per_hour(*about, p)}
    offers = [(_KINDS[p], case, p) for p in _KINDS if p in known]
    places = {place.name: replace(case, provider=place) for place in (case.provider, *others)}
    rates = [(f"serverless on {name}", place, rate) for name, place in places.items() for rate in place.provider.serverless]
    for name, place, purchase in (*offers, *((n, p, "serverless") for n, p, r in rates if r.holds(case.on))):
        found = deployment(place, purchase)
        if isinstance(found, str):
            left_out.append(f"{name}: {found}")
            continue
        cost, basis, delivered = found
        options.append(PaymentOption(name, cost, basis, delivered.basis if isinstance(cost, Serverless) else None))
    for each in hosted_forecast(case.provider, case.workload, case.trials, case.economics, case.on).against:
        if each.per_request is not None:
            options.append(PaymentOption(each.hosted.name, each.per_request, each.request))
    own = case.delivered(outcome)
    if isinstance(own, str) or len(options) < 2:
        return own if isinstance(own, str) else "; ".join(left_out) or "fewer than two ways to pay have a price"
    span, declared = case.range("utilisation", ""), case.economics.assumed("growth", *about)
    rise = growth if growth is not None else 0.0 if declared is None else float(declared.value)
    volume, share = case.volume(outcome), 1.0 if span is None else span.expected
    together = [o.cost.rate for o in options if isinstance(o.cost, SelfHosted) and not isinstance(o.cost, Serverless)]
    capacity = max(together, default=own.rate.expected) * MONTH_S
    months = () if volume is None else twelve_months(options, volume, rise, share)
    return PaymentOptions(tuple(options), capacity, cheapest_spans(options, capacity), months, rise, share, tuple(left_out))
