"""Metric rows, stage times and energy from the request log and the server counters of a phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.workloads.inference import Slo
from plumbline.harness.gpu_monitor import GpuSamples
from plumbline.loadclient.request_log import RETRIEVAL, RequestLog
from plumbline.loadclient.round_trip import RoundTrips
from plumbline.metrics import LoadPhase
from plumbline.metrics.quantiles import PERCENTILES, Values, interval, percentile, supported
from plumbline.results import MetricRow, Stage, StageSource, metric_row, share_row


def metrics_of(log: RequestLog, slo: Slo | None, server: ServerCounters | None) -> list[MetricRow]:
    """All metric rows of one load phase. `slo`: None has no goodput. `server`: what its counters gained in the phase; None if it could not be asked."""
    return [
        *_latency(log, "time_to_first_token", log.latencies("scheduled", "first_token")),
        *(_latency(log, "time_to_first_content_token", log.latencies("scheduled", "first_content")) if log.reasoned.any() else ()),
        *_per_output_token(log),
        *_gaps(log),
        *_latency(log, "request_latency", log.latencies("dispatched", "last_token")),
        *_latency(log, "request_scheduled_latency", log.latencies("scheduled", "last_token")),
        *_per_user(log),
        *_rates(log, slo),
        *_client(log),
        *stage_rows(log, server),
    ]


def within_slo(log: RequestLog, slo: Slo) -> NDArray[np.bool_]:
    """bool [n of the load]: finished within every limit. One token has no time per output token."""
    met = log.ok
    for limit, measured in _limited(log, slo):
        met = met & ~(measured > limit)
    return met


def used_of_slo(log: RequestLog, slo: Slo) -> NDArray[np.float64]:
    """The part of its tightest limit that each request used, [n of the load]: above 1 where it missed one; infinite where it failed."""
    used = np.zeros(log.load.n)
    for limit, measured in _limited(log, slo):
        used = np.fmax(used, measured / limit)
    return np.where(log.ok, used, np.inf)


def _limited(log: RequestLog, slo: Slo) -> Iterator[tuple[float, NDArray[np.float64]]]:
    """Each declared limit with what every request took, NaN: nothing that it applies to."""
    for limit, measured in (
        (slo.time_to_first_token, log.first_token - log.scheduled),
        (slo.time_per_output_token, log.time_per_output_token),
        (slo.inter_token_latency, log.time_per_output_token),
        (slo.request_scheduled_latency, log.last_token - log.scheduled),
    ):
        if limit is not None:
            yield limit, measured


def achieved_rate_ratio(log: RequestLog) -> float | None:
    """Rate of sent over scheduled requests, at most 1. None for a closed loop, which has no rate; of conversations their first turns.

    The share that was sent, times the phase's duration over that plus the delay of sending: a client that falls behind sends the same
    requests over a longer time. Over the phase, because a burst of milliseconds would have a rate that a millisecond halves; dispatch delay
    shows lateness within a burst."""
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
    """p99 of the dispatch delay in seconds; below a hundred requests the largest."""
    return percentile(np.sort(log.dispatch_delays()), PERCENTILES["p99"])


def cpu_utilization(log: RequestLog) -> float | None:
    """CPU time over wall time of the client's busiest process, which has one core; None if it was not measured."""
    return max(log.cpu_s) / log.elapsed_s if log.cpu_s else None


def without_pace(log: RequestLog) -> str | None:
    """Why finished answers of several tokens have no time per output token, with their number; None if all have one."""
    several = log.ok & (log.written > 1)
    lacking = np.flatnonzero(several & np.isnan(log.time_per_output_token))
    if not len(lacking):
        return None
    hidden = lacking[log.unsent[lacking] > 0]
    if len(hidden):
        written, unsent = int(log.written[hidden[0]]), int(log.unsent[hidden[0]])
        why = f"{written - unsent} of {written} tokens were sent, the others only counted"
    else:
        why = f"{int(log.written[lacking[0]])} tokens came at once"
    return f"the pace is not measurable in {len(lacking)} of {int(several.sum())} answers of several tokens in {log.load.name}: {why}"


def _latency(log: RequestLog, metric: str, values: Values, reason: str | None = None) -> list[MetricRow]:
    phase, ordered = log.load.name, np.sort(values)
    n, finite = len(ordered), ordered[np.isfinite(ordered)]
    rows = [
        metric_row(
            metric,
            percentile(ordered, q) if supported(n, q) else None,
            n,
            phase=phase,
            statistic=name,
            ci=interval(ordered, q),
            reason=reason,
        )
        for name, q in PERCENTILES.items()
    ]
    # There is no mean with an infinity in it: it is over the requests that finished, and its n says how many those were.
    mean = float(finite.mean()) if len(finite) else None
    return [*rows, metric_row(metric, mean, len(finite), phase=phase, statistic="mean", reason=reason)]


def _per_output_token(log: RequestLog) -> list[MetricRow]:
    """One value for each request with a pace; a failed one that was to have it is infinitely slow. No rows without second tokens."""
    if not _streams(log):
        return []
    times = np.where(log.ok, log.time_per_output_token, np.where(log.load.output_tokens > 1, np.inf, np.nan))[log.due]
    return _latency(log, "time_per_output_token", times[~np.isnan(times)], without_pace(log))


def _gaps(log: RequestLog) -> list[MetricRow]:
    """Inter-token latencies, pooled. Without intervals, as the gaps of one response depend on each other.

    No rows without second tokens, as of an encoder."""
    if not _streams(log):
        return []
    phase, ordered, reason = log.load.name, np.sort(log.gaps()), without_pace(log)
    n = len(ordered)
    values = {name: percentile(ordered, q) if supported(n, q) else None for name, q in PERCENTILES.items()}
    values["mean"] = float(ordered.mean()) if n else None
    return [metric_row("inter_token_latency", value, n, phase=phase, statistic=name, reason=reason) for name, value in values.items()]


def _streams(log: RequestLog) -> bool:
    return bool((log.load.output_tokens > 1).any())


def _per_user(log: RequestLog) -> list[MetricRow]:
    if not _streams(log):
        return []
    phase, gaps, reason = log.load.name, log.time_per_output_token[log.ok], without_pace(log)
    speeds = np.sort(1 / gaps[gaps > 0])
    n = len(speeds)
    values = {"p50": percentile(speeds, 0.5), "mean": float(speeds.mean()) if n else None, "min": float(speeds[0]) if n else None}
    metric = "output_token_throughput_per_user"
    return [metric_row(metric, value, n, phase=phase, statistic=name, reason=reason) for name, value in values.items()]


def _rates(log: RequestLog, slo: Slo | None) -> list[MetricRow]:
    phase, n, finished, elapsed_s = log.load.name, log.n, log.finished, log.elapsed_s
    tokens, met = log.delivered_tokens, None if slo is None else int(within_slo(log, slo).sum())
    input_tokens = int(log.read_tokens[log.ok].sum())
    known = bool((log.read_tokens[log.ok] > 0).all())  # an external server may not report what it read
    rows = [
        metric_row("request_throughput", finished / elapsed_s, finished, phase=phase),
        metric_row("output_token_throughput", tokens / elapsed_s, tokens, phase=phase),
        *([metric_row("input_token_throughput", input_tokens / elapsed_s, input_tokens, phase=phase)] if known else []),
        *([] if met is None else [metric_row("goodput", met / elapsed_s, n, phase=phase)]),
    ]
    shares = (("goodput_ratio", met), ("error_rate", n - finished))
    rows += [share_row(name, count, n, phase=phase) for name, count in shares if count is not None]
    achieved = achieved_rate_ratio(log)
    if achieved is not None:
        timed = int((log.load.after < 0).sum())
        rows += [
            metric_row("offered_rate", timed / log.load.duration_s, timed, phase=phase),
            metric_row("achieved_rate_ratio", achieved, timed, phase=phase),
        ]
    return rows


def _client(log: RequestLog) -> list[MetricRow]:
    phase, ordered = log.load.name, np.sort(log.dispatch_delays())
    n, sent = len(ordered), int(np.isfinite(log.dispatched).sum())
    delays = {"p50": percentile(ordered, 0.5), "p99": dispatch_p99(log), "max": float(ordered[-1]) if n else None}
    rows = [metric_row("request_dispatch_delay", value, n, phase=phase, statistic=name) for name, value in delays.items()]
    utilization = cpu_utilization(log)
    if utilization is not None and sent:
        rows += [
            metric_row("client_cpu_per_request", sum(log.cpu_s) / sent, sent, phase=phase),
            metric_row("client_cpu_utilization", utilization, len(log.cpu_s), phase=phase),
        ]
    return rows


def round_trip_rows(phase: LoadPhase, measured: Sequence[RoundTrips]) -> list[MetricRow]:
    """`network_round_trip_time` and `protocol_round_trip_time` of a phase, from what was measured before and after it."""
    rows = []
    for metric, kind in (("network_round_trip_time", "connect_s"), ("protocol_round_trip_time", "request_s")):
        ordered = np.sort(np.array([value for trips in measured for value in getattr(trips, kind)], np.float64))
        n = len(ordered)
        for name in ("p50", "p95"):
            q = PERCENTILES[name]
            value = percentile(ordered, q) if supported(n, q) else None
            rows.append(metric_row(metric, value, n, phase=phase, statistic=name, ci=interval(ordered, q)))
    return rows


# Where a request's time went: before it was sent, in the server by its own account, and on the way back.
#
# Seconds of the finished requests. A stage that a server does not have, or does not tell of, is absent: absent is never zero.
#
#     dispatch         from the scheduled time until it was sent: the client's own
#     tokenization, queue, prefill, decode, post_processing   as the model tells them; the queue holds Triton's own too, since Triton has a
#                      request before the model does
#     embedding, search, reranking, orchestration   of a retrieval pipeline: see models/retrieval_model.py
#     delivery         what is left of the time from sending to the last token: the network, gRPC on both sides, the client's reading


def stage_rows(log: RequestLog, server: ServerCounters | None) -> list[MetricRow]:
    """Mean stage times of one phase, and what the server's counters say of batches and caches. `server`: what they gained in the phase.

    Nothing if nothing finished; no queue time if the server's counters are unknown: its own queue may have been any length.
    """
    phase, n = log.load.name, log.finished
    if not n:
        return []
    seconds = _seconds(log, server)
    rows = [
        metric_row("queue_time", seconds.pop("queue", None), n, phase=phase),
        metric_row("compute_time", _computed(log, server), n, phase=phase),
    ]
    rows += [metric_row(f"{stage}_time", mean, n, phase=phase) for stage, mean in seconds.items()]
    if all(stage in seconds for stage in RETRIEVAL):
        rows.append(metric_row("retrieval_time", sum(seconds[stage] for stage in RETRIEVAL), n, phase=phase))
    if server and server.batch_size is not None and _answered_once(log):
        rows.append(metric_row("batch_size", server.batch_size, server.executions, phase=phase))
    if server and server.cache_hit_ratio is not None:
        rows.append(
            metric_row("cache_hit_ratio", server.cache_hit_ratio, (server.cache_hits or 0) + (server.cache_misses or 0), phase=phase)
        )
    return rows + _draft_rows(phase, server)


def stages_of(log: RequestLog, server: ServerCounters | None) -> list[Stage]:
    """Total time in each stage of one phase, over its finished requests, with who measured it."""
    n = log.finished
    if not n:
        return []
    by_server: StageSource = "response" if _reported_seconds(log) else "metrics" if server and server.prefill_s is not None else "triton"
    spent = {"dispatch": float((log.dispatched - log.scheduled)[log.ok].mean()), **_seconds(log, server)}
    return [
        Stage(phase=log.load.name, stage=name, total_s=max(0.0, mean * n), n=n, source="client" if name in _CLIENTS else by_server)
        for name, mean in spent.items()
    ]


_CLIENTS = ("dispatch", "delivery")


def _seconds(log: RequestLog, server: ServerCounters | None) -> dict[str, float]:
    """Mean seconds of the finished requests (at least one) in each stage that exists, in the order in which they go through them."""
    reported = _reported_seconds(log)
    stages = {stage: mean for stage, mean in reported.items() if mean > 0 and stage != "queue"}
    if server is None or not server.succeeded:
        return stages
    if not reported and server.prefill_s is not None and server.decode_s is not None:
        stages = {"prefill": server.prefill_s / server.succeeded, "decode": server.decode_s / server.succeeded}
    queue = server.queued_s / server.succeeded + reported.get("queue", 0.0)
    ordered = {stage: queue if stage == "queue" else stages[stage] for stage in log.stages if stage in stages or stage == "queue"}
    at_work = sum(stages.values()) if stages else _computed(log, server)
    if at_work is None:
        return ordered
    client_s = float((log.last_token - log.dispatched)[log.ok].mean())
    return {**ordered, "delivery": client_s - queue - at_work}


def _reported_seconds(log: RequestLog) -> dict[str, float]:
    """Seconds that the model reports; empty if it reports none."""
    seconds = log.server_s[log.ok]
    return dict(zip(log.stages, map(float, seconds.mean(axis=0)), strict=True)) if np.isfinite(seconds).all() else {}


def _computed(log: RequestLog, server: ServerCounters | None) -> float | None:
    """Computing time as the model reports it, else Triton's if it is meaningful."""
    if reported := _reported_seconds(log):
        return reported["prefill"] + reported["decode"]
    if server is None or not server.succeeded:
        return None
    if server.prefill_s is not None and server.decode_s is not None:
        return (server.prefill_s + server.decode_s) / server.succeeded
    if not _answered_once(log):
        return None
    return (server.compute_input_s + server.compute_infer_s + server.compute_output_s) / server.succeeded


def _answered_once(log: RequestLog) -> bool:
    """A streaming model is decoupled: it takes each request in a call of its own and computes later, so Triton's batches and compute times are
    meaningless."""
    return bool((log.load.output_tokens == 1).all())


@dataclass(frozen=True)
class ServerCounters:
    """Totals since the server started; a model that is loaded again begins at zero.

    succeeded, failed   requests that were answered, and that ended with an error
    queued_s            seconds that the succeeded ones waited before a model instance took them
    compute_input_s, compute_infer_s, compute_output_s    seconds of copying in, computing and copying out, summed over requests
    executions, inferences   calls of the model and what was computed in them: inferences / executions is the mean batch size
    cache_hits, cache_misses  tokens of prompts that were found in the prefix cache, and that were not; None: the server does not say
    gpu_memory_bytes    memory in use on all GPUs at that moment, which is no total; None: the server sees no GPU
    prefill_s, decode_s   seconds of both over the succeeded requests, by the engine's own metrics page; None: it has none
    drafted, accepted     tokens that speculative decoding proposed, and those accepted; None: the server does not say

    A decoupled model answers its calls at once and computes afterwards: its compute times say little, and its batch size nothing.
    """

    succeeded: int
    failed: int = 0
    queued_s: float = 0.0
    compute_input_s: float = 0.0
    compute_infer_s: float = 0.0
    compute_output_s: float = 0.0
    executions: int = 0
    inferences: int = 0
    cache_hits: int | None = None
    cache_misses: int | None = None
    gpu_memory_bytes: int | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    drafted: int | None = None
    accepted: int | None = None

    def __add__(self, other: ServerCounters) -> ServerCounters:
        """Totals of two servers. A counter that one server does not report has counted nothing there."""
        return self._by_field(other, lambda one, two: None if one is None and two is None else (one or 0) + (two or 0))

    def __sub__(self, earlier: ServerCounters) -> ServerCounters:
        """Difference to `earlier` of the same incarnation; a counter appears with its first event. GPU memory stays the later one."""
        gained = self._by_field(earlier, lambda later, before: None if later is None else later - (before or 0))
        return replace(gained, gpu_memory_bytes=self.gpu_memory_bytes)

    def _by_field(self, other: ServerCounters, combine: Callable[[Any, Any], Any]) -> ServerCounters:
        return ServerCounters(**{field.name: combine(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)})

    @property
    def batch_size(self) -> float | None:
        """Mean inferences a call of the model; None if there was no call."""
        return self.inferences / self.executions if self.executions else None

    @property
    def cache_hit_ratio(self) -> float | None:
        """Share of looked-up prompt tokens that the prefix cache had; None if nothing was looked up or the server does not say."""
        if self.cache_hits is None or self.cache_misses is None or self.cache_hits + self.cache_misses == 0:
            return None
        return self.cache_hits / (self.cache_hits + self.cache_misses)


def _draft_rows(phase: LoadPhase, server: ServerCounters | None) -> list[MetricRow]:
    if server is None or not server.drafted or server.accepted is None:
        return []
    return [metric_row("draft_acceptance_ratio", server.accepted / server.drafted, server.drafted, phase=phase)]


def energy_rows(log: RequestLog, gpus: GpuSamples) -> list[MetricRow]:
    """`gpu_power` (W, all GPUs, the phase's mean) and `energy_per_output_token` (J): the phase's energy, idle time and failed requests included,
    over every token of finished requests. None without readable GPUs; no second row without tokens."""
    joules, watts = gpus.window.joules, gpus.window.watts
    if joules is None or watts is None:
        return []
    phase, tokens = log.load.name, log.delivered_tokens
    rows = [metric_row("gpu_power", watts, gpus.samples, phase=phase, statistic="mean")]
    return [*rows, metric_row("energy_per_output_token", joules / tokens, tokens, phase=phase)] if tokens else rows
