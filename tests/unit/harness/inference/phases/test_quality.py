from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tests.fakes.trials import CONFIG

from plumbline.declarations import InferenceWorkload, load
from plumbline.declarations.workloads.evaluation import Quality
from plumbline.harness.inference.phases import quality
from plumbline.harness.inference.server import backends


def test_the_prompts_are_fixed_and_fit() -> None:
    one, two = quality.quality_prompts(2048, 128, 16), quality.quality_prompts(2048, 128, 16)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert [len(ids) for ids in one][::15] == [16, 64]
    assert max(ids.max() for ids in one) < 2048
    for context in (8, 9, 5000):
        assert (
            1
            <= min(map(len, quality.quality_prompts(64, context, 4)))
            <= max(map(len, quality.quality_prompts(64, context, 4)))
            <= min(context // 2, 512)
        )


def test_each_token_is_asked_for_after_the_references_own() -> None:
    prompts, reference = (
        [np.array([1, 2], np.int32), np.array([3], np.int32)],
        [np.array([7, 8, 9], np.int32), np.array([5, 6, 4], np.int32)],
    )
    asked = [ids.tolist() for ids in quality.teacher_forced(prompts, reference)]
    assert asked == [[1, 2], [1, 2, 7], [1, 2, 7, 8], [3], [3, 5], [3, 5, 6]]


def test_the_worst_vector_counts() -> None:
    exact = np.eye(3)
    turned = exact.copy()
    turned[1] = [0.6, 0.8, 0.0]
    assert quality.least_cosine(exact, 5 * exact) == 1
    assert quality.least_cosine(exact, turned) == pytest.approx(0.8)
    assert math.isnan(quality.least_cosine(exact, 0 * exact))


def test_scores_are_compared_together() -> None:
    scores = np.array([0.1, 0.4, 0.2])
    assert quality.correlation(scores, 2 * scores + 1) == pytest.approx(1)
    assert quality.correlation(scores, -scores) == pytest.approx(-1)
    assert math.isnan(quality.correlation(scores, np.ones(3)))


@pytest.mark.parametrize("agreement", [0.98, 1.0])
def test_enough_agreement_is_no_judgement(agreement: float) -> None:
    assert quality.judge_agreement(agreement, Quality.model_validate({"agreement": "98%"}), "bf16", 128) is None


@pytest.mark.parametrize("agreement", [0.9799, float("nan")])
def test_less_agreement_makes_the_trial_invalid(agreement: float) -> None:
    found = quality.judge_agreement(agreement, Quality.model_validate({"agreement": "98%"}), "int8", 128)
    assert found is not None and found.level == "invalid" and found.reason.code == "quality_lost"
    assert "int8" in found.reason.detail and "98.0%" in found.reason.detail


def test_an_engine_with_weights_of_its_own_cannot_be_checked(tmp_path: Path) -> None:
    """No server is asked: what it would answer has nothing to be held against."""
    data = json.loads(load(CONFIG).workloads["chat-8b"].model_dump_json())
    data["model"]["precision"], data["quality"] = "fp8", {"reference": "bf16", "agreement": "90%"}
    made = InferenceWorkload.model_validate_json(json.dumps(data))
    checked = quality.check(made, backends.write(made, tmp_path, threads=1), "127.0.0.1:1")
    (judgement,) = checked.judgements
    assert (checked.rows, checked.asked) == ([], 0)
    assert (judgement.level, judgement.reason.code) == ("invalid", "quality_unchecked")
    assert "answers in fp8" in judgement.reason.detail
