"""KServe v2 besides inference: readiness, metadata, statistics, loading and unloading. Every call has a deadline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.harness.inference import scrape
from plumbline.harness.inference.server_view import ServerView

_CALL_S = 5.0
_POLL_S = 0.01


@contextmanager
def _service(address: str) -> Iterator[Any]:
    with grpc.insecure_channel(address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def ready(address: str, model: str, within_s: float) -> bool:
    """Whether the server and the model are ready, waiting for at most `within_s`."""
    deadline = time.monotonic() + within_s
    with _service(address) as service:
        while time.monotonic() < deadline:
            try:
                server = service.ServerReady(messages.ServerReadyRequest(), timeout=1.0, wait_for_ready=False)
                if server.ready and service.ModelReady(messages.ModelReadyRequest(name=model), timeout=1.0).ready:
                    return True
            except grpc.RpcError:
                return False
            time.sleep(_POLL_S)
    return False


def version(address: str) -> str:
    """The server's version, such as 2.51.0; raises grpc.RpcError."""
    with _service(address) as service:
        return str(service.ServerMetadata(messages.ServerMetadataRequest(), timeout=_CALL_S).version)


def statistics(address: str, model: str, metrics_address: str | None = None) -> ServerView:
    """The server's counters now; what only its metrics page says is None where `metrics_address` is not given or does not answer.

    Raises grpc.RpcError if the server itself does not.
    """
    with _service(address) as service:
        found = service.ModelStatistics(messages.ModelStatisticsRequest(name=model), timeout=_CALL_S).model_stats
    counters = [item.inference_stats for item in found]
    hits = misses = memory = None
    if metrics_address is not None:
        try:
            lines = scrape.samples(scrape.fetch(metrics_address))
        except scrape.Unavailable:
            lines = []
        hits, misses = scrape.total(lines, scrape.HITS, model), scrape.total(lines, scrape.MISSES, model)
        memory = scrape.total(lines, "nv_gpu_memory_used_bytes")
    return ServerView(
        succeeded=sum(c.success.count for c in counters),
        failed=sum(c.fail.count for c in counters),
        queued_s=sum(c.queue.ns for c in counters) / 1e9,
        compute_input_s=sum(c.compute_input.ns for c in counters) / 1e9,
        compute_infer_s=sum(c.compute_infer.ns for c in counters) / 1e9,
        compute_output_s=sum(c.compute_output.ns for c in counters) / 1e9,
        executions=sum(item.execution_count for item in found),
        inferences=sum(item.inference_count for item in found),
        cache_hits=None if hits is None else int(hits),
        cache_misses=None if misses is None else int(misses),
        gpu_memory_bytes=None if memory is None else int(memory),
    )


def load(address: str, model: str, within_s: float) -> None:
    """Load a model and wait until it is; raises grpc.RpcError, such as INVALID_ARGUMENT with the reason why it does not load."""
    with _service(address) as service:
        service.RepositoryModelLoad(messages.RepositoryModelLoadRequest(model_name=model), timeout=within_s)


def unload(address: str, model: str, within_s: float) -> None:
    """Unload a model and wait until it is gone: the server says yes at once and lets running requests end first.

    Raises grpc.RpcError, and TimeoutError if it is not gone after `within_s`.
    """
    deadline = time.monotonic() + within_s
    with _service(address) as service:
        service.RepositoryModelUnload(messages.RepositoryModelUnloadRequest(model_name=model), timeout=within_s)
        while time.monotonic() < deadline:
            index = service.RepositoryIndex(messages.RepositoryIndexRequest(), timeout=_CALL_S).models
            if all(entry.state == "UNAVAILABLE" for entry in index if entry.name == model):
                return
            time.sleep(_POLL_S)
    raise TimeoutError(f"the model {model} was not unloaded within {within_s:g}s")
