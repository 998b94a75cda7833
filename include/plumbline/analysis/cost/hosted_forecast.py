"""Cost forecast of a self-hosted model against hosted ones: break-even utilisation and monthly volume."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal

from plumbline.analysis.cost.forecast import DeliveredRate, ForecastInputs, RateBasis, UnknownInput
from plumbline.analysis.cost.scale_to_zero import MONTH_S, ScaleToZero
from plumbline.analysis.cost.scenarios import FleetScenario, Range, fleet
from plumbline.analysis.cost.trial_bill import MONTH_H
from plumbline.analysis.cost.unit_costs import HOUR_S
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyWorkload, InferenceWorkload, Provider
from plumbline.declarations.economics import Economics, HostedModel
from plumbline.declarations.providers.rates import Purchase
from plumbline.declarations.workloads.load import mean_tokens
from plumbline.metrics.units import Amount


@dataclass(frozen=True)
class SelfHosted:
    """`price`: USD an hour of all instances that deliver `rate` requests a second together. `fixed`: USD a month that no volume changes. `whole`: paid by the month,
    as with always_on: instances are then whole."""

    price: Amount
    rate: float
    failure_rate: float = 0.0
    fixed: Amount = 0.0
    always_on: int = 0
    whole: bool = False

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.price < 0 or self.fixed < 0 or not 0 <= self.failure_rate < 1:
            raise ValueError(f"{self}; expected a rate above 0, a failure rate below 1, and no amount below 0")

    def per_request(self, utilisation: float) -> float:
        """USD for one request, what is fixed left out."""
        return self.price / (HOUR_S * self.rate * (1 - self.failure_rate) * utilisation)

    def monthly(self, volume: float, utilisation: float) -> float:
        """USD a month for so many requests."""
        return self.price * self.fleet(volume, utilisation).hours + self.fixed

    def fleet(self, volume: float, utilisation: float) -> FleetScenario:
        """The instances for so many requests a month."""
        return fleet(volume, self.rate, utilisation, self.failure_rate, self.always_on, self.whole)

    @property
    def month(self) -> float | None:
        """USD of one whole instance's month; None of what is held by the hour, or costs nothing."""
        return self.price * MONTH_H if (self.whole or self.always_on) and self.price else None


@dataclass(frozen=True)
class Serverless(SelfHosted):
    """`price`: USD an hour in which a worker is up. `endpoint`: which hours those are, whatever the utilisation."""

    endpoint: ScaleToZero = field(kw_only=True)

    def fleet(self, volume: float, utilisation: float) -> FleetScenario:
        """The mean number of workers that are up."""
        up = self.endpoint.hours(volume / (1 - self.failure_rate)) / MONTH_H
        return FleetScenario(up, up, False)


Follows = Literal[
    "hosted_at_any_volume",
    "hosted_beside_a_busy_worker",
    "own_from_the_first_request",
    "own_from_volume",
    "own_from_volume_while_up",
    "hosted_below_fixed_costs",
    "hosted_while_up",
    "own_while_up",
    "hosted_below_always_on",
    "hosted_when_full",
    "own_from_utilisation",
]
"""What follows from a break-even point: which of the two is cheaper, and from where on."""


@dataclass(frozen=True)
class BreakEvenPoint:
    """`value`: the requests a month, or the utilisation, from which on self-hosting is cheaper; None where there is no such point.
    `hosted` and `own`: what was compared, USD for a request or a month. `at`: the utilisation, or the requests a month, that it holds
    for."""

    value: float | None
    follows: Follows
    hosted: Amount = 0.0
    own: Amount = 0.0
    at: float = 0.0


def even_volume(own: SelfHosted, hosted: float, utilisation: float) -> BreakEvenPoint:
    """The requests a month from which on self-hosting is cheaper, at a utilisation; `hosted`: USD for one hosted request."""
    if isinstance(own, Serverless):
        return _even_volume_serverless(own, hosted)
    each, month = own.per_request(utilisation), own.month
    if hosted <= each:
        return BreakEvenPoint(None, "hosted_at_any_volume", hosted, each, utilisation)
    if month is None:
        value = own.fixed / (hosted - each)
    else:  # with `full` USD a month each earns at most: the last number of instances that does not pay from its first request on
        full = month / each * hosted
        value = (max(math.ceil((own.fixed + full) / (full - month)) - 1, own.always_on, 1) * month + own.fixed) / hosted
    if value == 0:
        return BreakEvenPoint(0.0, "own_from_the_first_request")
    return BreakEvenPoint(value, "own_from_volume", at=utilisation)


_STEPS = 1000


def _even_volume_serverless(own: Serverless, hosted: float) -> BreakEvenPoint:
    """The volume from which on it stays cheaper: each further worker begins dear, with few requests."""
    capacity = own.endpoint.rate * (1 - own.failure_rate) * MONTH_S

    def dearer(volume: float) -> float:
        return own.monthly(volume, 1.0) - volume * hosted

    # What a full worker saves is the same for each, and what the last one costs too much repeats with its requests.
    gain, last = own.fixed - dearer(capacity), [dearer(n / _STEPS * capacity) - own.fixed for n in range(_STEPS)]
    if gain <= 0:
        return BreakEvenPoint(None, "hosted_beside_a_busy_worker", hosted, (own.monthly(capacity, 1.0) - own.fixed) / capacity)
    full = max(0, math.ceil((own.fixed + max(last)) / gain) - 1)
    at = max((n for n in range(_STEPS) if own.fixed + last[n] - full * gain > 0), default=None)
    if at is None:
        return BreakEvenPoint(0.0, "own_from_the_first_request")
    low, high = ((full * _STEPS + n) / _STEPS * capacity for n in (at, at + 1))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if dearer(middle) > 0 else (low, middle)
    return BreakEvenPoint(high, "own_from_volume_while_up")


def even_utilisation(own: SelfHosted, hosted: float, volume: float) -> BreakEvenPoint:
    """The utilisation from which on self-hosting is cheaper, at a monthly volume."""
    budget = volume * hosted
    left = budget - own.fixed
    if left <= 0:
        return BreakEvenPoint(None, "hosted_below_fixed_costs", budget, own.fixed)
    if isinstance(own, Serverless):
        paid = own.monthly(volume, 1.0)
        return BreakEvenPoint(None, "own_while_up" if paid < budget else "hosted_while_up", budget, paid)
    month = own.month
    if month is not None and max(own.always_on, 1) * month > left:
        return BreakEvenPoint(None, "hosted_below_always_on", budget, max(own.always_on, 1) * month + own.fixed)
    value = own.per_request(1.0) * volume / (left if month is None else left // month * month)
    if value > 1:
        return BreakEvenPoint(None, "hosted_when_full", budget, own.monthly(volume, 1.0))
    return BreakEvenPoint(value, "own_from_utilisation", at=volume)


@dataclass(frozen=True)
class BreakEven:
    """Self-hosting against one hosted model, at the expected utilisation. Costs in USD a month at the declared volume, None without one.

    `per_request`: USD for a hosted request; `request`: how it is computed. `utilisation`: from which on self-hosting is cheaper at that
    volume, None without one. `reason`: why there is no comparison, None exactly where `volume` is set.
    """

    hosted: HostedModel
    per_request: Amount | None = None
    request: str = ""
    volume: BreakEvenPoint | None = None
    utilisation: BreakEvenPoint | None = None
    hosted_monthly: Amount | None = None
    own_monthly: Amount | None = None
    reason: str | None = None


@dataclass(frozen=True)
class HostedForecast:
    """`own`: costs of self-hosting, None where `reason` says why. `expected`: the utilisation used, 1 if none is declared."""

    provider: str
    workload: str
    purchase: Purchase
    own: SelfHosted | None = None
    price: str = ""
    rate: RateBasis | None = None
    utilisation: Range | None = None
    expected: float = 1.0
    volume: float | None = None
    against: tuple[BreakEven, ...] = ()
    reason: str | None = None
    unknown: tuple[UnknownInput, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    trials: tuple[str, ...] = ()


def hosted_forecast(
    provider: Provider,
    workload: AnyWorkload,
    trials: Sequence[TrialSample],
    economics: Economics,
    on: date,
    purchase: Purchase = "on_demand",
) -> HostedForecast:
    """A self-hosted model at the prices of the day `on` against each hosted one that the economics name for the workload."""
    case = ForecastInputs(provider, workload, trials, economics, on)
    about = (provider.name, workload.name, purchase)
    if (served := workload.serving) is None:
        return HostedForecast(*about, reason=f"{workload.name} is training, and hosted models are priced by token or request")
    hosted = economics.hosted_for(workload.name)
    if not hosted:
        why = (
            f"no hosted model is declared for {workload.name}; declare one in economics.yaml, such as hosted: [{{name: …, "
            f"workloads: [{workload.name}], input: 0.20 USD/1M tokens, output: 0.20 USD/1M tokens, since: …, source: …}}]"
        )
        return HostedForecast(*about, reason=why)
    found = deployment(case, purchase)
    if isinstance(found, str):
        return HostedForecast(*about, reason=found)
    own, price, delivered = found
    outcome = case.at_best("cost_per_1k_requests")
    utilisation = case.range("utilisation", "the break-even volume is as if every paid hour delivered")
    volume = case.volume(outcome)
    expected = 1.0 if utilisation is None else utilisation.expected
    return HostedForecast(
        *about,
        own=own,
        price=price,
        rate=delivered.basis,
        utilisation=utilisation,
        expected=expected,
        volume=volume,
        against=tuple(_break_even(case, served, own, each, expected, volume) for each in hosted),
        unknown=tuple(m for m in case.unknown if m.what != "price"),  # only the middle of its range counts here
        sources=tuple(case.sources.items()),
        trials=delivered.trials,
    )


def deployment(case: ForecastInputs, purchase: Purchase) -> tuple[SelfHosted, str, DeliveredRate] | str:
    """What serves the workload's requests on one's own instances, the basis of its price, and its rate; or why it is not known."""
    priced = case.price(purchase)
    if isinstance(priced, str):
        return priced
    # Who hosts bills every request, in time or not: one's own are counted the same way.
    delivered = case.delivered(case.at_best("cost_per_1k_requests"))
    if isinstance(delivered, str):
        return delivered
    failures = case.range("failure_rate", "the cost is as if nothing had to be done again")
    monthly = [case.monthly_data("egress"), case.monthly_data("storage")]
    support, support_share = case.support()
    about: dict[str, Any] = {
        "price": priced.hourly.expected * (1 + support_share),
        "rate": delivered.rate.expected * priced.copies,
        "failure_rate": 0.0 if failures is None else failures.expected,
        "fixed": sum(part.expected for part in monthly if part is not None) + (case.engineering() or 0.0) + support,
    }
    if priced.purchase != "serverless":
        return SelfHosted(**about, always_on=case.always_on(), whole=priced.whole), priced.basis, delivered
    found = case.scale_to_zero(delivered.rate.expected)
    if isinstance(found, str):
        return found
    return Serverless(**about, endpoint=found), priced.basis, replace(delivered, basis=replace(delivered.basis, up=found))


def _break_even(
    case: ForecastInputs, workload: InferenceWorkload, own: SelfHosted, hosted: HostedModel, utilisation: float, volume: float | None
) -> BreakEven:
    price = _per_request(case, workload, hosted)
    if isinstance(price, str):
        return BreakEven(hosted, reason=price)
    each, words = price
    return BreakEven(
        hosted,
        per_request=each,
        request=words,
        volume=even_volume(own, each, utilisation),
        utilisation=None if volume is None else even_utilisation(own, each, volume),
        hosted_monthly=None if volume is None else volume * each,
        own_monthly=None if volume is None else own.monthly(volume, utilisation),
    )


def _per_request(case: ForecastInputs, workload: InferenceWorkload, hosted: HostedModel) -> tuple[float, str] | str:
    """USD for one request of the workload, and how it is computed; or why it is unknown."""
    if hosted.request is not None:
        return hosted.request, f"{hosted.request * 1000:.10g} USD for 1,000 requests"
    assert hosted.input is not None and hosted.output is not None
    requests, written = case.measured("request_throughput", "value"), case.measured("output_token_throughput", "value")
    if requests is None or written is None or requests.expected <= 0:
        return f"{hosted.name} bills by tokens, and the output tokens of a request of {workload.name} were not measured"
    prompt, output = prompt_tokens(workload), written.expected / requests.expected
    return (
        prompt * hosted.input + output * hosted.output,
        f"{prompt:,.4g} input tokens at {hosted.input * 1e6:.10g} USD and {output:,.4g} output tokens at {hosted.output * 1e6:.10g} USD, each for 1M",
    )


def prompt_tokens(workload: InferenceWorkload) -> float:
    """Tokens of the mean prompt as it is declared: with retrieved documents, and in a conversation with what was said before."""
    requests = workload.requests
    prefix = float(requests.shared_prefix.tokens) if requests.shared_prefix else 0.0
    own, turns = mean_tokens(requests.prompt_lengths) - prefix, requests.turns.count if requests.turns else 1
    said_before = (turns - 1) / 2 * (own + mean_tokens(requests.output_tokens))
    return prefix + own + said_before + workload.added_tokens
