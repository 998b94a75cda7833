from __future__ import annotations

import math

import numpy as np
import pytest

from plumbline.declarations.workloads.inference import Slo
from plumbline.harness.inference.analysis.metrics import achieved_rate_ratio, cpu_utilization, dispatch_p99, metrics_of, within_slo
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog
from plumbline.results import MetricRow

SLO = Slo.model_construct(time_to_first_token=0.1, inter_token_latency=0.02, request_scheduled_latency=None)
SERVER_S = (0.001, 0.002, 0.01, 0.03, 0.004)


def log_of(
    n: int = 100,
    rate: float = 10.0,
    delay: float = 0.001,
    first: float = 0.05,
    gap: float = 0.01,
    tokens: int = 5,
    *,
    closed: bool = False,
    after: list[int] | None = None,
) -> RequestLog:
    """n requests that all went alike; with `after`, each at its arrival time all the same."""
    follows = np.full(n, -1, np.int32) if after is None else np.array(after, np.int32)
    load = PhaseLoad("steady", n / rate, np.arange(n) / rate, np.full(n, 8, np.int32), np.full(n, tokens, np.int32), follows, closed)
    log = RequestLog.of(load)
    log.due[:] = True
    log.scheduled[:] = load.arrivals_s
    log.dispatched[:] = log.scheduled + delay
    arrivals = log.scheduled[:, None] + first + gap * np.arange(tokens)
    log.token_at[:], log.received[:], log.ended[:] = arrivals.ravel(), tokens, arrivals[:, -1]
    log.server_s[:] = SERVER_S
    return log


def fail(log: RequestLog, *numbers: int) -> RequestLog:
    for i in numbers:
        log.fail(i, "timeout", "too late")
    return log


def found(rows: list[MetricRow], metric: str, statistic: str = "value") -> MetricRow:
    return next(r for r in rows if (r.metric, r.statistic) == (metric, statistic))


def names(rows: list[MetricRow]) -> set[str]:
    return {r.metric for r in rows}


def test_the_numbers_of_a_regular_phase() -> None:
    log = log_of()
    log.cpu_s = (0.2, 0.5)
    rows = metrics_of(log, SLO, None)
    for metric, statistic, value, n in (
        ("time_to_first_token", "p50", 0.05, 100),
        ("time_to_first_token", "mean", 0.05, 100),
        ("time_per_output_token", "p99", 0.01, 100),
        ("inter_token_latency", "p99", 0.01, 400),
        ("request_latency", "p95", 0.089, 100),
        ("request_scheduled_latency", "p99", 0.09, 100),
        ("request_dispatch_delay", "max", 0.001, 100),
        ("output_token_throughput_per_user", "p50", 100.0, 100),
        ("offered_rate", "value", 10.0, 100),
        ("achieved_rate_ratio", "value", 1.0, 100),
        ("request_throughput", "value", 10.0, 100),
        ("output_token_throughput", "value", 50.0, 500),
        ("input_token_throughput", "value", 80.0, 800),
        ("goodput", "value", 10.0, 100),
        ("goodput_ratio", "value", 1.0, 100),
        ("error_rate", "value", 0.0, 100),
        ("client_cpu_per_request", "mean", 0.007, 100),
        ("client_cpu_utilization", "max", 0.05, 2),
    ):
        row = found(rows, metric, statistic)
        assert row.value == pytest.approx(value), metric
        assert row.n == n, metric
        assert row.phase == "steady"


def test_who_answers_once_has_nothing_between_tokens() -> None:
    once = names(metrics_of(log_of(tokens=1), SLO, None))
    assert {"time_to_first_token", "request_throughput"} <= once
    assert not {"inter_token_latency", "time_per_output_token", "output_token_throughput_per_user"} & once
    failed = metrics_of(fail(log_of(), *range(100)), SLO, None)
    assert found(failed, "inter_token_latency", "p50").value is None, "who was asked for more and gave nothing is told of"


def test_time_per_output_token_has_one_value_a_request_with_a_second_token() -> None:
    log = log_of(n=40, tokens=6)
    # Events of three tokens: most gaps are 0.
    for i in range(40):
        log.token_at[6 * i : 6 * i + 6] = log.scheduled[i] + 0.05 + 0.01 * np.repeat([0, 3], 3)
    # The server ended these by itself: one after its first token, one after its third, all of one event.
    log.received[0], log.received[1] = 1, 3
    # Failed requests: slower than any limit.
    rows = metrics_of(fail(log, 2, 3), SLO, None)
    row = found(rows, "time_per_output_token", "p50")
    assert (row.value, row.n) == (pytest.approx(0.03 / 5), 38)
    assert found(rows, "inter_token_latency", "p50").value == 0
    assert found(rows, "time_per_output_token", "mean").n == 36
    assert found(rows, "time_per_output_token", "p99").value is None
    assert found(rows, "time_per_output_token", "p95").value is None, "2 of 38 failed"
    assert found(rows, "time_per_output_token", "p90").value == pytest.approx(0.006)


def test_an_slo_limits_the_time_per_output_token() -> None:
    slo = Slo.model_validate({"time_per_output_token": "10ms"})
    assert within_slo(log_of(n=2, gap=0.009), slo).all()
    assert not within_slo(log_of(n=2, gap=0.011), slo).any()
    assert within_slo(log_of(n=2, tokens=1), slo).all()


def test_intervals_only_where_they_mean_something() -> None:
    rows = metrics_of(log_of(), SLO, None)
    assert found(rows, "request_latency", "p50").ci_low is not None
    assert found(rows, "inter_token_latency", "p50").ci_low is None
    assert found(rows, "time_per_output_token", "p50").ci_low is not None
    every = found(rows, "goodput_ratio")
    assert (every.ci_low, every.ci_high) == (pytest.approx(0.963, abs=1e-3), 1.0), "a hundred good ones prove 96 %, not 100 %"


def test_a_tail_that_too_few_requests_support_is_absent() -> None:
    rows = metrics_of(log_of(n=50), SLO, None)
    assert found(rows, "request_latency", "p99").value is None
    assert found(rows, "request_latency", "p95").value is not None
    assert found(rows, "request_dispatch_delay", "p99").value is not None, "our own fault is judged by the largest instead"


def test_failed_requests_are_slower_than_any_percentile_that_reaches_them() -> None:
    rows = metrics_of(fail(log_of(), *range(8)), SLO, None)
    assert found(rows, "error_rate").value == pytest.approx(0.08)
    assert found(rows, "request_scheduled_latency", "p90").value == pytest.approx(0.09)
    assert found(rows, "request_scheduled_latency", "p95").value is None
    assert found(rows, "request_scheduled_latency", "p95").n == 100
    assert found(rows, "request_scheduled_latency", "mean").n == 92
    assert found(rows, "goodput").value == pytest.approx(9.2)
    assert found(rows, "goodput_ratio").value == pytest.approx(0.92)
    assert found(rows, "request_throughput").value == pytest.approx(9.2)


def test_a_phase_in_which_everything_failed() -> None:
    rows = metrics_of(fail(log_of(), *range(100)), SLO, None)
    assert found(rows, "error_rate").value == 1
    assert (found(rows, "goodput").value, found(rows, "goodput_ratio").value) == (0, 0)
    assert found(rows, "time_to_first_token", "p50").value is None
    assert found(rows, "output_token_throughput_per_user", "p50").value is None
    assert "queue_time" not in names(rows)


def test_a_drain_beyond_the_declared_end_lowers_the_throughput() -> None:
    log = log_of()
    log.ended[-1] = 20.0
    assert log.elapsed_s == 20.0
    assert found(metrics_of(log, SLO, None), "request_throughput").value == pytest.approx(5.0)


def test_failed_requests_deliver_no_tokens() -> None:
    log = log_of()
    log.received[0] = 2
    assert found(metrics_of(fail(log, 0), SLO, None), "output_token_throughput").n == 495


@pytest.mark.parametrize(
    ("first", "gap", "expected"), [(0.1, 0.02, True), (0.11, 0.02, False), (0.1, 0.021, False)], ids=["at the limits", "late", "slow"]
)
def test_good_requests_meet_every_limit(first: float, gap: float, expected: bool) -> None:
    limits = Slo.model_construct(time_to_first_token=0.1 + 1e-9, inter_token_latency=0.02 + 1e-9, request_scheduled_latency=None)
    assert within_slo(log_of(n=3, first=first, gap=gap), limits).tolist() == [expected] * 3


def test_good_requests_have_no_error_were_due_and_one_token_has_no_gap() -> None:
    log = log_of(n=3, tokens=1)
    log.due[1] = False
    assert within_slo(fail(log, 0), SLO).tolist() == [False, False, True]
    whole = Slo.model_construct(time_to_first_token=None, inter_token_latency=None, request_scheduled_latency=0.04)
    assert not within_slo(log, whole).any()


def test_a_client_that_falls_behind_achieves_less_of_the_rate() -> None:
    log = log_of()
    log.dispatched[:] = log.scheduled + 0.01 * np.arange(100)  # a tenth slower with each
    assert achieved_rate_ratio(log) == pytest.approx(10 / 10.99)


@pytest.mark.parametrize(("longer_s", "ratio"), [(0.005, 1 / 1.005), (0.5, 1 / 1.5)])
def test_a_burst_of_milliseconds_is_held_against_its_phase(longer_s: float, ratio: float) -> None:
    """A hundred requests within 5 ms of a second: a client that takes twice that time is 5 ms late, not half as fast."""
    log = log_of(rate=100.0)
    log.scheduled[:] = 5e-5 * np.arange(100)
    log.dispatched[:] = log.scheduled + longer_s * np.linspace(0, 1, 100)
    assert achieved_rate_ratio(log) == pytest.approx(ratio, rel=1e-3)


def test_one_late_request_at_the_end_is_not_a_lower_rate() -> None:
    log = log_of()
    log.dispatched[-1] += 0.005
    assert (achieved_rate_ratio(log) or 0) > 0.999


def test_what_was_never_sent_lowers_the_rate_and_is_infinitely_late() -> None:
    log = log_of()
    log.dispatched[50:] = math.nan
    for i in range(50, 100):
        log.fail(i, "not_sent", "gone")
    assert achieved_rate_ratio(log) == 0.5
    assert dispatch_p99(log) == math.inf
    assert found(metrics_of(log, SLO, None), "request_dispatch_delay", "p99").value is None


def test_requests_of_one_moment_have_no_rate_to_fall_behind() -> None:
    log = log_of()
    log.scheduled[:], log.dispatched[:] = 2.0, 2.0 + 1e-5 * np.arange(100)
    assert achieved_rate_ratio(log) == pytest.approx(1.0, abs=1e-3)
    log.dispatched[99] = math.nan
    assert achieved_rate_ratio(log) == pytest.approx(0.99, abs=1e-3)
    log.dispatched[:] = math.nan
    assert achieved_rate_ratio(log) == 0.0


def test_a_closed_loop_has_no_rate_of_its_own() -> None:
    log = log_of(closed=True, after=[-1] * 4 + list(range(96)))
    assert achieved_rate_ratio(log) is None
    assert not {"offered_rate", "achieved_rate_ratio"} & names(metrics_of(log, SLO, None))
    assert found(metrics_of(log, SLO, None), "request_dispatch_delay", "p50").value == pytest.approx(0.001)


def test_the_rate_of_conversations_is_that_of_their_first_turns() -> None:
    log = log_of(after=[-1, 0] * 2 + [-1, 4] * 48)
    log.dispatched[1::2] += 0.5  # answers came late: nothing that the client is to be blamed for here
    assert achieved_rate_ratio(log) == pytest.approx(1.0)
    assert found(metrics_of(log, SLO, None), "offered_rate").value == pytest.approx(5.0)


def test_cpu_that_nobody_measured_is_absent() -> None:
    assert cpu_utilization(log_of()) is None
    assert "client_cpu_per_request" not in names(metrics_of(log_of(), SLO, None))
