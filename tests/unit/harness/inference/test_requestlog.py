from __future__ import annotations

import math

import numpy as np

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.requestlog import RequestLog

LOAD = PhaseLoad("steady", 2.0, np.array([0.0, 0.5, 1.0]), np.array([4, 5, 6], np.int32), np.array([2, 2, 2], np.int32))


def test_an_empty_log_has_every_request() -> None:
    log = RequestLog.of(LOAD)
    assert [(r.scheduled, r.input_tokens, r.output_tokens) for r in log.requests] == [(0.0, 4, 2), (0.5, 5, 2), (1.0, 6, 2)]
    assert log.elapsed_s == 2.0
    assert np.all(np.isinf(log.dispatch_delays()))


def test_the_first_error_stays() -> None:
    log = RequestLog.of(LOAD)
    log.requests[1].fail("wrong_output", "0 bytes")
    log.requests[1].fail("timeout", "later")
    log.requests[2].fail("timeout", "late")
    assert log.errors() == {"timeout": 1, "wrong_output": 1}
    assert log.first_error() == "wrong_output: 0 bytes"
    assert [r.ok for r in log.requests] == [True, False, False]
    assert log.finished == [log.requests[0]]


def test_latencies_and_gaps() -> None:
    log = RequestLog.of(LOAD)
    log.requests[0].dispatched, log.requests[0].tokens = 0.1, [0.3, 0.7]
    log.requests[1].dispatched, log.requests[1].tokens = 0.5, [0.75, 1.0]
    log.requests[2].fail("timeout", "late")
    assert np.allclose(log.latencies("scheduled", "first_token"), [0.3, 0.25, math.inf])
    assert np.allclose(log.latencies("dispatched", "last_token"), [0.6, 0.5, math.inf])
    assert np.allclose(log.gaps(), [0.4, 0.25])
    assert log.requests[0].mean_gap == 0.7 - 0.3
    assert math.isnan(log.requests[2].mean_gap)
