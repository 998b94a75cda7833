"""Shares of published figures and of physical limits, against figures that were computed by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.scorecards.made import launched, number
from tests.unit.scorecards.places import H100, local, place

from plumbline.analysis.scorecards.references import ReferenceShare, reference_shares
from plumbline.analysis.scorecards.scorecard import scorecard
from plumbline.declarations import TrainingWorkload, load
from plumbline.declarations.installation import REPOSITORY
from plumbline.declarations.workloads.inference import InferenceWorkload

DECLARED = load(REPOSITORY / "include" / "config")
BOOK = DECLARED.references
LLAMA = DECLARED.workloads["reference-llama31-8b"]


def of(metrics: dict[str, list[float]], workload: Any = LLAMA, **accelerator: Any) -> tuple[ReferenceShare, ...]:
    """The shares of a card whose trial i measured each metric's i-th value."""
    trials = [
        launched(i, kind=workload.kind, metrics=tuple(number(name, values[i]) for name, values in metrics.items()))
        for i in range(len(next(iter(metrics.values()))))
    ]
    return reference_shares(scorecard(trials), BOOK, place(accelerator={**H100, **accelerator}), workload)


def test_the_share_of_what_is_published_for_the_same_shape() -> None:
    (found,) = of({"tokens_per_second_per_device": [7000.0, 7157.0, 7200.0]})
    # 7,157 of NVIDIA's 10,682 tokens/s a GPU: 67.0 %.
    assert found.share == pytest.approx(0.670006, abs=1e-6)
    assert (found.low, found.high) == (pytest.approx(7000 / 10682), pytest.approx(7200 / 10682))
    assert (found.by, found.published, found.kind, found.what, found.differs) == ("NVIDIA", 10682.0, "published", "Llama 3.1 8B", ())
    assert (found.n, len(found.trials), found.on is not None and found.on.year) == (3, 3, 2025)
    assert found.source == "DGX Cloud recipes"


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"precision": "fp32"}, ("bf16, here fp32",)),
        ({"batch": {"micro": 1, "accumulation": 16, "sequence": 4096, "total": 128}}, ("sequences of 8192 tokens, here 4096",)),
        ({"batch": {"micro": 1, "accumulation": 8, "sequence": 8192, "total": 64}}, ("128 sequences a step, here 64",)),
    ],
)
def test_a_near_match_gets_no_share_and_says_in_what_it_differs(changed: dict[str, Any], differs: tuple[str, ...]) -> None:
    workload = TrainingWorkload.model_validate({**LLAMA.model_dump(exclude={"primary"}, mode="json"), **changed}, strict=False)
    found = [s for s in of({"tokens_per_second_per_device": [7157.0]}, workload) if s.by == "NVIDIA" and s.source == "DGX Cloud recipes"]
    assert [(s.share, s.low, s.differs) for s in found] == [(None, None, differs)]


def test_what_is_far_away_is_not_named() -> None:
    assert of({"tokens_per_second_per_device": [54_000.0]}, DECLARED.workloads["pretrain-1b-gpu"]) == (), "a model of another size"
    assert of({"tokens_per_second_per_device": [7157.0]}, product="NVIDIA L4") == (), "nobody publishes this shape for it"
    assert of({"tokens_per_second_per_device": [7157.0]}, product="Frobnicator 9") == (), "not in the book"
    assert of({"step_time": [1.0]}) == (), "the metric that is published was not measured"
    here = local()
    assert reference_shares(scorecard([launched(1, metrics=(number("matmul_tflops", 6e10, "environment"),))]), BOOK, here, LLAMA) == ()


def test_mlperfs_load_is_another_one() -> None:
    chat = DECLARED.workloads["chat-8b"]
    found = of({"output_token_throughput": [2000.0]}, chat, count=1)
    assert {s.by for s in found} == {"Red Hat"}
    loads = [entry.shape.load for entry in BOOK.published if entry.by == "Red Hat" and entry.shape is not None]
    for share in found:
        assert share.share is None
        assert share.differs[0] == "fp8, here bf16"
        assert share.differs[-1].partition(", here ")[0] in loads
    assert isinstance(chat, InferenceWorkload)


def test_the_physical_limits_are_the_machines_own_and_the_data_sheets() -> None:
    # 8 devices: 3.05 PFLOP/s at 48 % of their own best matmul, 38.5 % of 8 × 989.4 TFLOP/s; 2.9 of 3.35 TB/s.
    found = {(s.what, s.by): s for s in of({"model_flops": [3.05e15], "model_flops_utilization": [0.482], "memory_bandwidth": [2.9e12]})}
    own, sheet = found["arithmetic of the model", "this machine"], found["arithmetic of the model", "NVIDIA"]
    assert (own.share, own.published, own.measured, own.on) == (pytest.approx(0.482), pytest.approx(6.32780e15, rel=1e-5), 3.05e15, None)
    assert (sheet.share, sheet.published) == (pytest.approx(0.385335, abs=1e-6), pytest.approx(7.9152e15))
    assert found["copying in memory", "NVIDIA"].share == pytest.approx(0.865672, abs=1e-6)
    assert {s.kind for s in found.values()} == {"physical"}


def test_matrix_products_stand_beside_the_sheet_and_the_best_that_anybody_published() -> None:
    found = of({"matmul_tflops": [715e12]})
    assert [(s.by, s.kind, s.share) for s in found] == [
        ("Stas Bekman", "published", pytest.approx(715 / 794.5)),
        ("NVIDIA", "physical", pytest.approx(715 / 989.4)),
    ]
    both = of({"matmul_tflops": [715e12], "matmul_tflops_bf16": [715e12], "matmul_tflops_fp8": [1.3e15]})
    assert [s.metric for s in both if s.kind == "physical"] == ["matmul_tflops_bf16", "matmul_tflops_fp8"], "one is the other"


def test_the_whole_nodes_collective_counts_for_the_whole_node() -> None:
    (found,) = of({"all_reduce_bus_bandwidth": [450e9]}, product="NVIDIA H200")
    assert found.share == pytest.approx(450 / 482)
    one = DECLARED.workloads["pretrain-1b-gpu"]
    assert of({"all_reduce_bus_bandwidth": [450e9]}, one, product="NVIDIA H200") == ()


def test_less_is_better_for_a_latency() -> None:
    faster = BOOK.published[0].model_copy(update={"metric": "step_time", "value": "12.27s"})
    book = BOOK.model_copy(update={"published": (faster,)})
    card = scorecard([launched(i, metrics=(number("step_time", s),)) for i, s in enumerate((10.0, 16.36, 20.0))])
    (found,) = reference_shares(card, book, place(), LLAMA)
    assert (found.share, found.low, found.high) == (pytest.approx(0.75), pytest.approx(0.6135), pytest.approx(1.227))


def test_simulated_shares_say_so() -> None:
    from dataclasses import replace

    from tests.unit.scorecards.made import CONDITIONS

    trial = launched(1, conditions=replace(CONDITIONS, source="simulated"), metrics=(number("tokens_per_second_per_device", 7157.0),))
    (found,) = reference_shares(scorecard([trial]), BOOK, place(), LLAMA)
    assert found.simulated


def test_a_published_mfu_is_compared_in_its_publishers_convention() -> None:
    causal, full = "model_flops_utilization_of_published_peak", "model_flops_utilization_of_published_peak_full_attention"
    (found,) = [s for s in of({causal: [0.40], full: [0.50]}) if s.metric == full]
    assert (found.by, found.published, found.share) == ("NVIDIA", 0.625, pytest.approx(0.8))
    assert not [s for s in of({causal: [0.40]}) if s.metric in (causal, full)], "counted otherwise, so nothing to compare"
