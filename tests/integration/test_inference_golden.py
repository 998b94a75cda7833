"""The load client against a server whose timing is known: what is reported must be what happened."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import pytest
from tests.fakes.golden_triton import QUEUED_NS, SERVER_TIMES, Golden

from plumbline.declarations.inference import Slo
from plumbline.harness.inference import client, control
from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.metrics import metrics_of
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.results import MetricRow

pytestmark = pytest.mark.integration

SLO = Slo.model_construct(time_to_first_token=10.0, inter_token_latency=None, request_scheduled_latency=None)
# What a message may take from the server's hands to the client's clock on a busy machine; typically a tenth of it.
TYPICAL_S, WORST_S = 0.01, 0.1


def load_of(n: int, rate: float, tokens: int = 8) -> PhaseLoad:
    arrivals = np.round(np.arange(n) / rate, 6)
    return PhaseLoad("steady", n / rate, arrivals, np.full(n, 5, np.int32), np.full(n, tokens, np.int32))


def drive(golden: Golden, load: PhaseLoad, timeout_s: float = 20.0, tick: client.Tick | None = None) -> RequestLog:
    prompts = [np.full(int(length), i, np.int32) for i, length in enumerate(load.input_tokens)]
    return client.drive(load, prompts, client.Target(golden.address, "golden", golden.running), timeout_s=timeout_s, tick=tick)


def value(rows: Sequence[MetricRow], metric: str, statistic: str) -> float:
    found = next(r.value for r in rows if (r.metric, r.statistic) == (metric, statistic))
    assert found is not None
    return found


def true_percentile(values: Sequence[float], q: float) -> float:
    return float(np.quantile(values, q, method="inverted_cdf"))


def test_reported_percentiles_are_the_servers_own() -> None:
    load = load_of(120, rate=60)
    with Golden(first_s=0.03, gap_s=0.01) as golden:
        before = control.statistics(golden.address, "golden")
        log = drive(golden, load)
        served = control.statistics(golden.address, "golden") - before
    rows = metrics_of(log, SLO, served)

    sent = {number: [t - log.began for t in record.sent] for number, record in golden.records.items()}
    scheduled = load.arrivals_s
    truth = {
        "time_to_first_token": [sent[i][0] - scheduled[i] for i in range(load.n)],
        "request_scheduled_latency": [sent[i][-1] - scheduled[i] for i in range(load.n)],
        "request_latency": [sent[i][-1] - r.dispatched for i, r in enumerate(log.requests)],
    }
    for metric, values in truth.items():
        for statistic, q, allowed in (("p50", 0.5, TYPICAL_S), ("p95", 0.95, WORST_S), ("p99", 0.99, WORST_S)):
            late = value(rows, metric, statistic) - true_percentile(values, q)
            assert 0 <= late < allowed, (metric, statistic)
    gaps = np.concatenate([np.diff(s) for s in sent.values()])
    assert value(rows, "inter_token_latency", "p50") == pytest.approx(true_percentile(list(gaps), 0.5), abs=TYPICAL_S / 2)
    assert value(rows, "inter_token_latency", "mean") == pytest.approx(gaps.mean(), abs=TYPICAL_S / 2)
    assert value(rows, "queue_time", "mean") == pytest.approx(QUEUED_NS / 1e9 + SERVER_TIMES[0])
    assert value(rows, "compute_time", "mean") == pytest.approx(SERVER_TIMES[1] + SERVER_TIMES[2])


def test_no_token_is_seen_before_it_was_sent_and_every_request_is_counted() -> None:
    load = load_of(100, rate=100, tokens=3)
    with Golden(first_s=0.005, gap_s=0.002) as golden:
        log = drive(golden, load)
    assert sorted(golden.records) == list(range(100))
    assert len(log.finished) == golden.succeeded == 100
    for i, request in enumerate(log.requests):
        record = golden.records[i]
        assert (record.input_tokens, record.wanted) == (5, 3)
        assert request.scheduled <= request.dispatched <= record.received - log.began
        assert all(seen >= sent - log.began for seen, sent in zip(request.tokens, record.sent, strict=True))
        assert (request.queued_s, request.prefill_s, request.decode_s) == SERVER_TIMES


def test_a_server_that_cannot_keep_up_shows_its_queue() -> None:
    """Served in 20 ms one after the other but due every 10 ms: each waits longer than the one before. A client that waited for
    answers before it sent the next would report 20 ms for all."""
    load = load_of(60, rate=100, tokens=1)
    with Golden(first_s=0.02, serial=True) as golden:
        log = drive(golden, load)
    latencies = log.latencies("scheduled", "last_token")
    truth = [golden.records[i].sent[-1] - log.began - s for i, s in enumerate(load.arrivals_s)]
    assert latencies == pytest.approx(truth, abs=WORST_S)
    assert np.median(latencies) > 10 * 0.02
    assert log.elapsed_s > load.duration_s


@pytest.mark.parametrize(
    ("fault", "error", "detail"),
    [
        ("error", "server_error", "told to fail"),
        ("abort", "server_error", "INTERNAL: told to abort"),
        ("empty", "wrong_output", "0 bytes of TOKEN; expected 4"),
        ("short", "wrong_output", "5 tokens; expected 8"),
        ("shuffled", "wrong_output", "token 0 has index 1"),
        ("unfinished", "server_error", "without a final response"),
        ("hang", "timeout", "DEADLINE_EXCEEDED"),
    ],
)
def test_failures_have_a_class_and_stay_in_every_denominator(fault: str, error: str, detail: str) -> None:
    load = load_of(20, rate=200)
    faults = dict.fromkeys((3, 7, 11, 15, 19), fault)
    with Golden(first_s=0.01, faults=faults) as golden:
        log = drive(golden, load, timeout_s=1.0)
    assert log.errors() == {error: 5}
    assert all(detail in log.requests[i].detail for i in faults), log.first_error()
    rows = metrics_of(log, SLO, None)
    assert value(rows, "error_rate", "value") == 0.25
    assert value(rows, "request_throughput", "value") == pytest.approx(15 / log.elapsed_s)
    assert value(rows, "goodput", "value") == pytest.approx(15 / log.elapsed_s)
    by_statistic = {r.statistic: r for r in rows if r.metric == "request_scheduled_latency"}
    assert by_statistic["p50"].value is not None
    assert by_statistic["p90"].value is None, "a tenth of the requests was not served in 90 % of any time"
    assert (by_statistic["p50"].n, by_statistic["mean"].n) == (20, 15)
    assert next(r for r in rows if r.metric == "queue_time").value is None, "the server's queue is unknown, not zero"


def test_a_request_that_is_given_up_is_cancelled_at_the_server() -> None:
    with Golden(faults={0: "hang"}) as golden:
        drive(golden, load_of(1, rate=10), timeout_s=0.3)
        time.sleep(0.3)
    assert golden.records[0].cancelled


def test_a_server_that_dies_ends_the_phase_at_once_and_loses_no_request() -> None:
    load = load_of(2000, rate=50)
    with Golden(first_s=0.01, die_after=10) as golden:
        began = time.monotonic()
        log = drive(golden, load)
    assert time.monotonic() - began < load.duration_s / 2
    assert len(log.requests) == 2000
    assert len(log.finished) <= 10
    errors = log.errors()
    assert sum(errors.values()) == 2000 - len(log.finished)
    assert errors["not_sent"] > 1000
    assert errors["unreachable"] >= 1


def test_a_server_that_is_not_there() -> None:
    with Golden() as golden:
        pass
    log = client.drive(load_of(3, 10), [np.zeros(5, np.int32)] * 3, client.Target(golden.address, "golden", lambda: True), timeout_s=0.5)
    assert log.errors() == {"not_sent": 3}
    assert "no connection to 127.0.0.1" in log.first_error()


def test_a_client_that_is_held_up_says_so() -> None:
    load = load_of(100, rate=50)
    with Golden(first_s=0.001) as golden:
        log = drive(golden, load, tick=lambda ended, requests: time.sleep(0.4))
    assert len(log.finished) == 100
    assert log.dispatch_delays().max() > 0.2
    assert log.latencies("scheduled", "last_token").max() > 0.2, "the delay is the client's fault, and the latency still counts it"


def test_progress_counts_what_has_ended() -> None:
    seen: list[tuple[int, int]] = []
    with Golden() as golden:
        drive(golden, load_of(30, rate=12, tokens=1), tick=lambda ended, requests: seen.append((ended, requests)))
    assert seen
    assert all(total == 30 for _, total in seen)
    assert 5 <= seen[0][0] <= 30


def test_an_interrupt_stops_the_load() -> None:
    load = load_of(1000, rate=20)
    # As in a process of its own: other tests run parts of Airflow here, which take signals for themselves.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with Golden() as golden, ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGINT, before)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            drive(golden, load)
        timer.join()
    assert time.monotonic() - began < load.duration_s / 4
    assert 0 < len(golden.records) < 1000


def test_control_calls() -> None:
    with Golden() as golden:
        assert control.ready(golden.address, "golden", within_s=5)
        assert not control.ready(golden.address, "another", within_s=0.1)
        assert control.version(golden.address) == "1.2.3"
        assert control.statistics(golden.address, "golden") == control.Statistics(0, 0, 0.0)
    assert not control.ready(golden.address, "golden", within_s=0.5)
