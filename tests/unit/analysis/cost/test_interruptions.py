"""What interruptions on spot add to the cost of an outcome, by hand."""

from __future__ import annotations

import json
import math
from datetime import date

import pytest
from tests.data.plain_rows import plain_row
from tests.data.result_documents import inference_workload, provider, training_workload

from plumbline.analysis.cost.interruptions import EndlessRun, LossRate, Restarts, loss_rate, unknown_loss
from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations.economics import Economics
from plumbline.declarations.teams import Preference
from plumbline.words.comparisons import limitation_text
from plumbline.words.costs import reason_text, restarts_text

DAY = date(2026, 11, 2)
SOURCE = {"since": "2026-01-01", "source": "dispatch log"}
GPT = training_workload(
    steps={"discard": 2, "measure": 700},
    checkpoint={"every": 300, "keep": 1, "mode": "sync"},
    loss={"low": 0.0, "high": 99.0, "at_step": 600},
)
# A step of 2 s, so 600 s between checkpoints, of 3 s; 330 s of restart, of which 30 s did work again.
MEASURED = {
    ("restart_penalty", "value", "recovery"): 330.0,
    ("restart_recompute_time", "value", "recovery"): 30.0,
    ("step_time", "mean", "steady"): 2.0,
    ("checkpoint_blocking_time", "median", "steady"): 3.0,
    ("effective_tokens_per_second", "mean", "steady"): 3000.0,
}
# λ = 0.1/h: e^(λ·300 s) · (e^(λ·603 s) − 1) / λ ÷ 603 s
FACTOR = math.exp(0.1 / 12) * (math.exp(0.1 * 603 / 3600) - 1) * 36_000 / 603


def economics(rate: str = "0.1/h") -> Economics:
    return Economics.model_validate_json(json.dumps({"spot": [{"provider": "spotty", "interruptions": rate, **SOURCE}]}))


def stretch(gone: str = "", rate: float = 0.1) -> Restarts | EndlessRun:
    return LossRate(rate, "dispatch log", GPT).stretch(lambda *key: None if key[0] == gone else MEASURED.get(key))


def test_an_interruption_costs_a_restart_and_half_a_checkpoint_interval() -> None:
    restarts = stretch()
    assert isinstance(restarts, Restarts)
    factor, words = restarts.factor, restarts_text(restarts)
    assert factor == pytest.approx(FACTOR) == pytest.approx(1.016861, abs=1e-6)
    assert factor == pytest.approx(1 + (300 + 603 / 2) / 36_000, rel=3e-4), "to the first order"
    assert all(part in words for part in ("0.1 interruptions an hour (dispatch log)", "300 s of restart", "half of 603 s"))


def test_a_gang_on_demand_is_interrupted_by_the_failures_of_its_nodes() -> None:
    """Eight nodes that fail 0.0125 times an hour each: 0.1/h of the gang, as on spot at that rate; on spot both rates add up. Undeclared
    failures are named for a gang, and a penalty that was not measured."""
    gang = GPT.model_copy(update={"parallelism": GPT.parallelism.model_copy(update={"nodes": 8})})
    failing = {"node_failures": [{"provider": "spotty", "failures": "0.0125/h", **SOURCE}]}
    said = Economics.model_validate_json(json.dumps(failing | {"spot": [{"provider": "spotty", "interruptions": "0.0125/h", **SOURCE}]}))
    for purchase, rate in (("on_demand", 0.1), ("owned", 0.1), ("spot", 0.2)):
        loss = loss_rate(said, "spotty", gang, purchase)  # type: ignore[arg-type]
        assert loss is not None and loss.per_hour == pytest.approx(rate)
    loss = loss_rate(said, "spotty", gang, "on_demand")
    restarts = loss.stretch(lambda *key: MEASURED.get(key)) if loss is not None else None
    assert isinstance(restarts, Restarts) and restarts.factor == pytest.approx(FACTOR)
    assert loss_rate(Economics(), "spotty", gang, "on_demand") is None
    assert "not declared" in unknown_loss(Economics(), "spotty", gang, lambda *key: MEASURED.get(key))
    assert "restart_penalty" in unknown_loss(said, "spotty", gang, lambda *_: None)
    assert (
        unknown_loss(said, "spotty", gang, lambda *key: MEASURED.get(key))
        == unknown_loss(Economics(), "spotty", GPT, lambda *_: None)
        == ""
    )


def test_failures_of_nodes_decide() -> None:
    """Two gangs on demand at one speed; the hour of `spotty` is 1 % cheaper, and its nodes fail."""
    gang = GPT.model_copy(update={"parallelism": GPT.parallelism.model_copy(update={"nodes": 8})})
    values = tuple(plain_row(phase, metric, statistic, value, "", "", 1) for (metric, statistic, phase), value in MEASURED.items())
    usd = {"spotty": 9.9, "steady": 10.0}
    places = {
        name: provider(name=name, prices=[{"purchase": "on_demand", "price": f"{price} USD/h", **SOURCE}]) for name, price in usd.items()
    }
    trials = [
        TrialSample(f"{name}-{i}", name, "training", gang.name, gang.version, "valid", f"0{i}:00", i, DAY, values, nodes=8)
        for name in usd
        for i in (1, 2)
    ]
    wanted = Preference.model_validate({"workloads": (gang.name,), "weights": {"cost_per_1m_trained_tokens": 1.0}})
    rates = [{"provider": name, "failures": each, **SOURCE} for name, each in (("spotty", "0.0125/h"), ("steady", "0.00001/h"))]
    for declared, first in (({}, "spotty"), ({"node_failures": rates}, "steady")):
        said = Economics.model_validate_json(json.dumps(declared))
        decision = decide("t", "training", wanted, with_costs(trials, places, DAY, workloads={gang.name: gang}, economics=said))
        assert decision.first_name == first
        (text,) = [limitation_text(each) for each in decision.comparison.limitations if each.code == "cost_without"]
        assert ("failures of nodes are not declared" in text) == (not declared)


def test_what_was_not_measured_is_not_added_and_a_run_that_never_ends_has_no_cost() -> None:
    silent, whole, endless = stretch("restart_penalty"), stretch("restart_recompute_time"), stretch(rate=1e6)
    assert isinstance(silent, Restarts) and isinstance(whole, Restarts) and isinstance(endless, EndlessRun)
    words = restarts_text(silent)
    assert silent.factor == 1.0 and words.startswith("without") and "restart_penalty was not measured" in words
    assert whole.factor == pytest.approx(math.exp(0.1 * 330 / 3600)), "the whole penalty, repeated work included"
    assert reason_text(endless) == "at 1,000,000 interruptions an hour (dispatch log) a run practically never finishes"


def test_only_training_on_spot_is_interrupted_and_each_node_of_it_can_be() -> None:
    loss = loss_rate(economics(), "spotty", GPT, "spot")
    assert loss is not None and loss.per_hour == pytest.approx(0.1 * GPT.nodes)
    others = (("spotty", GPT, "on_demand"), ("calm", GPT, "spot"), ("spotty", inference_workload(), "spot"), ("spotty", None, "spot"))
    assert [loss_rate(economics(), *other) for other in others] == [None] * 4  # type: ignore[arg-type]


@pytest.mark.parametrize(("rate", "first"), [("0.1/h", "calm"), ("0.01/h", "spotty")])
def test_a_decision_on_spot_ranks_by_the_time_that_is_paid_and_says_what_it_assumes(rate: str, first: str) -> None:
    """calm costs 1 % more an hour and is never taken away."""
    places = {
        name: provider(name, prices=[{"purchase": "spot", "price": f"{usd} USD/h", **SOURCE}])
        for name, usd in (("spotty", 3.5), ("calm", 3.535))
    }
    numbers = tuple(plain_row(phase, metric, of, value, "", "", 90) for (metric, of, phase), value in MEASURED.items())
    trials = [
        TrialSample(f"{name}.{i}", name, "training", GPT.name, 1, "valid", "02:00", i, DAY, numbers) for name in places for i in (1, 2, 3)
    ]
    priced = with_costs(trials, places, DAY, workloads={GPT.name: GPT}, purchase="spot", economics=economics(rate))
    wanted = Preference.model_validate({"workloads": (GPT.name,), "weights": {"cost_per_1m_trained_tokens": 1.0}})
    decision = decide("finance", "training", wanted, priced)
    assert decision.ranking[0].provider == first
    values = {r.provider: r.values[0] for r in decision.ranking}
    assert values["calm"] == pytest.approx(3.535 / 3600 / 3000 * 1e6)
    if rate == "0.1/h":
        assert values["spotty"] == pytest.approx(3.5 / 3600 / 3000 * 1e6 * FACTOR)
    (line,) = [limitation_text(each) for each in decision.comparison.limitations if each.code == "expected_restarts"]
    assert "spotty" in line and "dispatch log" in line and "calm" not in line
