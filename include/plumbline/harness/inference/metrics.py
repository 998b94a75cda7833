"""From the log of a phase to its metrics. A request that failed counts: as infinitely slow in percentiles, and in every denominator."""

from __future__ import annotations

import math

import numpy as np

from plumbline.declarations.inference import Slo
from plumbline.harness.inference.control import Statistics
from plumbline.harness.inference.requestlog import Request, RequestLog
from plumbline.harness.inference.statistics import PERCENTILES, Values, interval, percentile, supported
from plumbline.results import MetricRow, Stage, row


def metrics_of(log: RequestLog, slo: Slo, server: Statistics | None) -> list[MetricRow]:
    """All metric rows of one load phase. `server`: what its counters gained in the phase; None if it could not be asked."""
    phase = log.load.name
    n, finished, elapsed_s = len(log.requests), log.finished, log.elapsed_s
    rows = [
        *_latency(log, "time_to_first_token", log.latencies("scheduled", "first_token")),
        *_gaps(log),
        *_latency(log, "request_latency", log.latencies("dispatched", "last_token")),
        *_latency(log, "request_scheduled_latency", log.latencies("scheduled", "last_token")),
        *_dispatch(log),
        *_per_user(log),
    ]
    tokens = sum(len(r.tokens) for r in log.requests)
    values = {
        "offered_rate": (n / log.load.duration_s, n),
        "achieved_rate_ratio": (achieved_rate_ratio(log), n),
        "request_throughput": (len(finished) / elapsed_s, len(finished)),
        "output_token_throughput": (tokens / elapsed_s, tokens),
        "goodput": (sum(is_good(r, slo) for r in finished) / elapsed_s, n),
        "error_rate": ((n - len(finished)) / n, n),
    }
    rows += [row(name, value, count, phase=phase) for name, (value, count) in values.items()]
    if finished:
        # The server's queue, then the model's own: Triton hands a request to the model before there is a free row for it.
        queued = server.queued_s / server.succeeded if server and server.succeeded else math.nan
        waited = float(np.mean([r.queued_s for r in finished]))
        rows.append(row("queue_time", queued + waited, len(finished), phase=phase))
        computed = float(np.mean([r.prefill_s + r.decode_s for r in finished]))
        rows.append(row("compute_time", computed, len(finished), phase=phase))
    return rows


def stages_of(log: RequestLog) -> list[Stage]:
    """Where the finished requests' time went: at the client before sending, then in the model by its own account."""
    finished = log.finished
    spent = {
        "dispatch": [r.dispatched - r.scheduled for r in finished],
        "queue": [r.queued_s for r in finished],
        "prefill": [r.prefill_s for r in finished],
        "decode": [r.decode_s for r in finished],
    }
    return [Stage(phase=log.load.name, stage=name, total_s=max(0.0, sum(seconds)), n=len(seconds)) for name, seconds in spent.items()]


def is_good(request: Request, slo: Slo) -> bool:
    """Whether a finished request met every limit. One token has no inter-token latency and cannot miss its limit."""
    seen = (
        (slo.time_to_first_token, request.first_token - request.scheduled),
        (slo.inter_token_latency, request.mean_gap),
        (slo.request_scheduled_latency, request.last_token - request.scheduled),
    )
    return request.ok and all(limit is None or math.isnan(value) or value <= limit for limit, value in seen)


def achieved_rate_ratio(log: RequestLog) -> float:
    """The rate at which requests were sent over the rate at which they were scheduled, at most 1.

    The share that was sent at all, times the stretch from first to last: a client that falls behind sends the same requests over a
    longer time. Below two requests there is no rate, only the share.
    """
    sent = [r.dispatched for r in log.requests if r.dispatched == r.dispatched]
    share = len(sent) / len(log.requests)
    scheduled = log.requests[-1].scheduled - log.requests[0].scheduled
    stretch = scheduled / (sent[-1] - sent[0]) if len(sent) == len(log.requests) > 1 and sent[-1] > sent[0] else 1.0
    return share * min(1.0, stretch)


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
    """Inter-token latencies, pooled. Without intervals: the gaps of one response depend on each other, and on its neighbours'."""
    phase, ordered = log.load.name, np.sort(log.gaps())
    n = len(ordered)
    rows = [
        row("inter_token_latency", percentile(ordered, q) if supported(n, q) else None, n, phase=phase, statistic=name)
        for name, q in PERCENTILES.items()
    ]
    return [*rows, row("inter_token_latency", float(ordered.mean()) if n else None, n, phase=phase, statistic="mean")]


def dispatch_p99(log: RequestLog) -> float:
    """p99 of the dispatch delay in seconds; the largest one below a hundred requests: a judgement of ourselves may be harsh."""
    return percentile(np.sort(log.dispatch_delays()), PERCENTILES["p99"])


def _dispatch(log: RequestLog) -> list[MetricRow]:
    phase, ordered = log.load.name, np.sort(log.dispatch_delays())
    values = {"p50": percentile(ordered, 0.5), "p99": dispatch_p99(log), "max": float(ordered[-1])}
    return [row("request_dispatch_delay", value, len(ordered), phase=phase, statistic=name) for name, value in values.items()]


def _per_user(log: RequestLog) -> list[MetricRow]:
    phase = log.load.name
    speeds = np.sort([1 / gap for r in log.finished if (gap := r.mean_gap) > 0])
    n = len(speeds)
    values = {"p50": percentile(speeds, 0.5), "mean": float(speeds.mean()) if n else None, "min": float(speeds[0]) if n else None}
    return [row("output_token_throughput_per_user", value, n, phase=phase, statistic=name) for name, value in values.items()]
