"""Precisions of one model side by side: cost by hand, quality as measured, "not measured" where it was not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.golden import Golden
from tests.unit.analysis.cost.test_forecast import CHAT, GPT, trials

from plumbline.analysis.cost.precision import Lever, family, precision_levers
from plumbline.declarations import AnyWorkload, load
from plumbline.presentation.charts.costs import precision_chart
from plumbline.words.precision import cost_text, no_cost_text, quality_text

AGREES = "output_agreement value cold_start"
COST, SUSTAINED_COST = "cost_per_good_request_at_offered_rate value steady", "cost_per_good_request value sweep"
HIGHEST = "highest_sustained_rate value sweep"
TOKENS, LOSS = "cost_per_1m_trained_tokens value steady", "final_loss value steady"


def changed(workload: AnyWorkload, name: str, **more: Any) -> AnyWorkload:
    data = json.loads(workload.model_dump_json()) | {"name": name, **more}
    return type(workload).model_validate_json(json.dumps(data))


INT8 = changed(
    CHAT,
    "chat-int8",
    model=json.loads(CHAT.model_dump_json())["model"] | {"precision": "int8"},
    quality={"reference": "fp32", "agreement": "90%"},
)
BF16 = changed(GPT, "gpt-bf16", precision="bf16")


def found(*several: tuple[AnyWorkload, list[dict[str, float]]]) -> tuple[Lever, ...]:
    numbers = [t for workload, each in several for t in trials(workload, *each)]
    return precision_levers(numbers, {workload.name: workload for workload, _ in several})


def test_inference_by_hand(golden: Golden) -> None:
    (lever,) = found((CHAT, [{COST: 2e-5}] * 3), (INT8, [{COST: 1.5e-5, AGREES: 0.96}] * 3))
    assert (lever.reference, lever.metric, lever.measure) == ("fp32", "cost_per_good_request_at_offered_rate", "output_agreement")
    reference, cheaper = lever.rows
    assert (reference.precision, reference.saving) == ("fp32", 0.0)
    assert (cheaper.precision, cheaper.saving, cheaper.quality) == ("int8", pytest.approx(0.25), 0.96)
    assert cheaper.cost is not None and cheaper.cost.value == pytest.approx(15.0) and cheaper.trials == ("t1", "t2", "t3")
    golden("analysis.precision_inference", "\n".join([lever.outcome, lever.load, *(quality_text(lever, row) for row in lever.rows)]))


def test_at_the_highest_rate_within_the_slo_where_it_was_searched() -> None:
    slow, fast = {COST: 2e-5, SUSTAINED_COST: 1e-5, HIGHEST: 16.0}, {COST: 2e-5, SUSTAINED_COST: 5e-6, HIGHEST: 32.0, AGREES: 0.96}
    (lever,) = found((CHAT, [slow]), (INT8, [fast]))
    assert [row.cost.value for row in lever.rows if row.cost is not None] == [pytest.approx(10.0), pytest.approx(5.0)]
    assert (lever.metric, lever.rows[1].saving) == ("cost_per_good_request", pytest.approx(0.5))


def test_one_that_was_searched_is_not_compared_at_its_limit_with_one_that_was_not() -> None:
    (lever,) = found((CHAT, [{COST: 2e-5}]), (INT8, [{COST: 2e-5, SUSTAINED_COST: 5e-6, HIGHEST: 32.0}]))
    assert [row.cost.value for row in lever.rows if row.cost is not None] == [pytest.approx(20.0), pytest.approx(20.0)]
    assert lever.metric == "cost_per_good_request_at_offered_rate"
    (other,) = found((CHAT, [{COST: 2e-5, SUSTAINED_COST: 1e-5, HIGHEST: 16.0}]), (INT8, [{COST: 2e-5}]))
    assert other.metric == "cost_per_good_request_at_offered_rate"


def test_training_by_hand(golden: Golden) -> None:
    (lever,) = found((GPT, [{TOKENS: 4.0, LOSS: 5.0}, {TOKENS: 4.0, LOSS: 5.02}]), (BF16, [{TOKENS: 3.0, LOSS: 5.11}]))
    first, second = lever.rows
    golden("analysis.precision_training", f"{quality_text(lever, first)}\n{quality_text(lever, second)}")
    assert (first.quality, second.quality) == (pytest.approx(5.01), pytest.approx(5.11))
    assert second.saving == pytest.approx(0.25)


def test_what_nobody_measured_is_not_equal() -> None:
    (served,) = found((CHAT, [{COST: 2e-5}]), (INT8, [{COST: 1e-5}]))
    assert (served.rows[1].quality, quality_text(served, served.rows[1])) == (None, "not measured")
    (trained,) = found((GPT, [{TOKENS: 4.0}]), (BF16, [{TOKENS: 3.0, LOSS: 5.0}]))
    assert [row.quality for row in trained.rows] == [None, 5.0] and "fp32" in quality_text(trained, trained.rows[1])


def test_without_a_cost_it_says_why() -> None:
    (lever,) = found((GPT, [{TOKENS: 4.0, LOSS: 5.0}]), (BF16, [{LOSS: 5.0}]))
    assert (lever.rows[1].cost, lever.rows[1].saving) == (None, None) and "has no value" in no_cost_text(lever, lever.rows[1])
    assert cost_text(lever, lever.rows[1]) == "–"


def test_what_differs_in_more_than_its_precision_is_no_lever() -> None:
    other = changed(BF16, "gpt-bf16-wide", batch={"micro": 16, "sequence": 64})
    assert family(GPT) == family(BF16) != family(other)
    assert found((GPT, [{TOKENS: 4.0}]), (other, [{TOKENS: 3.0}])) == ()
    assert found((GPT, [{TOKENS: 4.0}])) == ()


def test_providers_are_told_apart() -> None:
    elsewhere = [*trials(GPT, {TOKENS: 4.0}), *trials(BF16, {TOKENS: 3.0}, place="cluster-b")]
    assert precision_levers(elsewhere, {GPT.name: GPT, BF16.name: BF16}) == ()


def test_the_chart_names_precision_and_quality() -> None:
    (lever,) = found((CHAT, [{COST: 2e-5}]), (INT8, [{COST: 1.5e-5, AGREES: 0.96}]))
    chart = precision_chart(lever)
    assert chart is not None
    (bars,) = chart.data
    reference, cheaper = lever.rows
    (first, *more), base = (label.split("<br>") for label in bars["y"])
    assert first.startswith("int8") and "25 %" in first and " ".join(more) == quality_text(lever, cheaper)
    assert base == ["fp32", quality_text(lever, reference)]
    assert bars["x"] == [pytest.approx(15.0), pytest.approx(20.0)]
    (bare,) = found((GPT, [{LOSS: 5.0}]), (BF16, [{LOSS: 5.0}]))
    assert precision_chart(bare) is None


@pytest.mark.parametrize(
    ("reference", "cheaper"),
    [("chat-limits-cpu", "chat-limits-int8-cpu"), ("pretrain-1b-gpu", "pretrain-1b-gpu-fp8")],
)
def test_the_shipped_pairs_differ_in_their_precision_alone(reference: str, cheaper: str) -> None:
    workloads = load().workloads
    assert family(workloads[reference]) == family(workloads[cheaper])


OWN = {"source": "folder", "path": "/models/own", "precision": "bf16"}
BY_CHECKPOINT = changed(CHAT, "own-bf16", model=OWN, server=CHAT.server.model_dump(mode="json") | {"backend": "vllm"})


def quantised(reference: Any) -> AnyWorkload:
    files = {"source": "folder", "path": "/models/own-int8", "precision": "int8"}
    return changed(BY_CHECKPOINT, "own-int8", model=files, quality={"reference": reference, "agreement": "90%"})


def test_a_quantised_checkpoint_belongs_to_its_reference(golden: Golden) -> None:
    reference, cheaper = {COST: 2e-5, "answer_accuracy value cold_start": 0.98}, {COST: 1e-5, AGREES: 0.97}
    (lever,) = found((BY_CHECKPOINT, [reference]), (quantised(OWN), [cheaper | {"answer_accuracy value cold_start": 0.965}]))
    assert (lever.reference, [row.precision for row in lever.rows]) == ("bf16", ["bf16", "int8"])
    golden("analysis.precision_checkpoint", "\n".join(quality_text(lever, row) for row in lever.rows))


def test_a_quantised_checkpoint_of_another_reference_is_no_lever() -> None:
    other = {"source": "folder", "path": "/models/other", "precision": "bf16"}
    assert found((BY_CHECKPOINT, [{COST: 2e-5}]), (quantised(other), [{COST: 1e-5, AGREES: 0.97}])) == ()
