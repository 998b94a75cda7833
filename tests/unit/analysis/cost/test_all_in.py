"""The cost of an outcome, all in: by hand, equal to the forecast, and it decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.analysis.cost.test_forecast import CHAT, DAY, SOURCE, economics, trials
from tests.unit.analysis.cost.test_forecast import provider as rented

from plumbline.analysis.cost.forecast import cost_forecast
from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.cost.scale_to_zero import ScaleToZero
from plumbline.analysis.decisions.cheapest import Requirements, cheapest
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.savings import CostAnswer, answers_of, relative_switches
from plumbline.analysis.prices.book import with_price_factor
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Preference, Provider
from plumbline.declarations.economics import Economics
from plumbline.words.comparisons import limitation_text
from plumbline.words.decisions import why_not_texts

METRIC = "cost_per_1k_requests"
SINCE = {"since": "2026-01-01", **SOURCE}
SERVED = {
    "request_throughput value steady": 10.0,
    "goodput value steady": 10.0,
    "request_throughput value sweep": 10.0,
    "highest_sustained_rate value sweep": 10.0,
    "error_rate value sweep": 0.0,
    "request_latency mean steady": 5.0,
}
NOW: dict[str, Any] = {
    "workload": CHAT.name,
    "volume": {"requests": 1_000_000},
    "egress": {"low": "1000GB", "expected": "1000GB", "high": "1000GB"},
}
WITH_PEOPLE = NOW | {"storage": {"low": "1GB", "expected": "1GB", "high": "1GB"}, "engineering": "100 USD/month"}


def place(name: str, usd: float, egress: float | None, **more: Any) -> Provider:
    rates = [{"item": "egress", "price": f"{egress} USD/GB", **SINCE}] if egress is not None else []
    prices = [{"purchase": "on_demand", "price": f"{usd} USD/h", **SINCE}]
    return rented(name=name, prices=prices, rates=[*rates, {"item": "storage", "price": "0.1 USD/GB-month", **SINCE}], **more)


def priced(said: Economics | None, *places: Provider, repeats: int = 3, numbers: dict[str, float] = SERVED) -> tuple[TrialSample, ...]:
    own = [
        replace(t, trial_id=f"{p.name}-{t.trial_id}", slot=f"0{t.repeat}:00")
        for p in places
        for t in trials(CHAT, *[numbers] * repeats, place=p.name)
    ]
    return with_costs(own, {p.name: p for p in places}, DAY, workloads={CHAT.name: CHAT}, economics=said)


def cost(of: TrialSample) -> float:
    value = of.value(METRIC, "value", "sweep")
    assert value is not None
    return value


CHEAP_HOUR, DEAR_HOUR = place("cheap-hour", 36.0, 0.50), place("dear-hour", 39.6, 0.05)


def test_a_cheap_hour_with_dear_egress_loses() -> None:
    """10 requests a second. cheap-hour: 36 USD/h, 1.00 USD for 1,000 requests; of a million requests a month 1,000 GB leave it at 0.50 USD/GB,
    500 USD, 0.50 USD for 1,000: 1.50. dear-hour: 1.10 + 50 USD ÷ 1,000 = 1.15. By the hour alone cheap-hour wins."""
    wanted = Preference.model_validate({"workloads": (CHAT.name,), "weights": {METRIC: 1.0}})
    needs = Requirements("inference", CHAT.name)
    by_hour, all_in = priced(None, CHEAP_HOUR, DEAR_HOUR), priced(economics(NOW), CHEAP_HOUR, DEAR_HOUR)
    for several, first, costs in ((by_hour, "cheap-hour", {1.0, 1.1}), (all_in, "dear-hour", {1.5, 1.15})):
        decision, found = decide("t", "inference", wanted, several), cheapest(needs, METRIC, several)
        assert {round(cost(t), 9) for t in several} == costs
        assert (decision.first_name, found.answer and found.answer.provider) == (first, first)
    (answer,) = answers_of(decision, (found,), lambda *_: None, "cheap-hour")
    assert isinstance(answer, CostAnswer)
    (switch,) = relative_switches([answer])
    assert (switch.to, round(switch.saving, 4)) == ("dear-hour", round(1 - 1.15 / 1.5, 4))
    texts = {each.code: limitation_text(each) for each in decision.comparison.limitations}
    assert texts["cost_includes"] == "Cost includes, beside the hours, egress (all)"
    assert "storage, engineering (all: not declared)" in texts["cost_without"]


def test_a_dear_support_plan_flips_the_winner_too() -> None:
    """20 % of what cheap-hour's instances cost: 1.20 against 1.10."""
    plan = [{"what": "business support", "share": "20%", **SINCE}]
    found = priced(economics(), place("cheap-hour", 36.0, None, support=plan), DEAR_HOUR, repeats=1)
    assert [round(cost(t), 9) for t in found] == [1.2, 1.1]
    assert [t.includes for t in found] == [("support",), ()]


def test_support_by_the_month_counts_by_the_hour_without_a_volume() -> None:
    """720 USD over 720 instance-hours: 1 USD an hour beside 36."""
    plan = [{"what": "enterprise support", "per_month": "720 USD/month", "instance_hours": 720, **SINCE}]
    (found,) = priced(economics(), place("p", 36.0, None, support=plan), repeats=1)
    assert cost(found) == pytest.approx(37 / 36) and found.includes == ("support",)


def test_it_is_the_forecast_s_cost() -> None:
    said, p = economics(WITH_PEOPLE), place("cluster-a", 36.0, 0.50, support=[{"what": "support", "share": "10%", **SINCE}])
    (found,) = priced(said, p, repeats=1)
    forecast = cost_forecast(p, CHAT, [found], said, DAY)
    assert forecast.scenarios is not None and forecast.metric == "cost_per_good_request_at_offered_rate"
    one = found.value(forecast.metric, "value", "steady")
    assert one is not None and one * forecast.amount == pytest.approx(forecast.scenarios.expected.total)
    assert found.without == () and found.includes == ("support", "egress", "storage", "engineering")


@pytest.mark.parametrize(
    ("said", "egress", "without"),
    [
        ({}, 0.5, {"egress: not declared", "storage: not declared", "engineering: not declared"}),
        ({"egress": NOW["egress"]}, 0.5, {"egress: no volume is declared", "storage: not declared", "engineering: not declared"}),
        (NOW, None, {"storage: not declared", "engineering: not declared"}),
        (WITH_PEOPLE, 0.5, set[str]()),
    ],
    ids=["nothing", "no volume", "no rate", "all"],
)
def test_what_is_not_known_is_named_and_no_zero(said: dict[str, Any], egress: float | None, without: set[str]) -> None:
    (found,) = priced(economics(said) if said else economics(), place("p", 36.0, egress), repeats=1)
    named = set(found.without)
    if egress is None:
        (rate,) = named - without
        assert rate.startswith("egress: no egress rate of p")
        named -= {rate}
    assert named == without


def test_an_endpoint_that_scales_to_zero_ranks_by_its_month() -> None:
    """0.01 USD a GPU-second; a request keeps a worker up for 5 s, not for a tenth of a second."""
    rates = [{"gpu_second": "0.01 USD/GPU-second", **SINCE}]
    up = rented(name="scaled", prices=[], launcher={"kind": "simulated", "seed": 7, "nodes": 1}, serverless=rates)
    hour = 36.0 * up.accelerator.count
    (found,) = priced(economics({"workload": CHAT.name, "volume": {"requests": 1_000}}), up, repeats=1)
    assert cost(found) == pytest.approx(ScaleToZero(10.0, 5.0).hours(1_000) * hour)
    assert cost(found) > 40 * hour * 1000 / 10 / 3600
    wanted = Preference.model_validate({"workloads": (CHAT.name,), "weights": {METRIC: 1.0}})
    for said, numbers, why in (
        (economics(), SERVED, "no volume is declared"),
        (economics(NOW), {k: v for k, v in SERVED.items() if "latency" not in k}, "request_latency"),
    ):
        unknown = priced(said, up, repeats=2, numbers=numbers)
        assert unknown[0].value(METRIC, "value", "sweep") is None
        (ranked,) = decide("t", "inference", wanted, unknown).ranking
        assert not ranked.eligible and why in why_not_texts(ranked)[0]


def test_another_price_moves_the_hours_alone_and_keeps_an_endpoint_s_idle_time() -> None:
    """What decisions ask of prices: the cost is a line in the price's factor."""
    rates = [{"gpu_second": "0.01 USD/GPU-second", "idle": "60s", **SINCE}]
    up = rented(name="scaled", prices=[], launcher={"kind": "simulated", "seed": 7, "nodes": 1}, serverless=rates)
    for p in (CHEAP_HOUR, up):
        once, twice, thrice = (cost(priced(economics(NOW), with_price_factor(p, f), repeats=1)[0]) for f in (1.0, 2.0, 3.0))
        assert once == pytest.approx(cost(priced(economics(NOW), p, repeats=1)[0]))
        assert thrice - twice == pytest.approx(twice - once) and twice > once
