"""Counters of inference engines on their own Prometheus pages, by each engine's documented names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plumbline.harness.inference.analysis.metrics import ServerCounters
from plumbline.harness.inference.server.control import Sample, sum_metric

_VLLM: Mapping[str, Sequence[str]] = {
    "succeeded": ("vllm:request_success",),
    "queued_s": ("vllm:request_queue_time_seconds_sum",),
    "prefill_s": ("vllm:request_prefill_time_seconds_sum",),
    "decode_s": ("vllm:request_decode_time_seconds_sum",),
    "queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    "hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    "drafted": ("vllm:spec_decode_num_draft_tokens",),
    "accepted": ("vllm:spec_decode_num_accepted_tokens",),
}
_SGLANG: Mapping[str, Sequence[str]] = {
    "succeeded": ("sglang:num_requests",),
    "queued_s": ("sglang:queue_time_seconds_sum",),
    "queries": ("sglang:prompt_tokens",),
    "hits": ("sglang:cached_tokens",),
}
_ENGINES: Mapping[str, Mapping[str, Sequence[str]]] = {"vllm": _VLLM, "sglang": _SGLANG}


def engine_of(page: str) -> str | None:
    """The engine whose metrics a page has: vllm, sglang or llamacpp; None for an unknown one."""
    return next((name for name in ("vllm", "sglang", "llamacpp") if f"\n{name}:" in page), None)


def counters_of(samples: list[Sample]) -> ServerCounters | None:
    """Totals since the server's start; None without an engine's counter of requests."""
    for names in _ENGINES.values():
        found = {key: _total(samples, several) for key, several in names.items()}
        if found["succeeded"] is None:
            continue
        hits, queries = found.get("hits"), found.get("queries")
        return ServerCounters(
            succeeded=int(found["succeeded"]),
            failed=0,
            queued_s=found.get("queued_s") or 0.0,
            compute_input_s=0.0,
            compute_infer_s=0.0,
            compute_output_s=0.0,
            executions=0,
            inferences=0,
            cache_hits=None if hits is None or queries is None else int(hits),
            cache_misses=None if hits is None or queries is None else int(queries - hits),
            gpu_memory_bytes=None,
            prefill_s=found.get("prefill_s"),
            decode_s=found.get("decode_s"),
            drafted=_whole(found.get("drafted")),
            accepted=_whole(found.get("accepted")),
        )
    return None


def _total(samples: list[Sample], names: Sequence[str]) -> float | None:
    return next((total for name in names if (total := sum_metric(samples, name)) is not None), None)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
