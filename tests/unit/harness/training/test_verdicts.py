"""Each verdict fires where it must and not where it must not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from plumbline.declarations import ValidityLimits, load
from plumbline.declarations.training import LossCheck, TrainingWorkload
from plumbline.harness.training.records import Records
from plumbline.harness.training.verdicts import diverged, drifting, judge, unsteady, wrong_loss

CONFIG = Path(__file__).resolve().parents[4] / "include" / "config"
CHECK = LossCheck(low=1.0, high=5.0)


@pytest.fixture(scope="module")
def limits() -> ValidityLimits:
    return load(CONFIG).thresholds.validity


def test_a_clean_trial_is_not_judged(tiny: Callable[..., TrainingWorkload], records: Records, limits: ValidityLimits) -> None:
    assert judge(tiny(loss={"low": 1.0, "high": 5.0}), limits, records) == []


def test_unsteady_steps(limits: ValidityLimits) -> None:
    assert unsteady([1.0, 1.1, 0.9, 1.0], limits) == []
    (degraded,) = unsteady([1.0, 1.0, 1.0, 3.0], limits)
    assert (degraded.level, degraded.reason.code) == ("degraded", "step_time_unsteady")
    (invalid,) = unsteady([1.0] * 9 + [30.0], limits)
    assert invalid.level == "invalid" and "invalid above 100%" in invalid.reason.detail


def test_a_trend(limits: ValidityLimits) -> None:
    assert drifting([1.0] * 90) == []
    (found,) = drifting([1.0] * 60 + [1.2] * 30)
    assert (found.level, found.reason.code) == ("degraded", "step_time_trend") and "+20.0%" in found.reason.detail


def test_a_loss_that_is_wrong(records: Records) -> None:
    steps = records.runs["run"].steps
    assert wrong_loss(steps, CHECK) == [] and wrong_loss(steps, None) == []
    for broken in (math.nan, math.inf):
        (found,) = wrong_loss([*steps[:3], replace(steps[3], loss=broken), *steps[4:]], None)
        assert (found.level, found.reason.code) == ("invalid", "loss_out_of_range") and "from step 3 on" in found.reason.detail
    for outside in (0.5, 6.0):
        (found,) = wrong_loss([*steps[:-1], replace(steps[-1], loss=outside)], CHECK)
        assert found.level == "invalid" and "expected 1 to 5" in found.reason.detail
    assert wrong_loss([replace(steps[0], loss=7.0), *steps[1:]], CHECK) == []


def test_losses_that_diverge() -> None:
    assert diverged(None) == [] and diverged([]) == []
    (found,) = diverged([5, 6])
    assert (found.level, found.reason.code) == ("degraded", "losses_diverge_after_resume") and "5, 6" in found.reason.detail


def test_checkpoints_that_cannot_be_trusted(tiny: Callable[..., TrainingWorkload], records: Records, limits: ValidityLimits) -> None:
    records.runs["run"].restored_exactly = False
    records.runs["recovery"].rejected = ["step-00000008: cut"]
    codes = {(found.level, found.reason.code) for found in judge(tiny(), limits, records)}
    assert codes == {("invalid", "checkpoint_not_restored"), ("degraded", "checkpoint_damaged")}
