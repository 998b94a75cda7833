"""From the log of a phase to its metrics. A request that failed counts: as infinitely slow in percentiles, and in every denominator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.confidence import wilson
from plumbline.declarations.inference import Slo
from plumbline.harness.inference.requestlog import RequestLog
from plumbline.harness.inference.server_view import ServerView
from plumbline.harness.inference.stages import stage_rows
from plumbline.harness.inference.statistics import PERCENTILES, Values, interval, percentile, supported
from plumbline.results import MetricRow, row


def metrics_of(log: RequestLog, slo: Slo, server: ServerView | None) -> list[MetricRow]:
    """All metric rows of one load phase. `server`: what its counters gained in the phase; None if it could not be asked."""
    return [
        *_latency(log, "time_to_first_token", log.latencies("scheduled", "first_token")),
        *_gaps(log),
        *_latency(log, "request_latency", log.latencies("dispatched", "last_token")),
        *_latency(log, "request_scheduled_latency", log.latencies("scheduled", "last_token")),
        *_per_user(log),
        *_rates(log, slo),
        *_client(log),
        *stage_rows(log, server),
    ]


def good(log: RequestLog, slo: Slo) -> NDArray[np.bool_]:
    """bool [n of the load]: finished, and within every limit. One token has no inter-token latency and cannot miss its limit."""
    met = log.ok
    for limit, seen in (
        (slo.time_to_first_token, log.first_token - log.scheduled),
        (slo.inter_token_latency, log.mean_gaps),
        (slo.request_scheduled_latency, log.last_token - log.scheduled),
    ):
        if limit is not None:
            met = met & ~(seen > limit)
    return met


def achieved_rate_ratio(log: RequestLog) -> float | None:
    """The rate at which requests were sent over the rate at which they were scheduled, at most 1. None for a closed loop, which has no rate
    of its own; of conversations their first turns, the only ones that the schedule itself times.

    The share that was sent at all, times the phase's duration over that duration plus what the sending took longer than it was to: a client
    that falls behind sends the same requests over a longer time. Over the phase and not from first request to last: a single burst of a few
    milliseconds would have a rate that a millisecond halves. How late within a burst is what the dispatch delay says.
    """
    timed = log.due & (log.load.after < 0)
    if log.load.closed or not timed.any():
        return None
    scheduled, dispatched = log.scheduled[timed], log.dispatched[timed]
    sent = np.isfinite(dispatched)
    if not sent.any():
        return 0.0
    longer = max(0.0, float(np.ptp(dispatched[sent]) - np.ptp(scheduled[sent])))
    duration_s = log.load.duration_s
    return float(sent.mean()) * (duration_s / (duration_s + longer))


def dispatch_p99(log: RequestLog) -> float:
    """p99 of the dispatch delay in seconds; the largest one below a hundred requests: a judgement of ourselves may be harsh."""
    return percentile(np.sort(log.dispatch_delays()), PERCENTILES["p99"])


def cpu_utilization(log: RequestLog) -> float | None:
    """CPU time over wall time of the client's busiest process, which has one core; None if it was not measured."""
    return max(log.cpu_s) / log.elapsed_s if log.cpu_s else None


def _latency(log: RequestLog, metric: str, values: Values) -> list[MetricRow]:
    phase, ordered = log.load.name, np.sort(values)
    n, finite = len(ordered), ordered[np.isfinite(ordered)]
    rows = [
        row(metric, percentile(ordered, q) if supported(n, q) else None, n, phase=phase, statistic=name, ci=interval(ordered, q))
        for name, q in PERCENTILES.items()
    ]
    # There is no mean with an infinity in it: it is over the requests that finished, and its n says how many those were.
    return [*rows, row(metric, float(finite.mean()) if len(finite) else None, len(finite), phase=phase, statistic="mean")]


def _gaps(log: RequestLog) -> list[MetricRow]:
    """Inter-token latencies, pooled. Without intervals: the gaps of one response depend on each other, and on its neighbours'.

    No rows where nobody was asked for a second token, as of an encoder: there is nothing between tokens to be absent.
    """
    if not _streams(log):
        return []
    phase, ordered = log.load.name, np.sort(log.gaps())
    n = len(ordered)
    rows = [
        row("inter_token_latency", percentile(ordered, q) if supported(n, q) else None, n, phase=phase, statistic=name)
        for name, q in PERCENTILES.items()
    ]
    return [*rows, row("inter_token_latency", float(ordered.mean()) if n else None, n, phase=phase, statistic="mean")]


def _streams(log: RequestLog) -> bool:
    return bool((log.load.output_tokens > 1).any())


def _per_user(log: RequestLog) -> list[MetricRow]:
    if not _streams(log):
        return []
    phase, gaps = log.load.name, log.mean_gaps[log.ok]
    speeds = np.sort(1 / gaps[gaps > 0])
    n = len(speeds)
    values = {"p50": percentile(speeds, 0.5), "mean": float(speeds.mean()) if n else None, "min": float(speeds[0]) if n else None}
    return [row("output_token_throughput_per_user", value, n, phase=phase, statistic=name) for name, value in values.items()]


def _rates(log: RequestLog, slo: Slo) -> list[MetricRow]:
    phase, n, finished, elapsed_s = log.load.name, log.n, log.finished, log.elapsed_s
    tokens, met = int(log.arrived.sum()), int(good(log, slo).sum())
    asked = int(log.load.input_tokens[log.ok].sum())
    rows = [
        row("request_throughput", finished / elapsed_s, finished, phase=phase),
        row("output_token_throughput", tokens / elapsed_s, tokens, phase=phase),
        row("input_token_throughput", asked / elapsed_s, asked, phase=phase),
        row("goodput", met / elapsed_s, n, phase=phase),
    ]
    for name, count in (("goodput_ratio", met), ("error_rate", n - finished)):
        share = wilson(count, n)
        ci = None if share.low is None or share.high is None else (share.low, share.high)
        rows.append(row(name, share.ratio, n, phase=phase, ci=ci))
    achieved = achieved_rate_ratio(log)
    if achieved is not None:
        timed = int((log.load.after < 0).sum())
        rows += [
            row("offered_rate", timed / log.load.duration_s, timed, phase=phase),
            row("achieved_rate_ratio", achieved, timed, phase=phase),
        ]
    return rows


def _client(log: RequestLog) -> list[MetricRow]:
    phase, ordered = log.load.name, np.sort(log.dispatch_delays())
    n, sent = len(ordered), int(np.isfinite(log.dispatched).sum())
    delays = {"p50": percentile(ordered, 0.5), "p99": dispatch_p99(log), "max": float(ordered[-1]) if n else None}
    rows = [row("request_dispatch_delay", value, n, phase=phase, statistic=name) for name, value in delays.items()]
    utilization = cpu_utilization(log)
    if utilization is not None and sent:
        rows += [
            row("client_cpu_per_request", sum(log.cpu_s) / sent, sent, phase=phase),
            row("client_cpu_utilization", utilization, len(log.cpu_s), phase=phase),
        ]
    return rows
