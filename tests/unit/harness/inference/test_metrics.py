from __future__ import annotations

import math

import numpy as np
import pytest

from plumbline.declarations.inference import Slo
from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.control import Statistics
from plumbline.harness.inference.metrics import achieved_rate_ratio, dispatch_p99, is_good, metrics_of, stages_of
from plumbline.harness.inference.requestlog import Request, RequestLog
from plumbline.results import MetricRow

SLO = Slo.model_construct(time_to_first_token=0.1, inter_token_latency=0.02, request_scheduled_latency=None)


def log_of(n: int = 100, rate: float = 10.0, delay: float = 0.001, first: float = 0.05, gap: float = 0.01, tokens: int = 5) -> RequestLog:
    load = PhaseLoad("steady", n / rate, np.arange(n) / rate, np.full(n, 8, np.int32), np.full(n, tokens, np.int32))
    log = RequestLog.of(load)
    for r in log.requests:
        r.dispatched = r.scheduled + delay
        r.tokens = [r.scheduled + first + i * gap for i in range(tokens)]
        r.ended = r.tokens[-1]
        r.queued_s, r.prefill_s, r.decode_s = 0.002, 0.01, 0.03
    return log


def fail(log: RequestLog, *numbers: int) -> RequestLog:
    for i in numbers:
        log.requests[i].fail("timeout", "too late")
    return log


def found(rows: list[MetricRow], metric: str, statistic: str) -> MetricRow:
    return next(r for r in rows if (r.metric, r.statistic) == (metric, statistic))


def test_the_numbers_of_a_regular_phase() -> None:
    rows = metrics_of(log_of(), SLO, Statistics(100, 0, 0.4))
    for metric, statistic, value, n in (
        ("time_to_first_token", "p50", 0.05, 100),
        ("time_to_first_token", "mean", 0.05, 100),
        ("inter_token_latency", "p99", 0.01, 400),
        ("request_latency", "p95", 0.089, 100),
        ("request_scheduled_latency", "p99", 0.09, 100),
        ("request_dispatch_delay", "max", 0.001, 100),
        ("output_token_throughput_per_user", "p50", 100.0, 100),
        ("offered_rate", "value", 10.0, 100),
        ("achieved_rate_ratio", "value", 1.0, 100),
        ("request_throughput", "value", 10.0, 100),
        ("output_token_throughput", "value", 50.0, 500),
        ("goodput", "value", 10.0, 100),
        ("error_rate", "value", 0.0, 100),
        ("queue_time", "mean", 0.004 + 0.002, 100),
        ("compute_time", "mean", 0.04, 100),
    ):
        row = found(rows, metric, statistic)
        assert row.value == pytest.approx(value), metric
        assert row.n == n, metric
        assert row.phase == "steady"


def test_percentiles_have_intervals_only_where_they_mean_something() -> None:
    rows = metrics_of(log_of(), SLO, None)
    assert found(rows, "request_latency", "p50").ci_low is not None
    assert found(rows, "inter_token_latency", "p50").ci_low is None


def test_a_tail_that_too_few_requests_support_is_absent() -> None:
    rows = metrics_of(log_of(n=50), SLO, None)
    assert found(rows, "request_latency", "p99").value is None
    assert found(rows, "request_latency", "p95").value is not None
    assert found(rows, "request_dispatch_delay", "p99").value is not None, "our own fault is judged by the largest instead"


def test_failed_requests_are_slower_than_any_percentile_that_reaches_them() -> None:
    rows = metrics_of(fail(log_of(), *range(8)), SLO, None)
    assert found(rows, "error_rate", "value").value == pytest.approx(0.08)
    assert found(rows, "request_scheduled_latency", "p90").value == pytest.approx(0.09)
    assert found(rows, "request_scheduled_latency", "p95").value is None
    assert found(rows, "request_scheduled_latency", "p95").n == 100
    assert found(rows, "request_scheduled_latency", "mean").n == 92
    assert found(rows, "goodput", "value").value == pytest.approx(9.2)
    assert found(rows, "request_throughput", "value").value == pytest.approx(9.2)


def test_a_phase_in_which_everything_failed() -> None:
    rows = metrics_of(fail(log_of(), *range(100)), SLO, None)
    assert found(rows, "error_rate", "value").value == 1
    assert found(rows, "goodput", "value").value == 0
    assert found(rows, "time_to_first_token", "p50").value is None
    assert found(rows, "output_token_throughput_per_user", "p50").value is None
    assert not [r for r in rows if r.metric == "queue_time"]
    assert all(s.total_s == 0 and s.n == 0 for s in stages_of(fail(log_of(), *range(100))))


def test_a_drain_beyond_the_declared_end_lowers_the_throughput() -> None:
    log = log_of()
    log.requests[-1].ended = 20.0
    assert log.elapsed_s == 20.0
    assert found(metrics_of(log, SLO, None), "request_throughput", "value").value == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("first", "gap", "expected"), [(0.1, 0.02, True), (0.11, 0.02, False), (0.1, 0.021, False)], ids=["at the limits", "late", "slow"]
)
def test_good_requests_meet_every_limit(first: float, gap: float, expected: bool) -> None:
    request = Request(0.0, 8, 3, dispatched=0.0, tokens=[first, first + gap, first + 2 * gap])
    limits = Slo.model_construct(time_to_first_token=0.1 + 1e-9, inter_token_latency=0.02 + 1e-9, request_scheduled_latency=None)
    assert is_good(request, limits) is expected


def test_good_requests_have_no_error_and_one_token_has_no_gap() -> None:
    request = Request(1.0, 8, 1, dispatched=1.0, tokens=[1.05])
    assert is_good(request, SLO)
    request.fail("server_error", "x")
    assert not is_good(request, SLO)
    whole = Slo.model_construct(time_to_first_token=None, inter_token_latency=None, request_scheduled_latency=0.04)
    assert not is_good(Request(1.0, 8, 1, dispatched=1.0, tokens=[1.05]), whole)


def test_a_client_that_falls_behind_achieves_less_of_the_rate() -> None:
    log = log_of()
    for i, r in enumerate(log.requests):
        r.dispatched = r.scheduled + 0.01 * i  # a tenth slower with each
    assert achieved_rate_ratio(log) == pytest.approx(1 / 1.1)


def test_one_late_request_at_the_end_is_not_a_lower_rate() -> None:
    log = log_of()
    log.requests[-1].dispatched += 0.005
    assert achieved_rate_ratio(log) > 0.999


def test_what_was_never_sent_lowers_the_rate_and_is_infinitely_late() -> None:
    log = log_of()
    for r in log.requests[50:]:
        r.dispatched = math.nan
        r.fail("not_sent", "gone")
    assert achieved_rate_ratio(log) == 0.5
    assert dispatch_p99(log) == math.inf
    assert found(metrics_of(log, SLO, None), "request_dispatch_delay", "p99").value is None


def test_stages_add_up_over_the_finished_requests() -> None:
    stages = {s.stage: (s.total_s, s.n) for s in stages_of(fail(log_of(), 0))}
    assert stages == {
        "dispatch": (pytest.approx(0.099), 99),
        "queue": (pytest.approx(0.198), 99),
        "prefill": (pytest.approx(0.99), 99),
        "decode": (pytest.approx(2.97), 99),
    }
