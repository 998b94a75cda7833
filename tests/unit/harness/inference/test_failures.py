"""Whose turn it is to change something, by what most requests met."""

from __future__ import annotations

import numpy as np
import pytest

from plumbline.harness.inference.endpoint import classify_failure
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import ErrorClass, RequestLog


def log_of(*failures: tuple[ErrorClass, str]) -> RequestLog:
    n = len(failures)
    log = RequestLog.of(PhaseLoad("steady", 1.0, np.zeros(n), *(np.full(n, v, np.int32) for v in (4, 4, -1))))
    for i, (error, detail) in enumerate(failures):
        if detail:
            log.fail(i, error, detail)
    return log


@pytest.mark.parametrize(
    ("error", "detail", "expected"),
    [
        ("server_error", "UNAUTHENTICATED: who are you", "bad_declaration"),
        ("server_error", "RESOURCE_EXHAUSTED: later", "quota_exceeded"),
        ("server_error", "INTERNAL: oops", "server_error"),
        ("server_error", "Request for unknown model: 'nobody' is not found", "bad_declaration"),
        ("server_error", "HTTP 400: no such parameter ignore_eos", "bad_declaration"),
        ("server_error", "the stream ended without [DONE]", "server_error"),
        ("server_error", "error 400 in the stream: the request exceeds the context", "bad_declaration"),
        ("server_error", "error 401 in the stream: no such key", "bad_declaration"),
        ("rate_limited", "error 429 in the stream: later", "quota_exceeded"),
        ("server_error", "HTTP 402: no credit", "quota_exceeded"),
        ("unreachable", "error 504 in the stream: gone", "unreachable"),
        ("server_error", "HTTP 424: the generation failed", "server_error"),
        ("timeout", "HTTP 408: too slow", "timeout"),
        ("server_error", "the server refused the content: HTTP 400: filtered", "server_error"),
        ("server_error", "the answer is empty: no event with text", "server_error"),
        ("invalid_response", "an event of an unknown form (TypeError: x): {}", "server_error"),
        ("timeout", "0 of 8 tokens within 30s", "timeout"),
        ("not_sent", "no connection to h:1 within 30s: refused", "unreachable"),
    ],
)
def test_each_failure_has_its_class(error: ErrorClass, detail: str, expected: str) -> None:
    failure_class, why = classify_failure(log_of((error, detail)))
    assert failure_class == expected
    assert detail in why


def test_the_most_frequent_failure_decides() -> None:
    often, seldom = ("server_error", "HTTP 429: slow down"), ("server_error", "HTTP 500: oops")
    assert classify_failure(log_of(seldom, often, often))[0] == "quota_exceeded"  # type: ignore[arg-type]
    assert classify_failure(log_of(seldom, often, seldom))[0] == "server_error"  # type: ignore[arg-type]


def test_a_log_without_failures_has_no_class() -> None:
    with pytest.raises(ValueError, match="steady"):
        classify_failure(log_of(("timeout", "")))
