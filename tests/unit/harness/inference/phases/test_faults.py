"""Client and server compared request by request after a fault."""

from __future__ import annotations

import numpy as np
import pytest

from plumbline.harness.inference.phases.fault import JournalSummary
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import ErrorClass, RequestLog


def a_log(failed: dict[int, ErrorClass]) -> RequestLog:
    full = [np.full(6, value, np.int32) for value in (8, 1, -1)]
    log = RequestLog.of(PhaseLoad("fault", 6.0, np.arange(6.0), *full))
    for number, error in failed.items():
        log.fail(number, error, "…")
    return log


def test_what_failed_was_never_answered() -> None:
    assert JournalSummary((3, 3), frozenset({0, 1, 4, 5})).differs(a_log({2: "unreachable", 3: "unreachable"})) is None


def test_an_answer_that_came_too_late_for_the_client_is_no_contradiction() -> None:
    assert JournalSummary((6,), frozenset(range(6))).differs(a_log({2: "timeout", 3: "cancelled"})) is None


@pytest.mark.parametrize(
    ("finished", "lost", "unrecorded"),
    [(frozenset({0, 1, 2, 4, 5}), 1, 0), (frozenset({0, 4, 5}), 0, 1)],
)
def test_a_contradiction_is_told_with_its_numbers(finished: frozenset[int], lost: int, unrecorded: int) -> None:
    found = JournalSummary((6,), finished).differs(a_log({2: "unreachable", 3: "unreachable"}))
    assert found is not None
    assert (found.level, found.reason.code) == ("degraded", "counts_differ")
    assert f": {lost} answers" in found.reason.detail and f", {unrecorded} have" in found.reason.detail
