"""Costs and cost forecasts in words."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from plumbline.analysis.cost.forecast import CostForecast, RateBasis
from plumbline.analysis.cost.formula import (
    ChargeByOutcome,
    Formula,
    HeldTime,
    HourlyPart,
    MonthlyPart,
    SharedBills,
    SupportShare,
    TimeAtRate,
    TimeUp,
)
from plumbline.analysis.cost.hosted_forecast import BreakEvenPoint, HostedForecast
from plumbline.analysis.cost.interruptions import EndlessRun, Restarts
from plumbline.analysis.cost.payment_options import PaymentOption, PaymentOptions
from plumbline.analysis.cost.scenarios import Driver, FleetScenario
from plumbline.analysis.cost.spot_forecast import ASKED, NeverFinishes, RunWork, SpotBreakEven, SpotForecast
from plumbline.analysis.cost.trial_bill import MONTH_H
from plumbline.analysis.cost.unit_costs import Cost
from plumbline.analysis.prices.book import Basis
from plumbline.analysis.trial_sample import InterruptionRate, TrialSample
from plumbline.metrics.formatting import format_money, format_percent, format_significant, join_words


def fleet_text(fleet: FleetScenario) -> str:
    """The instances of a month, such as `2.4 instances needed, 3 bought, 0.6 slack`."""
    if not fleet.whole:
        return f"{format_significant(fleet.needed)} instances on average, held by the hour"
    slack = format_significant(fleet.bought - fleet.needed)
    return f"{format_significant(fleet.needed)} instances needed, {fleet.bought:g} bought, {slack} slack"


def format_driver(driver: Driver, value: float) -> str:
    """A driver's value with its unit, such as `3.6 USD/h`."""
    if driver in ("utilisation", "failure_rate"):
        return f"{100 * value:.3g} %"
    return f"{format_significant(value)}{'/s' if driver == 'rate' else ' USD/h' if driver == 'price' else ' USD a month'}"


def cost_data(cost: Cost) -> dict[str, Any]:
    """The fields of a cost for JSON, its formula and its reason in words."""
    return {**vars(cost), "formula": formula_text(cost), "reason": reason_text(cost.reason)}


def formula_text(cost: Cost) -> str:
    """How a cost was computed, with its numbers; empty where it has no value."""
    if (how := cost.formula) is None:
        return ""
    factor = "" if how.restarts is None else f" × {how.restarts.factor:.6g} ({restarts_text(how.restarts)})"
    without = f"; without {how.left_out}, which were not measured" if how.left_out else ""
    return " + ".join([f"{_start_text(how, cost.basis)}{factor}{without}", *map(_beside_text, how.beside)])


def _start_text(how: Formula, basis: Basis | None) -> str:
    hour = "" if basis is None else basis.hour
    match how.start:
        case "all_charges":
            return "tokens and requests of all phases, the first inference and the evaluation included"
        case HeldTime(seconds, None):
            return f"{hour} × {seconds:.4g} s"
        case HeldTime(seconds, failed_s):
            return f"{hour} × ({seconds:.4g} s + {failed_s:.4g} s of failed attempts)"
        case TimeAtRate() as at:
            several = f"{at.nodes} nodes × " if at.nodes > 1 else ""
            where = {"sustained": " at the highest rate that keeps the SLO", "offered": " at the offered rate", None: ""}[at.load]
            return f"{several}{hour} × {at.amount:.10g} {at.what} ÷ {at.per_second:.6g}/s{where}"
        case TimeUp() as up:
            kept_up = f"{format_significant(up.hours)} h of {MONTH_H:g} that it is up"
            return f"{hour} × {kept_up} × {up.amount:.10g} ÷ {up.volume:.6g} {up.what} a month"
        case ChargeByOutcome(charge, units, what, amount):
            read = f"{charge.input_tokens:,} input tokens ({charge.cached_tokens:,} cached)"
            billed = f"{charge.usd:.6g} USD for {charge.requests:,} requests with {read} and {charge.output_tokens:,} output tokens"
            return f"{billed} ÷ {units:.6g} {what} × {amount:.10g}"
        case SharedBills(failed, finished):
            return f"bill of the run, and of {failed} failed attempts shared by {finished}"


def _beside_text(part: SupportShare | MonthlyPart | HourlyPart) -> str:
    match part:
        case SupportShare(share):
            return f"{share:.4g} of it for support"
        case MonthlyPart(usd, items, amount, volume):
            return f"{usd:,.10g} USD a month of {join_words(items)} × {amount:.10g} ÷ {volume:.6g} a month"
        case HourlyPart(usd, items):
            return f"{usd:.6g} USD an instance-hour of {join_words(items)}"


def trial_data(trial: TrialSample) -> dict[str, Any]:
    """The fields of a trial for JSON, in words what its costs include."""
    restarts = "" if trial.restarts is None else interruptions_text(trial.restarts)
    return {
        **{each.name: getattr(trial, each.name) for each in fields(trial)},
        "restarts": restarts,
        "includes": join_words(trial.includes),
    }


def interruptions_text(rate: InterruptionRate) -> str:
    """A rate with its source, such as `0.05 interruptions an hour (dispatch log)`."""
    return f"{format_significant(rate.per_hour)} interruptions an hour ({rate.source})"


def restarts_text(restarts: Restarts) -> str:
    """What the factor of expected restarts rests on."""
    rate, run = interruptions_text(restarts.rate), restarts.run
    if run is None:
        return f"without {rate}: restart_penalty was not measured"
    again = "" if run.every_s is None else f" and half of {run.every_s + run.checkpoint_s:.4g} s again"
    return f"{rate}, each {run.restart_s:.4g} s of restart{again}"


def reason_text(reason: str | EndlessRun | None) -> str | None:
    """Why there is no cost; None where there is one."""
    return f"at {interruptions_text(reason.rate)} a run practically never finishes" if isinstance(reason, EndlessRun) else reason


def rate_text(basis: RateBasis | None) -> str:
    """What a rate rests on; empty where it is not known."""
    if basis is None:
        return ""
    per_second = format_significant(basis.per_second)
    match basis.load:
        case "steady":
            words = f"as in the steady phase, {per_second}/s"
        case "offered":
            words = f"at the offered rate, {per_second}/s"
        case "sustained":
            steady = "" if basis.steady is None else f" (steady phase: {format_significant(basis.steady)})"
            words = f"at {per_second} requests a second, the highest rate that keeps the SLO{steady}"
    words += f"; {restarts_text(basis.restarts)}" if basis.restarts else ""
    if basis.up is None:
        return words
    started = f"cold start {format_significant(basis.up.start)} s" if basis.up.start else "cold start not measured"
    kept_up = f"a request keeps it up for {format_significant(basis.up.residence)} s"
    return f"{words}; {kept_up}, {started}, up for {basis.up.idle:g} s without requests"


def forecast_data(forecast: CostForecast) -> dict[str, Any]:
    """The fields of a forecast for JSON, the basis of its rate in words."""
    return {**vars(forecast), "rate": rate_text(forecast.rate), "reason": reason_text(forecast.reason)}


def option_text(option: PaymentOption) -> str:
    """What a way to pay rests on."""
    return "; ".join(filter(None, (option.basis, rate_text(option.rate))))


def options_data(ways: PaymentOptions) -> dict[str, Any]:
    """The fields of the ways to pay for JSON, each option as its name, its cost and what it rests on."""
    return {**vars(ways), "options": [(o.name, o.cost, option_text(o)) for o in ways.options]}


def break_even_text(point: BreakEvenPoint) -> str:
    """What follows from a point at which one's own and hosted cost the same, in a sentence without a full stop."""
    value, hosted, own = point.value or 0.0, format_money(point.hosted), format_money(point.own)
    a_request, a_month = f"a request costs {hosted} hosted, {own} self-hosted", f"it costs {hosted} a month hosted, {own} self-hosted"
    match point.follows:
        case "hosted_at_any_volume":
            return f"hosted is cheaper at any volume: {a_request} at {format_percent(point.at)} utilisation"
        case "hosted_beside_a_busy_worker":
            return f"hosted is cheaper at any volume: {a_request} by a worker that is always busy"
        case "own_from_the_first_request":
            return "self-hosting is cheaper from the first request on: it has no fixed costs"
        case "own_from_volume":
            return f"self-hosting is cheaper from {value:,.0f} requests a month on, at {format_percent(point.at)} utilisation"
        case "own_from_volume_while_up":
            return f"self-hosting is cheaper from {value:,.0f} requests a month on, billed while requests keep it up"
        case "hosted_below_fixed_costs":
            return f"hosted is cheaper at any utilisation: it costs {hosted} a month, the fixed costs of self-hosting {own}"
        case "own_while_up" | "hosted_while_up":
            who = "self-hosting" if point.follows == "own_while_up" else "hosted"
            return f"{who} is cheaper at any utilisation: {a_month}, which is billed while requests keep it up"
        case "hosted_below_always_on":
            always = f"always-on instances with the fixed costs of self-hosting {own}"
            return f"hosted is cheaper at any utilisation: it costs {hosted} a month, {always}"
        case "hosted_when_full":
            return f"hosted is cheaper even at 100 % utilisation: {hosted} a month hosted, {own} self-hosted"
        case "own_from_utilisation":
            return f"self-hosting is cheaper from {format_percent(value, 1)} utilisation on, at {point.at:,.0f} requests a month"


def hosted_data(forecast: HostedForecast) -> dict[str, Any]:
    """The fields of a forecast for JSON, its break-even points in words."""
    against = [
        {**vars(each), "volume": _point_data(each.volume), "utilisation": _point_data(each.utilisation)} for each in forecast.against
    ]
    return {**vars(forecast), "rate": rate_text(forecast.rate), "against": against}


def _point_data(point: BreakEvenPoint | None) -> dict[str, Any] | None:
    return None if point is None else {"value": point.value, "sentence": break_even_text(point)}


def spot_even_text(even: SpotBreakEven) -> str:
    """Which of spot and on demand is cheaper, and why or up to which rate, without a full stop."""
    match even.follows:
        case "spot_is_free":
            return "spot costs nothing: it is cheaper at any interruption rate"
        case "spot_costs_as_much":
            spot, on_demand = (format_money(price, "USD/h") for price in (even.spot_per_hour, even.on_demand_per_hour))
            return f"spot at {spot} is no cheaper than {on_demand} on demand, without any interruption"
        case "no_paid_time":
            return "an interruption costs no paid time: spot is cheaper at any interruption rate"
        case "spot_at_any_rate":
            return "spot is cheaper even if it is interrupted every second"
        case "from_rate":
            return f"from {even.per_hour:.3g} interruptions an hour on, spot is no longer cheaper"


def spot_reason(forecast: SpotForecast) -> str | None:
    """Why there is no forecast; None where there is one."""
    if not isinstance(forecast.reason, NeverFinishes):
        return forecast.reason
    often = f"at {format_significant(forecast.reason.per_hour)} interruptions an hour a run practically never finishes"
    return f"{often}; {spot_even_text(forecast.reason.why)}"


def run_text(work: RunWork | None) -> str:
    """What one run is, such as `100 h of work, as asked`; empty where it is not known."""
    if work is None:
        return ""
    hours = f"{work.work_s / 3600:,.4g} h of work"
    if work.source == ASKED:
        return f"{hours}, as asked"
    at = "" if work.amount is None else f"{work.amount:,} {work.what.replace('_', ' ')} at {format_significant(work.rate)}/s: "
    return f"{at}{hours} ({work.source})"


def spot_data(forecast: SpotForecast) -> dict[str, Any]:
    """The fields of a forecast for JSON, its run and its reasons in words."""
    cost = forecast.cost and {**vars(forecast.cost), "why": spot_even_text(forecast.cost.why)}
    in_words = {"run_basis": run_text(forecast.work), "cost": cost, "reason": spot_reason(forecast)}
    return {("run_basis" if name == "work" else name): value for name, value in vars(forecast).items()} | in_words
