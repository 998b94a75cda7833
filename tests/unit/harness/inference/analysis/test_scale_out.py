"""Steps of the load from logs whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from plumbline.declarations.workloads.load import ScaleOutPhaseSpec
from plumbline.harness.inference.analysis.scale_out import find_steps
from plumbline.kinds.arithmetic.scale_out import ScaleOut
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog

# 100 requests at 10/s, 200 at 20/s, 400 at 40/s, 50 at 10/s, evenly spaced.
SPEC = ScaleOutPhaseSpec.model_validate(
    {"name": "scale_out", "rates": ("10/s", "20/s", "40/s"), "hold": "10s", "down": "5s", "goodput": "90%"}
)


def scaled(*bad: tuple[float, float], failed: tuple[float, float] = (0, 0)) -> ScaleOut:
    """The phase, in which requests scheduled in [begin, end) of `bad` missed the SLO, and those of `failed` had no answer."""
    begins = np.cumsum([0, *(seconds for _, seconds in SPEC.levels)])
    at = np.concatenate([begin + np.arange(rate * s) / rate for begin, (rate, s) in zip(begins[:-1], SPEC.levels, strict=True)])
    none = np.full(len(at), -1, np.int32)
    log = RequestLog.of(PhaseLoad("scale_out", begins[-1], at, np.full(len(at), 4, np.int32), np.full(len(at), 1, np.int32), none))
    good = ~np.any([(at >= begin) & (at < end) for begin, end in (*bad, failed)], axis=0)
    for i in np.flatnonzero((at >= failed[0]) & (at < failed[1])).tolist():
        log.fail(i, "unreachable", "503")
    return ScaleOut(find_steps(log, good, SPEC), SPEC)


def row(found: ScaleOut, metric: str) -> tuple[float | None, float | None, float | None]:
    (only,) = [row for row in found.metrics if row.metric == metric]
    return only.value, only.ci_low, only.ci_high


def test_a_step_takes_until_the_slo_holds_to_its_end() -> None:
    found = scaled((10.5, 14.0), (20.0, 22.0), failed=(12.0, 13.0))
    assert found.problem is None
    assert [step.took_s for step in found.steps] == pytest.approx([0, 4.0, 2.0])
    assert row(found, "time_to_scale_out") == pytest.approx((4.0, 3.95, 4.0))
    assert [step.failed for step in found.steps] == [0, 20, 0]
    assert row(found, "slo_miss_ratio")[0] == pytest.approx((70 + 80) / 600)


def test_the_curves_have_each_step_by_its_rate() -> None:
    times, misses, errors = scaled((10.5, 14.0), (20.0, 22.0), failed=(12.0, 13.0)).curves
    assert [point.at for point in times.points] == [20, 40]
    assert [point.value for point in times.points] == pytest.approx([4, 2])
    assert [point.value for point in misses.points] == pytest.approx([70 / 200, 80 / 400])
    assert [point.value for point in errors.points] == pytest.approx([20 / 200, 0])


def test_an_slo_that_breaks_again_did_not_hold_before() -> None:
    assert scaled((10.5, 12.0), (16.0, 17.0)).steps[1].took_s == pytest.approx(7.0)


def test_a_step_that_goes_on_missing_is_not_back_by_its_lucky_end() -> None:
    """Two of each twenty requests miss until 0.6 s before the end of the step: twelve good ones are luck."""
    bad = [(10.0 + i, 10.0 + i + 0.1) for i in range(10)]
    assert scaled(*bad).steps[1].took_s is None
    assert scaled(*bad[:4]).steps[1].took_s == pytest.approx(3.1)


def test_an_slo_that_never_broke_takes_no_time_and_says_so() -> None:
    found = scaled((12.0, 12.01), (20.0, 20.02))  # one miss in a window is within 90 %
    assert found.problem is None and row(found, "time_to_scale_out") == (0, None, None)
    assert [each.method for each in found.metrics] == ["the SLO did not break", None]


def test_a_step_that_is_not_back_within_its_hold_has_no_time() -> None:
    found = scaled((10.5, 12.0), (25.0, 30.0))
    assert [step.took_s for step in found.steps] == [0, pytest.approx(2.0), None]
    assert found.problem is not None and found.problem.code == "no_scale_out"
    assert "40/s (200 of 400" in found.problem.detail and "20/s" not in found.problem.detail
    assert row(found, "time_to_scale_out") == (None, None, None)


def test_a_start_capacity_below_the_first_rate_measures_no_step() -> None:
    found = scaled((5.0, 10.0))
    assert found.problem is not None and found.problem.code == "no_start_capacity"
    assert row(found, "time_to_scale_out")[0] is None


def test_what_misses_after_the_step_down_is_no_step() -> None:
    assert scaled((30.0, 35.0)).problem is None
