"""Where a request's time went: before it was sent, in the server by its own account, and on the way back.

Seconds of the finished requests. A stage that a server does not have, or does not tell of, is absent: absent is never zero.

    dispatch         from the scheduled time until it was sent: the client's own
    tokenization, queue, prefill, decode, post_processing   as the model tells them; the queue holds Triton's own too, since Triton has a
                     request before the model does
    embedding, search, reranking, orchestration   of a retrieval pipeline: see models/retrieval/model.py
    delivery         what is left of the time from sending to the last token: the network, gRPC on both sides, the client's reading
"""

from __future__ import annotations

import numpy as np

from plumbline.harness.inference.requestlog import RETRIEVAL, RequestLog
from plumbline.harness.inference.server_view import ServerView
from plumbline.results import MetricRow, Stage, row


def stage_rows(log: RequestLog, server: ServerView | None) -> list[MetricRow]:
    """Mean stage times of one phase, and what the server's counters say of batches and caches. `server`: what they gained in the phase.

    Nothing if nothing finished; no queue time if the server's counters are unknown: its own queue may have been any length.
    """
    phase, n = log.load.name, log.finished
    if not n:
        return []
    seconds = _seconds(log, server)
    rows = [row("queue_time", seconds.pop("queue", None), n, phase=phase), row("compute_time", _computed(log, server), n, phase=phase)]
    rows += [row(f"{stage}_time", mean, n, phase=phase) for stage, mean in seconds.items()]
    if all(stage in seconds for stage in RETRIEVAL):
        rows.append(row("retrieval_time", sum(seconds[stage] for stage in RETRIEVAL), n, phase=phase))
    if server and server.batch_size is not None and _answered_once(log):
        rows.append(row("batch_size", server.batch_size, server.executions, phase=phase))
    if server and server.cache_hit_ratio is not None:
        rows.append(row("cache_hit_ratio", server.cache_hit_ratio, (server.cache_hits or 0) + (server.cache_misses or 0), phase=phase))
    return rows


def stages_of(log: RequestLog, server: ServerView | None) -> list[Stage]:
    """Total time in each stage of one phase, over its finished requests; none if nothing finished."""
    n = log.finished
    if not n:
        return []
    spent = {"dispatch": float((log.dispatched - log.scheduled)[log.ok].mean()), **_seconds(log, server)}
    return [Stage(phase=log.load.name, stage=name, total_s=max(0.0, mean * n), n=n) for name, mean in spent.items()]


def _seconds(log: RequestLog, server: ServerView | None) -> dict[str, float]:
    """Mean seconds of the finished requests (at least one) in each stage that exists, in the order in which they go through them."""
    told = _told(log)
    found = {stage: mean for stage, mean in told.items() if mean > 0 and stage != "queue"}
    if server is None or not server.succeeded:
        return found
    queue = server.queued_s / server.succeeded + told.get("queue", 0.0)
    ordered = {stage: queue if stage == "queue" else found[stage] for stage in log.stages if stage in found or stage == "queue"}
    at_work = sum(found.values()) if told else _computed(log, server)
    if at_work is None:
        return ordered
    seen = float((log.last_token - log.dispatched)[log.ok].mean())
    return {**ordered, "delivery": seen - queue - at_work}


def _told(log: RequestLog) -> dict[str, float]:
    """The model's own account, mean seconds by stage; empty where a model gives none."""
    seconds = log.server_s[log.ok]
    return dict(zip(log.stages, map(float, seconds.mean(axis=0)), strict=True)) if np.isfinite(seconds).all() else {}


def _computed(log: RequestLog, server: ServerView | None) -> float | None:
    """Mean seconds in which a request was computed: by the model's own account, else by Triton's if that can know it."""
    if told := _told(log):
        return told["prefill"] + told["decode"]
    if server is None or not server.succeeded or not _answered_once(log):
        return None
    return (server.compute_input_s + server.compute_infer_s + server.compute_output_s) / server.succeeded


def _answered_once(log: RequestLog) -> bool:
    """Whether each request has one answer. A model that streams is decoupled: it takes each request in a call of its own and computes it
    later, so Triton's batches and compute times say nothing of it."""
    return bool((log.load.output_tokens == 1).all())
