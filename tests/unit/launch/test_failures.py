"""Every failure class has its exception and a decision about another try."""

from __future__ import annotations

from typing import get_args

import pytest
from airflow.sdk import RetryAction
from tests.fakes.trials import local_provider

from plumbline.airflow.defaults import launch_settings
from plumbline.launch import failures
from plumbline.results import FAILED_AS_DECLARED, FailureClass, LaunchRecord, Reason, Validity


def test_each_class_has_one_exception() -> None:
    classes = set(get_args(FailureClass))
    assert set(failures.EXCEPTIONS) == classes
    assert len(set(failures.EXCEPTIONS.values())) == len(classes)


def test_only_what_time_can_mend_is_retried() -> None:
    assert (
        frozenset({"interrupted", "insufficient_capacity", "provider_fault", "quota_exceeded", "launch_timeout", "unreachable"})
        == failures.RETRIED
    )


@pytest.mark.parametrize("failure_class", get_args(FailureClass))
def test_raise_for_a_failure(failure_class: FailureClass) -> None:
    record = LaunchRecord(launcher="local", events=(), failure_class=failure_class, failure_detail="what happened")
    with pytest.raises(failures.EXCEPTIONS[failure_class], match="what happened") as raised:
        failures.raise_failure(record, None)
    assert raised.value.failure_class == failure_class


def test_raise_for_a_success() -> None:
    failures.raise_failure(LaunchRecord(launcher="local", events=(), exit_code=0), None)


def interrupted(*codes: str) -> Validity:
    reasons = tuple(Reason(code=code, detail="a sentence") for code in ("interrupted", *codes))
    return Validity(status="failed", reasons=reasons, failure_class="interrupted")


@pytest.mark.parametrize(
    ("validity", "again"),
    [(None, True), (interrupted(), True), (interrupted("unplanned_restart"), True), (interrupted(FAILED_AS_DECLARED), False)],
)
def test_an_interruption_that_the_workload_declares_is_not_tried_again(validity: Validity | None, again: bool) -> None:
    record = LaunchRecord(launcher="kubernetes", events=(), failure_class="interrupted", failure_detail="what happened")
    assert failures.is_retryable(record, validity) is again
    with pytest.raises(failures.Interrupted) as raised:
        failures.raise_failure(record, validity)
    settings = launch_settings(local_provider())
    action = settings["retry_policy"].evaluate(raised.value, try_number=1, max_tries=2).action
    assert action == (RetryAction.RETRY if again else RetryAction.FAIL)


def test_a_declared_fault_explains_no_other_failure() -> None:
    record = LaunchRecord(launcher="kubernetes", events=(), failure_class="unreachable", failure_detail="what happened")
    assert failures.is_retryable(record, interrupted(FAILED_AS_DECLARED))
