from __future__ import annotations

import numpy as np
import pytest

from plumbline.analysis.drift.effect import estimate_effect


def test_a_ratio_is_the_hodges_lehmann_estimate_on_logs() -> None:
    baseline, candidate = [1.0, 1.1, 1.3, 0.9], [2.0, 2.4, 1.9, 2.2]
    found = estimate_effect("step_time", [{"02:00": baseline}], {"02:00": candidate}, 0.95)
    expected = np.median(np.log(candidate)[:, None] - np.log(baseline)[None, :])
    assert found.effect == pytest.approx(np.expm1(expected))
    assert found.scale == "ratio" and found.blocked and found.p == pytest.approx(2 / 70)
    assert found.ci_low is not None and found.ci_high is not None and found.ci_low < found.effect < found.ci_high


def test_the_time_of_day_cannot_pass_for_drift() -> None:
    # The candidate ran mostly in the slow slot; slot by slot nothing moved.
    baseline = {"02:00": [1.00, 1.01, 0.99, 1.00], "10:00": [2.00]}
    candidate = {"02:00": [1.00], "10:00": [2.00, 2.01, 1.99, 2.00]}
    found = estimate_effect("step_time", [baseline], candidate, 0.95)
    assert abs(found.effect) < 0.01 and found.p == 1.0


def test_without_a_common_slot_it_falls_back_and_says_so() -> None:
    found = estimate_effect("step_time", [{"02:00": [1.0, 1.1]}], {"10:00": [1.0, 1.1]}, 0.95)
    assert not found.blocked and "no common slot" in found.notes[0]


def test_a_slot_of_one_side_is_left_out_and_named() -> None:
    found = estimate_effect("step_time", [{"02:00": [1.0, 1.1], "10:00": [5.0]}], {"02:00": [1.0, 1.1]}, 0.95)
    assert found.sizes == ((2, 2),) and "10:00" in found.notes[0]


def test_two_against_two_has_no_interval() -> None:
    found = estimate_effect("step_time", [{"02:00": [1.0, 1.01]}], {"02:00": [2.0, 2.01]}, 0.95)
    assert (found.ci_low, found.ci_high) == (None, None) and found.p == pytest.approx(1 / 3)


def test_shares_that_may_be_zero_are_plain_differences() -> None:
    found = estimate_effect("error_rate", [{"02:00": [0.0, 0.0, 0.0, 0.0]}], {"02:00": [0.02, 0.03, 0.02, 0.02]}, 0.95)
    assert found.scale == "difference" and found.effect == pytest.approx(0.02)


def test_a_stray_zero_makes_it_a_relative_difference_and_a_zero_baseline_a_plain_one() -> None:
    relative = estimate_effect("queue_time", [{"02:00": [0.0, 0.2, 0.2]}], {"02:00": [0.3, 0.3, 0.3]}, 0.95)
    assert relative.scale == "relative_difference" and relative.effect == pytest.approx(0.5)
    assert estimate_effect("queue_time", [{"02:00": [0.0, 0.0]}], {"02:00": [0.3, 0.3]}, 0.95).scale == "difference"


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(400):
        slots = {slot: np.exp(rng.normal(level, 0.03, 3)) for slot, level in (("a", 0.0), ("b", 0.5), ("c", -0.4))}
        moved = {slot: 1.1 * np.exp(rng.normal(level, 0.03, 3)) for slot, level in (("a", 0.0), ("b", 0.5), ("c", -0.4))}
        found = estimate_effect("step_time", [slots], moved, 0.95)
        assert found.ci_low is not None and found.ci_high is not None
        hits += found.ci_low <= 0.1 <= found.ci_high
    assert hits >= 0.93 * 400


def test_a_move_inside_the_spread_of_the_accepted_campaigns_does_not_count() -> None:
    accepted = [{"02:00": [level * x for x in (1.0, 1.001, 0.999, 1.002, 0.998)]} for level in (1.0, 1.05, 0.95, 1.02)]
    candidate = {"02:00": [1.08 * x for x in (1.0, 1.001, 0.999, 1.002, 0.998)]}
    inside = estimate_effect("step_time", accepted, candidate, 0.95)
    assert inside.p < 0.05 < inside.p_campaigns
    assert estimate_effect("step_time", accepted[:1], candidate, 0.95, warn=0.02).p_campaigns < 0.05
    assert estimate_effect("step_time", accepted[:1], candidate, 0.95).p_campaigns is None


def test_one_side_without_a_value_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^step_time: 0 "):
        estimate_effect("step_time", [], {"02:00": [1.0]}, 0.95)
