"""Each verdict fires where it must and not where it must not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from plumbline.declarations import ValidityLimits, load
from plumbline.declarations.workloads.loss_check import LossCheck
from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.analysis.measurement import (
    diverged_losses,
    judge_training,
    late_steady_state,
    loss_out_of_range,
    measured_trend,
    steady_trend,
    too_few_steps,
    unsteady_step_time,
)
from plumbline.harness.training.analysis.records import TrainingRecords

CONFIG = Path(__file__).resolve().parents[5] / "include" / "config"
CHECK = LossCheck(low=1.0, high=5.0)


@pytest.fixture(scope="module")
def limits() -> ValidityLimits:
    return load(CONFIG).thresholds.validity


def test_a_clean_trial_is_not_judged(tiny: Callable[..., TrainingWorkload], records: TrainingRecords, limits: ValidityLimits) -> None:
    assert judge_training(tiny(loss={"low": 1.0, "high": 5.0}), limits, records) == []


def test_unsteady_steps(limits: ValidityLimits) -> None:
    assert unsteady_step_time([1.0, 1.1, 0.9, 1.0], limits) == []
    (degraded,) = unsteady_step_time([1.0, 1.0, 1.0, 3.0], limits)
    assert (degraded.level, degraded.reason.code) == ("degraded", "step_time_unsteady")
    (invalid,) = unsteady_step_time([1.0] * 9 + [30.0], limits)
    assert invalid.level == "invalid" and "invalid above 100%" in invalid.reason.detail


def test_a_trend(limits: ValidityLimits) -> None:
    assert steady_trend([1.0] * 90) == []
    (found,) = steady_trend([1.0] * 60 + [1.2] * 30)
    assert (found.level, found.reason.code) == ("degraded", "step_time_trend") and "+20.0%" in found.reason.detail


def test_a_steady_state_that_came_late(limits: ValidityLimits) -> None:
    assert late_steady_state(60, 100, limits) == [] and late_steady_state(0, 100, limits) == []
    (degraded,) = late_steady_state(40, 100, limits)
    assert (degraded.level, degraded.reason.code) == ("degraded", "not_steady") and "40 of 100" in degraded.reason.detail
    assert [judgement.level for judgement in late_steady_state(5, 100, limits)] == ["invalid"]


def test_throttling_is_no_warm_up() -> None:
    (found,) = measured_trend([1.0] * 60 + [1.2] * 30)
    assert (found.level, found.reason.code) == ("degraded", "step_time_trend")
    assert measured_trend([1.2] * 30 + [1.0] * 60) == [] and measured_trend([1.0] * 90) == []


def test_a_loss_that_is_wrong(records: TrainingRecords) -> None:
    steps = records.runs["run"].steps
    assert loss_out_of_range(steps, CHECK) == [] and loss_out_of_range(steps, None) == []
    for broken in (math.nan, math.inf):
        (found,) = loss_out_of_range([*steps[:3], replace(steps[3], loss=broken), *steps[4:]], None)
        assert (found.level, found.reason.code) == ("invalid", "loss_not_finite") and "step 3 " in found.reason.detail
    for outside in (0.5, 6.0):
        (found,) = loss_out_of_range([*steps[:-1], replace(steps[-1], loss=outside)], CHECK)
        assert (found.level, found.reason.code) == ("invalid", "loss_out_of_range") and "1 to 5" in found.reason.detail
    assert loss_out_of_range([replace(steps[0], loss=7.0), *steps[1:]], CHECK) == []


def test_a_loss_is_judged_at_the_step_that_was_declared(records: TrainingRecords) -> None:
    steps = records.runs["run"].steps
    early = LossCheck(low=1.0, high=5.0, at_step=3)
    assert loss_out_of_range([*steps[:-1], replace(steps[-1], loss=9.0)], early) == []
    (found,) = loss_out_of_range([*steps[:3], replace(steps[3], loss=9.0), *steps[4:]], early)
    assert (found.level, found.reason.code) == ("invalid", "loss_out_of_range")
    assert "step 3 " in found.reason.detail and "is 9;" in found.reason.detail
    (absent,) = loss_out_of_range(steps[:3], early)
    assert (absent.level, absent.reason.code) == ("invalid", "loss_out_of_range") and "step 3" in absent.reason.detail


def test_steps_that_are_too_few_to_say_anything() -> None:
    assert too_few_steps([1.0] * 6) == []
    (together,) = too_few_steps([], 20)
    assert together.level == "invalid" and "the first 20 steps were reported at once" in together.reason.detail
    assert too_few_steps([1.0] * 6, 20) == []
    (none,), (few,) = too_few_steps([]), too_few_steps([1.0] * 5)
    assert (none.level, few.level) == ("invalid", "degraded") and {none.reason.code, few.reason.code} == {"too_few_steps"}
    assert " 6 " in few.reason.detail


def test_losses_that_diverge() -> None:
    assert diverged_losses(None) == [] and diverged_losses([]) == []
    (found,) = diverged_losses([5, 6])
    assert (found.level, found.reason.code) == ("degraded", "losses_diverge_after_resume") and "5, 6" in found.reason.detail


def test_checkpoints_that_cannot_be_trusted(
    tiny: Callable[..., TrainingWorkload], records: TrainingRecords, limits: ValidityLimits
) -> None:
    records.runs["run"].restored_exactly = False
    records.runs["recovery"].rejected = ["step-00000008: cut"]
    codes = {(found.level, found.reason.code) for found in judge_training(tiny(), limits, records)}
    assert codes == {("invalid", "checkpoint_not_restored"), ("degraded", "checkpoint_damaged")}
