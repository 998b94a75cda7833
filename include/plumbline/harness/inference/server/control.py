"""Triton beside inference: control calls by tritonclient, with deadlines, and the Prometheus metrics page."""

from __future__ import annotations

import time

from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from plumbline.harness.inference.analysis.metrics import ServerCounters
from plumbline.harness.inference.server.metrics_page import (
    ACCEPTED,
    CACHE_HITS,
    CACHE_MISSES,
    DRAFTED,
    MetricsUnavailable,
    fetch_metrics,
    parse_metrics,
    sum_metric,
)

_CALL_S, _READY_S = 5.0, 1.0
_POLL_S = 0.01


def is_ready(address: str, model: str, within_s: float) -> bool:
    """Whether the server and the model are ready, waiting for at most `within_s`."""
    deadline = time.monotonic() + within_s
    with InferenceServerClient(address) as server:
        while time.monotonic() < deadline:
            try:
                if server.is_server_ready(client_timeout=_READY_S) and server.is_model_ready(model, client_timeout=_READY_S):
                    return True
            except InferenceServerException:
                return False
            time.sleep(_POLL_S)
    return False


def server_version(address: str) -> str:
    """The server's version, such as 2.51.0; raises InferenceServerException."""
    with InferenceServerClient(address) as server:
        return str(server.get_server_metadata(client_timeout=_CALL_S).version)


def server_counters(address: str, model: str, metrics_address: str | None = None) -> ServerCounters:
    """The server's counters now; what only its metrics page says is None where `metrics_address` is not given or does not answer.

    Raises InferenceServerException if the server itself does not.
    """
    with InferenceServerClient(address) as server:
        statistics = server.get_inference_statistics(model, client_timeout=_CALL_S).model_stats
    counters = [item.inference_stats for item in statistics]
    hits = misses = memory = drafted = accepted = None
    if metrics_address is not None:
        try:
            lines = parse_metrics(fetch_metrics(metrics_address))
        except MetricsUnavailable:
            lines = []
        hits, misses = sum_metric(lines, CACHE_HITS, model), sum_metric(lines, CACHE_MISSES, model)
        drafted, accepted = sum_metric(lines, DRAFTED, model), sum_metric(lines, ACCEPTED, model)
        memory = sum_metric(lines, "nv_gpu_memory_used_bytes")
    return ServerCounters(
        succeeded=sum(c.success.count for c in counters),
        failed=sum(c.fail.count for c in counters),
        queued_s=sum(c.queue.ns for c in counters) / 1e9,
        compute_input_s=sum(c.compute_input.ns for c in counters) / 1e9,
        compute_infer_s=sum(c.compute_infer.ns for c in counters) / 1e9,
        compute_output_s=sum(c.compute_output.ns for c in counters) / 1e9,
        executions=sum(item.execution_count for item in statistics),
        inferences=sum(item.inference_count for item in statistics),
        cache_hits=None if hits is None else int(hits),
        cache_misses=None if misses is None else int(misses),
        gpu_memory_bytes=None if memory is None else int(memory),
        drafted=None if drafted is None else int(drafted),
        accepted=None if accepted is None else int(accepted),
    )


def load_model(address: str, model: str, within_s: float) -> None:
    """Load a model and wait; raises InferenceServerException, such as INVALID_ARGUMENT with the reason."""
    with InferenceServerClient(address) as server:
        server.load_model(model, client_timeout=within_s)


def unload_model(address: str, model: str, within_s: float) -> None:
    """Unload a model and wait: the server confirms at once and lets running requests end first.

    Raises InferenceServerException, and TimeoutError after `within_s`."""
    deadline = time.monotonic() + within_s
    with InferenceServerClient(address) as server:
        server.unload_model(model, client_timeout=within_s)
        while time.monotonic() < deadline:
            index = server.get_model_repository_index(client_timeout=_CALL_S).models
            if all(entry.state == "UNAVAILABLE" for entry in index if entry.name == model):
                return
            time.sleep(_POLL_S)
    raise TimeoutError(f"the model {model} was not unloaded within {within_s:g}s")
