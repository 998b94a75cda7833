"""Costs against figures that were computed by hand."""

from __future__ import annotations

from datetime import date

import pytest
from tests.golden import Golden

from plumbline.analysis.cost.unit_costs import AT_OFFERED_RATE, COSTS, Cost, cost_per_finished_run, cost_per_run, costs_of, sustained
from plumbline.analysis.prices.book import Basis, Quote
from plumbline.words.costs import formula_text, reason_text


def at(usd_per_hour: float) -> Quote:
    return Quote(Basis("on_demand", usd_per_hour, date(2025, 1, 1), "list price"), None)


def costs(kind: str, quote: Quote, numbers: dict[str, float], held_s: float | None = None, epoch: int | None = None) -> dict[str, Cost]:
    found = costs_of(
        kind,
        quote,
        lambda metric, _, phase: numbers.get(metric if phase == "steady" else f"{metric} in {phase}"),
        held_s=held_s,
        epoch_size=epoch,
    )
    return {cost.metric: cost for cost in found}


def test_500_hours_of_eight_h100() -> None:
    run = cost_per_run(at(98.32), 500 * 3600)
    assert run.value == pytest.approx(49_160.00, abs=0.005)


def test_training_by_hand() -> None:
    # 55.04 USD/h, 85,456 tokens/s: 1e6 tokens take 11.70193 s = 0.178910 USD; 15e9 tokens take 48.7581 h = 2,683.64 USD.
    found = costs("training", at(55.04), {"tokens_per_second": 85_456}, held_s=1800, epoch=15_000_000_000)
    assert found["cost_per_run"].value == pytest.approx(27.52, abs=0.005)
    assert found["cost_per_1m_trained_tokens"].value == pytest.approx(0.17891, abs=0.000005)
    assert found["cost_per_epoch"].value == pytest.approx(2683.64, abs=0.005)
    assert set(found) == {"cost_per_run", "cost_per_1m_trained_tokens", "cost_per_epoch"}


def test_training_is_priced_over_the_whole_time_with_its_checkpoints() -> None:
    """An H200 of 3.50 USD/h: 29.1 s of steps at 3,000 tokens/s, then 17.1 s of synchronous checkpoint: 87,300 tokens in 46.2 s, +58.8 %."""
    speed = {"tokens_per_second": 3000.0}
    old, paid = (costs("training", at(3.50), speed | more) for more in ({}, {"effective_tokens_per_second": 87_300 / 46.2}))
    assert old["cost_per_1m_trained_tokens"].value == pytest.approx(0.324074, abs=0.000001)
    assert paid["cost_per_1m_trained_tokens"].value == pytest.approx(0.514510, abs=0.000001)
    assert paid["cost_per_1m_trained_tokens"].value == pytest.approx(3.50 / 3600 * 46.2 / 87_300 * 1e6)
    assert "without" not in formula_text(paid["cost_per_1m_trained_tokens"])


@pytest.mark.parametrize(("known", "left_out"), [({"median", "mean"}, "checkpoints,"), ({"median"}, "checkpoints and slow steps,")])
def test_results_from_before_are_priced_by_what_they_measured_and_say_what_is_left_out(known: set[str], left_out: str) -> None:
    """Of 100 steps 40 took 1.6 times as long: paid 24 % more than the median says."""
    rates = {"median": 1000.0, "mean": 1000 / 1.24}

    def measured(metric: str, statistic: str, phase: str) -> float | None:
        return rates[statistic] if metric == "tokens_per_second" and statistic in known else None

    cost = next(c for c in costs_of("training", at(3.6), measured) if c.metric == "cost_per_1m_trained_tokens")
    assert cost.value == pytest.approx(1.24 if "mean" in known else 1.0)
    assert formula_text(cost).endswith(f"without {left_out} which were not measured")


def test_an_epoch_of_samples_has_a_cost_too() -> None:
    # 3.60 USD/h = 0.001 USD/s; 50,000 images at 500/s take 100 s.
    found = costs("training", at(3.60), {"effective_samples_per_second": 500.0, "samples_per_second": 600.0}, epoch=50_000)
    assert found["cost_per_epoch"].value == pytest.approx(0.10)
    assert "trained samples" in formula_text(found["cost_per_epoch"])
    tokens = costs(
        "training", at(3.60), {"effective_tokens_per_second": 500.0, "tokens_per_second": 600.0, "samples_per_second": 6.0}, epoch=50_000
    )
    assert "trained tokens" in formula_text(tokens["cost_per_epoch"])


def test_inference_by_hand() -> None:
    # 98.32 USD/h = 0.0273111 USD/s. 20 requests/s: 1,000 take 50 s = 1.37 USD. 5,000 tokens/s: 1e6 take 200 s = 5.46 USD.
    rates = {"request_throughput": 20, "output_token_throughput": 5000, "input_token_throughput": 20_000, "goodput": 16}
    found = costs("inference", at(98.32), rates)
    assert found["cost_per_1m_input_tokens_at_offered_rate"].value == pytest.approx(1.3656, abs=0.00005)
    assert found["cost_per_1k_requests_at_offered_rate"].value == pytest.approx(1.3656, abs=0.00005)
    assert found["cost_per_1m_output_tokens_at_offered_rate"].value == pytest.approx(5.4622, abs=0.00005)
    assert found["cost_per_good_request_at_offered_rate"].value == pytest.approx(0.00170694, abs=0.00000001)
    assert "cost_per_epoch" not in found
    assert {c.value for c in found.values() if sustained(c.metric)} == {None}


def swept(highest: float | None, elapsed_s: float, requests: int, lost: int, good: int, tokens: int) -> dict[str, float]:
    """What a sweep's last probe that held reports, and the rate that the search found."""
    finished = requests - lost
    counts = {"request_throughput": finished, "output_token_throughput": tokens, "input_token_throughput": 4 * tokens, "goodput": good}
    found = {f"{metric} in sweep": count / elapsed_s for metric, count in counts.items()} | {"error_rate in sweep": lost / requests}
    return found if highest is None else found | {"highest_sustained_rate in sweep": highest}


def test_inference_costs_at_the_highest_rate_that_keeps_the_slo() -> None:
    # 36 USD/h = 0.01 USD/s. 50 requests/s, of which 98 % finish with 250 tokens each: 12,250 tokens/s, 1e6 take 81.6327 s = 0.816327 USD.
    # Of the requests 95 % are good: 47.5/s.
    for elapsed_s in (60.0, 66.0):  # how long the last answers took changes nothing
        found = costs("inference", at(36.0), swept(50.0, elapsed_s, requests=3000, lost=60, good=2850, tokens=735_000))
        assert found["cost_per_1m_output_tokens"].value == pytest.approx(0.816327, abs=5e-7)
        assert found["cost_per_1m_input_tokens"].value == pytest.approx(0.816327 / 4, abs=5e-7)
        assert found["cost_per_1k_requests"].value == pytest.approx(10 / 49)
        assert found["cost_per_good_request"].value == pytest.approx(0.01 / 47.5)
        assert {found[name].phase for name in found if sustained(name)} == {"sweep"}


def test_an_offered_rate_costs_the_same_on_a_provider_twice_as_fast_and_the_sustained_rate_half() -> None:
    steady = {"request_throughput": 8.0, "output_token_throughput": 2048.0, "goodput": 8.0}
    slow, fast = (costs("inference", at(36.0), steady | swept(rate, 60.0, 600, 0, 600, 153_600)) for rate in (10.0, 20.0))
    for outcome in (o for o in COSTS if o.sustained and o.metric != "cost_per_1m_input_tokens"):
        dear, cheap = slow[outcome.metric].value, fast[outcome.metric].value
        assert dear is not None and cheap == pytest.approx(dear / 2)
        assert slow[outcome.metric + AT_OFFERED_RATE].value == fast[outcome.metric + AT_OFFERED_RATE].value is not None


def test_a_search_that_found_no_highest_rate_is_no_cost() -> None:
    found = costs("inference", at(36.0), swept(None, 60.0, 600, 0, 600, 153_600))
    assert found["cost_per_1m_output_tokens"].value is None
    assert found["cost_per_1m_output_tokens"].reason is not None


NO_PRICE = Quote(None, "no price is declared for x")


def test_no_price_is_no_cost_and_says_why() -> None:
    found = costs("inference", NO_PRICE, {"request_throughput": 20}, held_s=60)
    assert {(c.value, c.reason) for c in found.values()} == {(None, NO_PRICE.reason)}


def test_a_price_of_zero_is_a_price() -> None:
    assert costs("inference", at(0.0), {"request_throughput": 20})["cost_per_1k_requests_at_offered_rate"].value == 0.0


def test_nothing_delivered_is_not_free() -> None:
    found = costs("inference", at(98.32), {"request_throughput": 0.0, "goodput": 0.0})
    assert all((c.value is None) == (c.reason is not None) for c in found.values())
    assert found["cost_per_1k_requests_at_offered_rate"].value is None


def test_an_unknown_epoch_has_no_cost() -> None:
    assert costs("training", at(1.0), {"tokens_per_second": 10.0})["cost_per_epoch"].value is None


def test_every_node_of_a_gang_is_paid_for() -> None:
    rate = {"tokens_per_second": 1000.0}
    one, four = ({c.metric: c for c in costs_of("training", at(3.6), lambda metric, *_: rate.get(metric), nodes=nodes)} for nodes in (1, 4))
    assert one["cost_per_1m_trained_tokens"].value == pytest.approx(1.0)
    assert four["cost_per_1m_trained_tokens"].value == pytest.approx(4.0)


def test_what_has_no_tokens_costs_by_its_samples() -> None:
    images = costs("training", at(3.6), {"samples_per_second": 1000.0})
    assert images["cost_per_1m_trained_samples"].value == pytest.approx(1.0)
    assert images["cost_per_1m_trained_tokens"].value is None
    text = costs("training", at(3.6), {"samples_per_second": 10.0, "tokens_per_second": 1000.0})
    assert "cost_per_1m_trained_samples" not in text and text["cost_per_1m_trained_tokens"].value == pytest.approx(1.0)
    assert "cost_per_1m_trained_samples" not in costs("training", at(3.6), {})


def test_a_finished_run_carries_its_share_of_what_came_to_nothing() -> None:
    # 3.60 USD/h: 200 s of its own and 50 s of others are 0.25 USD.
    assert cost_per_finished_run(at(3.6), 200.0, 50.0).value == pytest.approx(0.25)
    assert cost_per_finished_run(at(3.6), 200.0, 0.0).value == pytest.approx(0.2)


def test_a_finished_run_has_no_cost_where_a_time_is_unknown() -> None:
    unknown = [cost_per_finished_run(at(3.6), 200.0, None), cost_per_finished_run(at(3.6), None, 0.0)]
    unknown.append(cost_per_finished_run(NO_PRICE, 200.0, 0.0))
    assert {(c.metric, c.value) for c in unknown} == {("cost_per_finished_run", None)}
    assert unknown[-1].reason == NO_PRICE.reason and len({c.reason for c in unknown}) == 3


def test_each_cost_shows_its_arithmetic_or_the_reason(golden: Golden) -> None:
    idle = costs("inference", at(98.32), {"request_throughput": 20, "goodput": 0.0})
    gang = {c.metric: c for c in costs_of("training", at(3.6), lambda metric, *_: {"tokens_per_second": 1e3}.get(metric), nodes=4)}
    shown = [
        cost_per_run(at(98.32), 500 * 3600),
        cost_per_finished_run(at(3.6), 200.0, 50.0),
        cost_per_finished_run(at(3.6), 200.0, None),
        gang["cost_per_1m_trained_tokens"],
        gang["cost_per_epoch"],
        idle["cost_per_run"],
        idle["cost_per_1k_requests_at_offered_rate"],
        idle["cost_per_good_request_at_offered_rate"],
        idle["cost_per_1m_output_tokens_at_offered_rate"],
        idle["cost_per_1m_output_tokens"],
    ]
    golden("analysis.costs", "\n".join(f"{c.metric}: {formula_text(c) or reason_text(c.reason)}" for c in shown))


def test_idle_replicas_cost_their_time_to_the_cent() -> None:
    """Three more replicas for 30 s and one for 20 s after the load fell, 110 replica-seconds, at 7.20 USD an hour."""
    found = costs("inference", at(7.20), {"idle_replica_time in scale_out": 110.0})["idle_replica_cost"]
    assert (found.value, found.phase) == (pytest.approx(0.22), "scale_out")
    assert costs("inference", at(7.20), {"idle_replica_time in scale_out": 0.0})["idle_replica_cost"].value == 0
    assert "idle_replica_cost" not in costs("inference", at(7.20), {})
