"""What interruptions on spot add to the cost of an outcome, by hand."""

from __future__ import annotations

import json
import math
from datetime import date

import pytest
from tests.data.result_documents import inference_workload, provider, training_workload

from plumbline.analysis.cost.interruptions import LossRate, loss_rate
from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.trial_sample import MetricValue, TrialSample
from plumbline.declarations.economics import Economics
from plumbline.declarations.teams import Preference

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


def stretch(gone: str = "", rate: float = 0.1) -> tuple[float, str]:
    return LossRate(rate, "dispatch log", GPT).stretch(lambda *key: None if key[0] == gone else MEASURED.get(key))


def test_an_interruption_costs_a_restart_and_half_a_checkpoint_interval() -> None:
    factor, words = stretch()
    assert factor == pytest.approx(FACTOR) == pytest.approx(1.016861, abs=1e-6)
    assert factor == pytest.approx(1 + (300 + 603 / 2) / 36_000, rel=3e-4), "to the first order"
    assert all(part in words for part in ("0.1 interruptions an hour (dispatch log)", "300 s of restart", "half of 603 s"))


def test_what_was_not_measured_is_not_added_and_a_run_that_never_ends_has_no_cost() -> None:
    factor, words = stretch("restart_penalty")
    assert factor == 1.0 and words.startswith("without") and "restart_penalty was not measured" in words
    assert stretch("restart_recompute_time")[0] == pytest.approx(math.exp(0.1 * 330 / 3600)), "the whole penalty, repeated work included"
    with pytest.raises(ValueError, match="practically never finishes"):
        stretch(rate=1e6)


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
    numbers = tuple(MetricValue(phase, metric, of, value, "", "", 90) for (metric, of, phase), value in MEASURED.items())
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
    (told,) = [each.text for each in decision.comparison.limitations if each.code == "expected_restarts"]
    assert "spotty" in told and "dispatch log" in told and "calm" not in told
