from __future__ import annotations

import random

from plumbline.launch.failures import RequestFailed
from plumbline.launch.remote import RequestFailures

REFUSED = RequestFailed("GET /api: connection refused")


def test_only_an_unbroken_row_of_failures_is_an_outage_that_ends_the_watch() -> None:
    outage = RequestFailures(100, "the API")
    assert outage.failed(REFUSED, 0) is None
    assert outage.failed(REFUSED, 99) is None
    assert outage.answered(99.5) == 99.5
    assert outage.failed(REFUSED, 150) is None
    assert outage.failed(REFUSED, 249) is None
    last = RequestFailed("HTTP 503: etcd is away", 503)
    stop = outage.failed(last, 250)
    assert stop is not None
    assert (stop.reason, stop.status) == ("unreachable", 503)
    assert "unreachable_timeout: 100 s" in stop.detail and str(last) in stop.detail


def test_an_outage_is_new_once_and_its_end_is_told_once() -> None:
    outage = RequestFailures(100, "the API")
    assert outage.answered(0) is None
    outage.failed(REFUSED, 1)
    assert outage.is_new()
    outage.failed(REFUSED, 2)
    assert not outage.is_new()
    assert outage.answered(3) == 2
    assert outage.answered(4) is None


def test_waits_grow_differ_and_are_bounded() -> None:
    outage, waits = RequestFailures(1e9, "the API", random.Random(1)), []
    for n in range(12):
        outage.failed(REFUSED, n)
        waits.append(outage.wait_s(REFUSED))
    assert 0.5 <= waits[0] <= 1
    assert max(waits) <= 30
    assert min(waits[6:]) >= 15
    assert len(set(waits)) == 12


def test_what_the_api_asked_for_is_waited_within_reason() -> None:
    outage = RequestFailures(1e9, "the API")
    slow_down = RequestFailed("HTTP 429: too many requests", 429, retry_after_s=45)
    outage.failed(slow_down, 0)
    assert outage.wait_s(slow_down) == 45
    assert outage.wait_s(RequestFailed("HTTP 429", 429, retry_after_s=86400)) == 300
