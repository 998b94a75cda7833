"""From measured trials and declared economics to costs: by hand, and each thing that nobody declared named with what to declare."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from tests.data.plain_rows import plain_row
from tests.fakes.trials import cluster_provider, declared
from tests.golden import Golden

from plumbline.analysis.cost.forecast import CostForecast, cost_forecast
from plumbline.analysis.cost.hosted_forecast import hosted_forecast
from plumbline.analysis.cost.spot_forecast import spot_forecast
from plumbline.analysis.prices.book import quote
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import AnyWorkload, Provider
from plumbline.declarations.economics import Economics
from plumbline.metrics.rows import MetricRow
from plumbline.words.costs import rate_text, reason_text, spot_reason

DAY = date(2026, 11, 20)
CHAT, GPT = declared().workloads["chat-tiny-cpu"], declared().workloads["gpt-tiny-cpu"]
SOURCE = {"source": "a test"}


def provider(**more: Any) -> Provider:
    prices = [
        {"purchase": "on_demand", "price": "36 USD/h", "since": "2026-01-01", **SOURCE},
        {"purchase": "spot", "price": "12 USD/h", "since": "2026-01-01", **SOURCE},
    ]
    data = json.loads(cluster_provider().model_dump_json()) | {"prices": prices, **more}
    return Provider.model_validate_json(json.dumps(data))


def economics(*assumptions: dict[str, Any], **more: Any) -> Economics:
    return Economics.model_validate_json(json.dumps({"assumptions": [{**SOURCE, **a} for a in assumptions], **more}))


def trials(workload: AnyWorkload, *several: dict[str, float], place: str = "cluster-a") -> list[TrialSample]:
    """A usable trial for each; names are `metric statistic phase`."""

    def number(name: str, value: float) -> MetricRow:
        metric, statistic, phase = name.split()
        return plain_row(phase, metric, statistic, value, "", "", 1)

    return [
        TrialSample(
            trial_id=f"t{i}",
            provider=place,
            kind=workload.kind,
            workload=workload.name,
            version=workload.version,
            status="valid",
            slot="02:00",
            repeat=i,
            started=DAY,
            metrics=tuple(number(name, value) for name, value in numbers.items()),
        )
        for i, numbers in enumerate(several, start=1)
    ]


SERVED = {
    "goodput value steady": 10.0,
    "request_throughput value steady": 10.0,
    "output_token_throughput value steady": 160.0,
    "cost_per_good_request_at_offered_rate value steady": 0.001,
}
TRAINED = {
    "tokens_per_second median steady": 1000.0,
    "step_time median steady": 2.0,
    "cost_per_1m_trained_tokens value steady": 10.0,
    "restart_penalty value recovery": 90.0,
    "restart_recompute_time value recovery": 30.0,
    "checkpoint_blocking_time median steady": 4.0,
}


def missing(found: CostForecast) -> set[str]:
    return {m.what for m in found.unknown}


def test_by_hand() -> None:
    place = provider(rates=[{"item": "egress", "price": "0.10 USD/GB", "since": "2026-01-01", **SOURCE}])
    said = economics(
        {
            "utilisation": {"low": "40%", "expected": "50%", "high": "80%"},
            "egress": {"low": "1000GB", "expected": "2000GB", "high": "4000GB"},
            "volume": {"requests": 1_000_000},
            "engineering": "1000 USD/month",
        }
    )
    found = cost_forecast(place, CHAT, trials(CHAT, SERVED, SERVED, SERVED), said, DAY)
    assert (found.metric, found.trials) == ("cost_per_good_request_at_offered_rate", ("t1", "t2", "t3"))
    assert found.outcome == f"1,000,000 {found.what}"
    # 1,000 USD of instances at full use, 2,000 at half of it; 200 of egress; 1,000 of people.
    assert found.scenarios is not None and found.scenarios.expected.total == pytest.approx(3200.0)
    assert found.scenarios.best.total == pytest.approx(1250.0 + 100.0 + 1000.0)
    assert found.tornado is not None and [bar.driver for bar in found.tornado.bars] == ["utilisation", "egress"]
    assert missing(found) == {"price", "failure_rate", "storage"}
    assert dict(found.sources)["egress"] == f"{SOURCE['source']}; 0.1 USD/GB: {SOURCE['source']}"


def test_the_outcome_is_what_was_measured_also_where_the_economics_alone_know_a_price() -> None:
    said = economics({"price_per_hour": [{"purchase": "spot", "low": "36 USD/h", "expected": "36 USD/h", "high": "36 USD/h"}]})
    images = trials(GPT, {"samples_per_second median steady": 100.0})
    found = cost_forecast(provider(prices=[]), GPT, images, said, DAY, "spot")
    assert (found.metric, found.reason) == ("cost_per_1m_trained_samples", None)
    assert found.scenarios is not None and found.scenarios.expected.total == pytest.approx(100.0)


def test_the_interval_of_the_rate_is_a_driver() -> None:
    slow = SERVED | {"goodput value steady": 8.0}
    found = cost_forecast(provider(), CHAT, trials(CHAT, SERVED, slow), economics(), DAY)
    assert found.model is not None and (found.model.rate.low, found.model.rate.expected, found.model.rate.high) == (8.0, 9.0, 10.0)
    assert found.scenarios is not None and found.scenarios.worst.total == pytest.approx(1250.0)


def test_fully_used_is_the_highest_rate_within_the_slo_where_it_was_searched() -> None:
    sweep = {"request_throughput": 38.0, "goodput": 34.2, "output_token_throughput": 608.0, "error_rate": 0.0}
    searched = SERVED | {f"{metric} value sweep": value for metric, value in sweep.items()}
    found = cost_forecast(provider(), CHAT, trials(CHAT, searched | {"highest_sustained_rate value sweep": 40.0}), economics(), DAY)
    assert found.metric == "cost_per_good_request"
    assert found.model is not None and found.model.rate.expected == pytest.approx(36.0)  # nine of ten of them within the SLO
    assert "40.0" in rate_text(found.rate).split()
    below = cost_forecast(provider(), CHAT, trials(CHAT, searched | {"highest_sustained_rate value sweep": 5.0}), economics(), DAY)
    assert below.model is not None and below.model.rate.expected == pytest.approx(4.5)  # the steady phase's rate broke the SLO


@pytest.mark.parametrize("good", [38.0, 34.2, 19.0])
def test_one_search_is_a_range_also_where_its_lowest_rate_is_the_one_that_held(good: float) -> None:
    held = 190.27313840043539
    sweep = {
        "request_throughput": 38.0,
        "goodput": good,
        "output_token_throughput": 608.0,
        "error_rate": 0.0,
        "highest_sustained_rate": held,
    }
    (trial,) = trials(CHAT, SERVED | {f"{metric} value sweep": value for metric, value in sweep.items()})
    bracketed = tuple(
        m.model_copy(update={"ci_low": held, "ci_high": 226.3}) if m.metric == "highest_sustained_rate" else m for m in trial.metrics
    )
    found = cost_forecast(provider(), CHAT, [replace(trial, metrics=bracketed)], economics(), DAY)
    assert found.model is not None and found.model.rate.low == found.model.rate.expected < found.model.rate.high


def test_prices_by_declared_multiples_and_by_declared_ranges() -> None:
    multiples = economics({"price": {"low": "0.5x", "expected": "1x", "high": "2x"}})
    found = cost_forecast(provider(), CHAT, trials(CHAT, SERVED), multiples, DAY)
    assert found.model is not None and (found.model.price.low, found.model.price.high) == (18.0, 72.0)
    ranges = economics({"price_per_hour": [{"purchase": "spot", "low": "5 USD/h", "expected": "6 USD/h", "high": "7 USD/h"}]})
    spot = cost_forecast(provider(), CHAT, trials(CHAT, SERVED), ranges, DAY, "spot")
    assert spot.model is not None and spot.model.price.expected == 6.0
    assert spot.price.startswith("spot, 6 USD/h") and spot.price.endswith(SOURCE["source"])
    assert "price" in missing(cost_forecast(provider(), CHAT, trials(CHAT, SERVED), ranges, DAY))


@pytest.mark.parametrize(
    ("assumption", "rates", "what", "said"),
    [
        (
            {},
            [],
            "utilisation",
            "as if every paid hour delivered; declare it for cluster-a in economics.yaml, such as utilisation: {low: 40%",
        ),
        ({}, [], "egress", "such as egress: {low: 100GB"),
        ({"egress": {"low": "1GB", "expected": "1GB", "high": "1GB"}}, [], "egress", "no egress rate of cluster-a holds on 2026-11-20"),
        ({}, [], "volume", "such as volume: {requests: 50000000}"),
        (
            {"volume": {"trained_tokens": 5}},
            [],
            "volume",
            "declared in trained tokens, and tokens_per_second of chat-tiny-cpu was not measured",
        ),
        ({}, [], "engineering", "without people's time"),
    ],
)
def test_what_nobody_declared_is_named(assumption: dict[str, Any], rates: list[Any], what: str, said: str) -> None:
    made = economics(assumption) if assumption else economics()
    found = cost_forecast(provider(rates=rates), CHAT, trials(CHAT, SERVED), made, DAY)
    (one,) = [str(m) for m in found.unknown if m.what == what]
    assert said in one
    assert found.model is not None and getattr(found.model, what) is None


def test_a_provider_s_overhead_by_the_month_is_engineering_too() -> None:
    hours = {"what": "updates", "time": "10h", "per": "month", "instance_hours": 100, "price": "120 USD/h", "since": "2026-01-01", **SOURCE}
    found = cost_forecast(provider(overhead=[hours]), CHAT, trials(CHAT, SERVED), economics(), DAY)
    assert found.model is not None and found.model.engineering == pytest.approx(1200.0)


def test_no_price_and_nothing_measured_are_no_cost() -> None:
    bare = cost_forecast(cluster_provider(), CHAT, trials(CHAT, SERVED), economics(), DAY)
    assert (bare.model, bare.scenarios, bare.tornado, bare.reason) == (None, None, None, quote(cluster_provider(), DAY).reason)
    silent = cost_forecast(provider(), CHAT, trials(CHAT, SERVED, place="elsewhere"), economics(), DAY)
    assert silent.model is None and silent.metric == "cost_per_good_request" and "was not measured" in str(silent.reason)


# spot


def spot_economics(per_hour: float = 0.1, **assumption: Any) -> Economics:
    rate = {"provider": "*", "interruptions": f"{per_hour}/h", "since": "2026-11-01", **SOURCE}
    return economics(*([assumption] if assumption else []), spot=[rate])


def test_a_run_on_spot_by_hand() -> None:
    found = spot_forecast(provider(), GPT, trials(GPT, TRAINED), spot_economics(run={"time": "100h"}), DAY)
    every = GPT.checkpoint.every * 2.0  # type: ignore[union-attr]
    assert found.run is not None and found.cost is not None
    assert (found.run.work_s, found.run.restart_s, found.run.every_s, found.run.checkpoint_s) == (360_000.0, 60.0, every, 4.0)
    assert (found.on_demand_per_hour, found.spot_per_hour, found.per_hour) == (36.0, 12.0, pytest.approx(0.1))
    assert found.cost.on_demand == pytest.approx(36.0 * (360_000 + 360_000 // every * 4) / 3600)
    assert 0.6 < found.cost.saving < 2 / 3  # two thirds less for an hour, and some more hours
    assert found.trials == ("t1",)


@pytest.mark.parametrize("rate", [0.1, 1e5])
def test_a_scenario_on_spot_takes_the_restarts_that_its_run_takes(rate: float) -> None:
    made = spot_economics(rate)
    run = spot_forecast(provider(), GPT, trials(GPT, TRAINED), made, DAY, work_s=GPT.checkpoint.every * 2.0)  # type: ignore[union-attr]
    calm, spot = (cost_forecast(provider(), GPT, trials(GPT, TRAINED), made, DAY, way) for way in ("on_demand", "spot"))  # type: ignore[arg-type]
    assert calm.model is not None
    if rate > 1:
        assert (
            spot.model is None
            and "practically never finishes" in str(reason_text(spot.reason))
            and "practically never finishes" in str(spot_reason(run))
        )
        return
    assert spot.model is not None and run.cost is not None and run.run is not None and run.run.every_s is not None
    quiet_s = run.run.every_s + run.run.checkpoint_s
    assert calm.model.rate.expected / spot.model.rate.expected == pytest.approx(run.cost.expected.held_s / quiet_s)
    assert "interruptions an hour" in rate_text(spot.rate) and "interruptions" not in rate_text(calm.rate)


def test_a_run_is_what_was_asked_else_declared_else_one_pass_over_the_data() -> None:
    numbers = trials(GPT, TRAINED)
    one_pass = spot_forecast(provider(), GPT, numbers, spot_economics(), DAY)
    assert one_pass.run is not None and one_pass.run.work_s == pytest.approx(GPT.data.tokens / 1000.0)  # type: ignore[union-attr]
    by_tokens = spot_forecast(provider(), GPT, numbers, spot_economics(run={"trained_tokens": 5_000_000}), DAY)
    assert by_tokens.run is not None and by_tokens.run.work_s == 5000.0
    asked = spot_forecast(provider(), GPT, numbers, spot_economics(run={"time": "100h"}), DAY, work_s=7200.0)
    assert asked.run is not None and asked.run.work_s == 7200.0


def test_a_penalty_that_cannot_be_taken_apart_is_taken_whole(golden: Golden) -> None:
    whole = {name: value for name, value in TRAINED.items() if not name.startswith("restart_recompute")}
    found = spot_forecast(provider(), GPT, trials(GPT, whole), spot_economics(), DAY)
    assert found.run is not None and (found.run.restart_s, found.run.every_s) == (90.0, None)
    apart = spot_forecast(provider(), GPT, trials(GPT, TRAINED), spot_economics(), DAY)
    golden("analysis.restart_basis", f"{found.restart_basis}\n{apart.restart_basis}")


def test_a_new_node_pulls_the_image_first() -> None:
    pulled = TRAINED | {"image_pull_time value cold_start": 40.0}
    found = spot_forecast(provider(), GPT, trials(GPT, pulled), spot_economics(), DAY)
    assert found.run is not None and found.run.restart_s == 100.0


@pytest.mark.parametrize(
    ("workload", "gone", "made", "said"),
    [
        (CHAT, "", spot_economics(), "is inference"),
        (GPT, "restart_penalty", spot_economics(), "a workload that declares a fault measures it"),
        (GPT, "tokens_per_second", spot_economics(), "no usable trial measured tokens_per_second"),
        (GPT, "", economics(), "declare it in economics.yaml, such as spot: [{provider: cluster-a, interruptions: 0.05/h"),
    ],
)
def test_what_spot_cannot_be_reckoned_without(workload: AnyWorkload, gone: str, made: Economics, said: str) -> None:
    numbers = {name: value for name, value in TRAINED.items() if not gone or not name.startswith(gone)}
    found = spot_forecast(provider(), workload, trials(workload, numbers), made, DAY)
    assert found.cost is None and said in str(found.reason)


def test_no_spot_price_is_no_spot() -> None:
    on_demand = {"purchase": "on_demand", "price": "36 USD/h", "since": "2026-01-01", **SOURCE}
    bare = provider(prices=[on_demand])
    found = spot_forecast(bare, GPT, trials(GPT, TRAINED), spot_economics(), DAY)
    assert found.cost is None and found.reason == quote(bare, DAY, "spot").reason is not None


# hosted

TOKENS = {
    "name": "by-tokens",
    "workloads": [CHAT.name],
    "input": "1 USD/1M tokens",
    "output": "10 USD/1M tokens",
    "since": "2026-11-01",
    **SOURCE,
}
REQUESTS = {"name": "by-requests", "workloads": [CHAT.name], "request": "0.50 USD/1k requests", "since": "2026-11-01", **SOURCE}


def test_hosted_by_hand() -> None:
    # The case of fifty million requests: 6,800 USD of instances at full use, 15,000 USD of people.
    place = provider(prices=[{"purchase": "on_demand", "price": "3.4 USD/h", "since": "2026-01-01", **SOURCE}])
    served = SERVED | {"goodput value steady": 25_000 / 3600, "request_throughput value steady": 25_000 / 3600}
    said = economics({"volume": {"requests": 50_000_000}, "engineering": "15000 USD/month"}, hosted=[REQUESTS])
    found = hosted_forecast(place, CHAT, trials(CHAT, served), said, DAY)
    (one,) = found.against
    assert one.hosted_monthly == pytest.approx(25_000.00) and one.own_monthly == pytest.approx(21_800.00)
    assert one.volume is not None and one.volume.value == pytest.approx(41_208_791.2, abs=0.1)
    assert one.utilisation is not None and one.utilisation.value == pytest.approx(0.68)
    assert {m.what for m in found.unknown} == {"utilisation", "failure_rate", "egress", "storage"}


def test_tokens_of_a_request() -> None:
    found = hosted_forecast(provider(), CHAT, trials(CHAT, SERVED), economics(hosted=[TOKENS]), DAY)
    (one,) = found.against
    # 16 tokens of output were measured for a request; of input, the declared mean.
    asked = CHAT.requests.input_tokens.normal.mean  # type: ignore[union-attr]
    assert one.per_request == pytest.approx((asked * 1 + 16 * 10) / 1e6)
    assert (one.utilisation, one.hosted_monthly) == (None, None)  # no volume is declared


@pytest.mark.parametrize(
    ("workload", "hosted", "said"),
    [
        (GPT, [REQUESTS], "is training"),
        (CHAT, [], "no hosted model is declared for chat-tiny-cpu; declare one in economics.yaml"),
    ],
)
def test_what_has_no_break_even(workload: AnyWorkload, hosted: list[Any], said: str) -> None:
    found = hosted_forecast(provider(), workload, trials(workload, SERVED), economics(hosted=hosted), DAY)
    assert found.own is None and said in str(found.reason)


def test_a_price_by_tokens_needs_measured_tokens() -> None:
    without = {name: value for name, value in SERVED.items() if not name.startswith("output_token")}
    (one,) = hosted_forecast(provider(), CHAT, trials(CHAT, without), economics(hosted=[TOKENS]), DAY).against
    assert one.volume is None and "bills by tokens" in str(one.reason)
