from __future__ import annotations

from typing import Any

from plumbline.analysis.drift.comparison import reliability_of


def test_a_retry_that_worked_leaves_its_failure_on_record_but_nothing_missing(sample: Any, outcomes: Any) -> None:
    first, second = outcomes("failed:interrupted", "valid")
    retried = type(second)(first.trial_id, first.slot, first.repeat, 2, "valid")
    found = reliability_of([], sample("c", {}, outcomes=(first, retried, second), planned=2))
    assert (found.attempts, found.failures, found.missing) == (3, 1, 0)
    assert found.failed == (("interrupted", 1),) and found.failed_trials == (first.trial_id,)


def test_missing_is_counted_once_and_the_baseline_beside_it(sample: Any, outcomes: Any) -> None:
    old = sample("b", {}, outcomes=outcomes("valid", "failed:timeout"))
    found = reliability_of([old], sample("c", {}, outcomes=outcomes("valid", "missing"), planned=2))
    assert (found.missing, found.attempts, found.baseline_attempts, found.baseline_failed) == (1, 1, 2, 1)


def test_failures_are_as_usual_only_where_the_baseline_failed_alike(sample: Any, outcomes: Any) -> None:
    often = sample("b", {}, outcomes=outcomes(*["valid"] * 8, "failed:timeout", "failed:timeout"))
    never = sample("b", {}, outcomes=outcomes(*["valid"] * 10))
    now = sample("c", {}, outcomes=outcomes("valid", "failed:timeout", "failed:timeout", "failed:timeout"))
    one = sample("c", {}, outcomes=outcomes("valid", "valid", "valid", "failed:timeout"))
    assert not reliability_of([never], now).as_usual
    assert reliability_of([often], one).as_usual and reliability_of([never], one).as_usual
    assert not reliability_of([], one).as_usual


def test_errors_of_gpus_are_counted_by_attempt_and_by_code(sample: Any, outcomes: Any) -> None:
    often = sample("b", {}, outcomes=outcomes(*["valid"] * 2, *["degraded!gpu_ecc_corrected"] * 2))
    never = sample("b", {}, outcomes=outcomes(*["valid"] * 20))
    now = sample("c", {}, outcomes=outcomes("valid", *["degraded!gpu_ecc_corrected!gpu_nvlink_errors"] * 2, "degraded!step_time_unsteady"))
    found = reliability_of([often], now)
    assert dict(found.gpu_errors) == {"gpu_ecc_corrected": 2, "gpu_nvlink_errors": 2}
    assert (len(found.gpu_error_trials), found.baseline_gpu_errors) == (2, 2)
    assert found.gpu_errors_as_usual
    assert not reliability_of([never], now).gpu_errors_as_usual and not reliability_of([], now).gpu_errors_as_usual
    assert reliability_of([often], never).gpu_errors == ()
