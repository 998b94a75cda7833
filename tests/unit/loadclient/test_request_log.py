from __future__ import annotations

import math

import numpy as np

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog


def counts(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def load(after: tuple[int, ...] = (-1, -1, -1), closed: bool = False) -> PhaseLoad:
    return PhaseLoad("steady", 2.0, np.array([0.0, 0.5, 1.0]), counts(4, 5, 6), counts(2, 3, 2), counts(*after), closed)


def receive(log: RequestLog, i: int, *tokens: float) -> None:
    start = log.first_token_of[i]
    log.token_at[start : start + len(tokens)], log.received[i] = tokens, len(tokens)
    log.ended[i] = tokens[-1]


def test_an_empty_log_has_every_request() -> None:
    log = RequestLog.of(load())
    assert log.scheduled.tolist() == [0.0, 0.5, 1.0]
    assert (log.n, log.finished, log.elapsed_s) == (3, 3, 2.0)
    assert np.all(np.isinf(log.dispatch_delays()))
    assert np.isnan(log.first_token).all() and not log.arrived.any() and log.gaps().size == 0


def test_the_first_error_stays() -> None:
    log = RequestLog.of(load())
    log.fail(1, "wrong_output", "0 bytes")
    log.fail(1, "timeout", "later")
    log.fail(2, "timeout", "late")
    assert log.errors() == {"timeout": 1, "wrong_output": 1}
    assert log.first_error() == "wrong_output: 0 bytes"
    assert log.ok.tolist() == [True, False, False]
    assert [log.error_of(i) for i in range(3)] == ["", "wrong_output", "timeout"]
    assert log.finished == 1


def test_latencies_and_gaps() -> None:
    log = RequestLog.of(load())
    log.dispatched[:2] = 0.1, 0.5
    receive(log, 0, 0.3, 0.7)
    receive(log, 1, 0.75, 1.0, 1.1)
    receive(log, 2, 1.2, 1.3)
    log.fail(2, "timeout", "late")
    assert np.allclose(log.latencies("scheduled", "first_token"), [0.3, 0.25, math.inf])
    assert np.allclose(log.latencies("dispatched", "last_token"), [0.6, 0.6, math.inf])
    assert np.allclose(log.gaps(), [0.4, 0.25, 0.1]), "never between two requests, and none of one that failed"
    assert np.allclose(log.time_per_output_token, [0.4, 0.175, 0.1])


def test_what_was_received_in_part() -> None:
    log = RequestLog.of(load())
    receive(log, 1, 0.75, 1.0)
    assert log.arrived.tolist() == [False, False, True, True, False, False, False]
    assert log.tokens(1).tolist() == [0.75, 1.0]
    assert (log.first_token[1], log.last_token[1]) == (0.75, 1.0)
    assert math.isnan(log.time_per_output_token[0])


def test_a_turn_that_did_not_come_is_not_due() -> None:
    log = RequestLog.of(load(after=(-1, 0, 1), closed=True))
    assert (log.n, math.isnan(log.scheduled[1])) == (1, True)
    receive(log, 0, 0.3, 0.7)
    log.due[1], log.scheduled[1] = True, 1.2
    log.fail(1, "timeout", "late")
    assert log.latencies("scheduled", "last_token").tolist() == [0.7, math.inf]
    assert (log.n, log.finished, log.elapsed_s) == (2, 1, 2.0)
    log.due[2] = True
    receive(log, 2, 1.8, 1.9)
    assert log.elapsed_s == 1.9, "worked off before its time was over"
