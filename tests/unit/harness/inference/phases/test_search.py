"""Which requests of a running probe are beyond saving."""

from __future__ import annotations

import numpy as np

from plumbline.declarations.workloads.inference import Slo
from plumbline.harness.inference.phases.running_probe import count_missed
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog

FIRST = Slo.model_validate({"time_to_first_token": "500ms"})
WHOLE = Slo.model_validate({"request_scheduled_latency": "1s"})


def a_log() -> RequestLog:
    """Five requests, a tenth of a second apart, of two tokens each."""
    full = [np.full(5, value, np.int32) for value in (8, 2, -1)]
    return RequestLog.of(PhaseLoad("sweep", 3.0, np.arange(5) / 10, *full))


def answer(log: RequestLog, number: int, first: float, last: float | None = None) -> None:
    log.dispatched[number] = log.scheduled[number]
    log.token_at[2 * number], log.received[number] = first, 1
    if last is not None:
        log.token_at[2 * number + 1], log.received[number], log.ended[number] = last, 2, last


def test_who_still_has_time_is_not_lost() -> None:
    assert count_missed(a_log(), FIRST, 0.45) == 0
    assert count_missed(a_log(), FIRST, 0.75) == 3, "due at 0, 0.1 and 0.2 s, without a token half a second later"
    assert count_missed(a_log(), WHOLE, 0.75) == 0
    assert count_missed(a_log(), WHOLE, 1.15) == 2


def test_an_answer_in_time_is_none_too() -> None:
    log = a_log()
    answer(log, 0, 0.2, 0.9)
    answer(log, 1, 0.4)
    assert count_missed(log, FIRST, 0.65) == 0
    assert count_missed(log, WHOLE, 1.15) == 1, "request 1 goes on beyond its limit; request 0 was in time"


def test_failures_and_late_answers_are_lost() -> None:
    log = a_log()
    log.fail(0, "server_error", "no")
    log.ended[0] = 0.05
    answer(log, 1, 0.7, 0.8)
    answer(log, 2, 0.75)
    assert count_missed(log, FIRST, 0.75) == 3


def test_what_is_not_due_any_more_is_not_counted() -> None:
    log = a_log()
    log.due[:] = False
    assert count_missed(log, FIRST, 5.0) == 0
