"""Every failure class has its exception and a decision about another try."""

from __future__ import annotations

from typing import get_args

import pytest

from plumbline.launch import failures
from plumbline.results import FailureClass, LaunchRecord


def test_each_class_has_one_exception_and_one_decision() -> None:
    classes = set(get_args(FailureClass))
    assert set(failures.EXCEPTIONS) == set(failures._AGAIN) == classes
    assert len(set(failures.EXCEPTIONS.values())) == len(classes)
    assert all(why for _, why in failures._AGAIN.values())


def test_only_what_time_can_mend_is_retried() -> None:
    assert frozenset({"interrupted", "insufficient_capacity", "quota_exceeded", "launch_timeout", "unreachable"}) == failures.RETRIED


@pytest.mark.parametrize("failure_class", get_args(FailureClass))
def test_raise_for_a_failure(failure_class: FailureClass) -> None:
    record = LaunchRecord(launcher="local", events=(), failure_class=failure_class, failure_detail="what happened")
    with pytest.raises(failures.EXCEPTIONS[failure_class], match="what happened") as raised:
        failures.raise_for(record)
    assert raised.value.failure_class == failure_class


def test_raise_for_a_success() -> None:
    failures.raise_for(LaunchRecord(launcher="local", events=(), exit_code=0))
