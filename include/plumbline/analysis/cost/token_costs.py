"""Costs of the tokens and requests that a hosted model counted. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from plumbline.analysis.cost.bill import Item, Line, Quantity, UnitPrice, Unknown
from plumbline.analysis.cost.formula import ChargeByOutcome, Formula, TokenCharge
from plumbline.analysis.cost.unit_costs import COSTS, Cost, MetricLookup, Outcome
from plumbline.declarations import Provider
from plumbline.declarations.providers.token_rate import TokenRate
from plumbline.metrics.units import exact
from plumbline.results.token_usage import TokenUsage

_MILLION = 1e6
TOKENS, REQUESTS = "M-token", "request"
"""Units of lines: a million tokens, one request."""
UNCOUNTED = "the endpoint reported no usage of some answered requests, so what it bills for them is not known"


def token_rate(provider: Provider, on: date) -> TokenRate | str:
    """The rate that holds on a day, or why there is none."""
    valid = next((rate for rate in provider.token_prices if rate.holds(on)), None)
    return valid if valid is not None else f"none of the token_prices of {provider.name} holds on {on.isoformat()}"


def token_lines(rate: TokenRate, usage: Sequence[TokenUsage], item: Item = "hosted") -> Iterator[Line | Unknown]:
    """The lines of a bill: tokens by kind and tier, and requests. What the server did not count is unknown, with the reason."""
    amounts: dict[tuple[str, str, float], float] = {}

    def add(what: str, unit: str, price: float, quantity: float) -> None:
        if quantity:
            key = (what, unit, price)
            amounts[key] = float(exact(amounts.get(key, 0.0)) + exact(quantity))

    for row in usage:
        tier = rate.tier(row.above)
        prices = rate if tier is None else tier
        where = "" if tier is None else f", prompts above {tier.above:,} tokens"
        if prices.input is not None and prices.output is not None:
            cached = row.cached_tokens or 0
            cached_price = prices.input if prices.cached_input is None else prices.cached_input
            add(f"input{where}", TOKENS, prices.input * _MILLION, (row.input_tokens - cached) / _MILLION)
            add(f"cached input{where}", TOKENS, cached_price * _MILLION, cached / _MILLION)
            add(f"output{where}", TOKENS, prices.output * _MILLION, row.output_tokens / _MILLION)
        if rate.request is not None:
            add("requests", REQUESTS, rate.request, row.requests + row.uncounted)
    for (what, unit, price), quantity in amounts.items():
        # A price for 1M tokens as it was written: a product of floats has digits of its own.
        yield Line(
            item, Quantity(quantity, unit), UnitPrice(float(f"{price:.12g}"), "USD", unit), "list", rate.source, rate.since, what, 1.0
        )
    uncounted = sum(row.uncounted for row in usage)
    if uncounted and rate.input is not None:
        yield Unknown(item, f"the endpoint reported no usage of {uncounted} answered requests, so their tokens are not known")
    if rate.cached_input is not None and any(row.cached_tokens is None and row.requests for row in usage):
        yield Unknown(item, "the endpoint did not report cached tokens: all input is billed as not cached")


def token_costs(provider: Provider, on: date, usage: Sequence[TokenUsage], measured: MetricLookup) -> tuple[Cost, ...]:
    """Every cost metric of one inference trial. The bill of a request does not depend on the rate: the costs at the sustained and at the offered
    rate are both those of the steady phase's requests; only the share that meets the SLO is of the rate."""
    rate = token_rate(provider, on)
    charge = rate if isinstance(rate, str) else _steady(rate, usage)
    total = None if isinstance(rate, str) else charged_usd(rate, usage)
    why = charge if isinstance(charge, str) else UNCOUNTED
    costs = [
        Cost("cost_per_run", total, None, Formula("all_charges")) if total is not None else Cost("cost_per_run", None, None, reason=why)
    ]
    outcomes = [outcome for outcome in COSTS if outcome.kind == "inference"]
    if isinstance(charge, str):
        return (*costs, *(Cost(outcome.metric, None, None, reason=charge) for outcome in outcomes))
    return (*costs, *(_cost(outcome, charge, measured) for outcome in outcomes))


def charged_usd(rate: TokenRate, usage: Sequence[TokenUsage]) -> float | None:
    """USD for all of the usage; None if it is not known as a whole."""
    if not usage or (any(row.uncounted for row in usage) and rate.input is not None):
        return None
    return float(sum(exact(line.cost.amount) for line in token_lines(rate, usage) if isinstance(line, Line)))


def _steady(rate: TokenRate, usage: Sequence[TokenUsage]) -> TokenCharge | str:
    rows = [row for row in usage if row.phase == "steady"]
    requests = sum(row.requests for row in rows)
    if not requests:
        return "the endpoint reported no usage in the steady phase, so what it bills is not known"
    usd = charged_usd(rate, [row.model_copy(update={"uncounted": 0}) for row in rows])
    assert usd is not None
    read, written = sum(row.input_tokens for row in rows), sum(row.output_tokens for row in rows)
    cached = sum(row.cached_tokens or 0 for row in rows)
    return TokenCharge(usd, requests, read, cached, written)


def _cost(outcome: Outcome, charge: TokenCharge, measured: MetricLookup) -> Cost:
    units: float = {
        "request_throughput": charge.requests,
        "input_token_throughput": charge.input_tokens,
        "output_token_throughput": charge.output_tokens,
    }.get(outcome.rate, 0.0)
    if outcome.rate == "goodput":
        good = next((share for phase in (outcome.phase, "steady") if (share := _good_share(measured, phase)) is not None), None)
        if good is None:
            return Cost(outcome.metric, None, None, reason="goodput was not measured")
        units = charge.requests * good
    if units <= 0:
        return Cost(outcome.metric, None, None, reason=f"{outcome.rate} was 0: no outcome was delivered")
    assert outcome.amount is not None
    value = charge.usd * outcome.amount / units
    return Cost(outcome.metric, value, None, Formula(ChargeByOutcome(charge, units, outcome.what, outcome.amount)))


def _good_share(measured: MetricLookup, phase: str) -> float | None:
    """Requests within the SLO over those that finished."""
    good, finished = measured("goodput", "value", phase), measured("request_throughput", "value", phase)
    return None if good is None or finished is None or finished <= 0 else min(good / finished, 1.0)
