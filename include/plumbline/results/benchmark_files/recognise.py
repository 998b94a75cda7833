"""Files that no reader takes, named for what they are, with the file that is taken instead where the tool writes one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plumbline.results.benchmark_files.fields import Fields

_HEAD = 64 * 2**10
"""Bytes that identify the kind of a text file."""


@dataclass(frozen=True)
class _Known:
    """A kind of JSON file: fields that it has and fields that it lacks, as dotted paths."""

    what: str
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()


_JSON = (
    _Known(
        "InferenceX's processed result: seconds, without the raw file's fields in ms", ("median_ttft", "request_rate"), ("mean_ttft_ms",)
    ),
    _Known("InferenceX's aggregated result of a configuration", ("tput_per_gpu",)),
    _Known("a result of `vllm bench latency`: batches without requests", ("avg_latency", "latencies", "percentiles")),
    _Known("a result of `vllm bench throughput`: offline, without latencies", ("elapsed_time", "requests_per_second", "tokens_per_second")),
    _Known("vLLM's records for PyTorch's dashboard", ("benchmark", "metric.benchmark_values")),
    _Known("SGLang's offline throughput result: without latencies", ("total_latency", "successful_requests", "total_input_tokens")),
    _Known("SGLang's result of `bench_one_batch`: batches without requests", ("batch_size", "prefill_latency")),
    _Known("inference-perf's report of Prometheus metrics, which the server counted", ("load_summary", "successes.rate")),
    _Known("inference-perf's report of each request", ("start_time", "end_time", "request", "response")),
    _Known("LLMPerf's *_individual_responses.json, a row a request", ("ttft_s", "end_to_end_latency_s")),
    _Known("llmperf-bench's own summary by concurrency", ("1.first-time-to-token_mean_in_ms",)),
    _Known("AIPerf's profile_export.jsonl, a row a request", ("metadata.request_start_ns", "metrics")),
    _Known("AIPerf's aggregate of several runs", ("metadata.aggregation_type",)),
    _Known("AIPerf's time slices of a run", ("timeslices",)),
    _Known("perf_analyzer's export of each request", ("experiments", "service_kind")),
    _Known("GuideLLM's layout before 0.2", ("benchmarks.0.mode",)),
    _Known("llm-d's Benchmark Report", ("version", "scenario", "results")),
    _Known("llm-d's Benchmark Report", ("version", "scenario", "metrics")),
    _Known("a report of TensorRT-LLM's trtllm-bench", ("engine", "performance", "world_info")),
)
_TEXT = (
    (r"^MLPerf Results Summary", "mlperf_log_summary.txt, beside which the load generator writes mlperf_log_detail.txt"),
    (r'^"pid": \d+, "tid": \d+, "ts": \d+ns : ', "a detail log of a load generator before 1.0, which has no MLLOG lines"),
    (
        r'^(\d+: )?:::MLLOG .*"key": "(submission_benchmark|cache_clear|init_start)"',
        "a log of MLPerf Training; `plumbline archive import-mlperf` takes the published runs as CSV",
    ),
    (r"^prompt_tokens,generation_tokens,ttft,", "LMBench's CSV, a row a request"),
    (r"^Successful requests,Benchmark duration \(s\),", "a table made from vLLM's console output, not the file that vLLM saves"),
    (r"^Metric,avg,min,max,", "the CSV of AIPerf or GenAI-Perf, beside which the tool writes a JSON file"),
    (r"(?s)^(args|benchmarks|metadata):.*generative_benchmark", "a YAML report of GuideLLM, which also writes JSON"),
    (r"^Model,.*Throughput \(infer/sec\)", "a table of Triton's Model Analyzer"),
    (r"(?s)^version: *['\"]?0\.\d.*^(scenario|run):", "llm-d's Benchmark Report"),
    (r"^=+ Serving Benchmark Result =+", "console output of a serving benchmark, not the file that it saves"),
)
_OWN = ((r"Inferences/Second,", "perf_analyzer"), (r'^:::MLLOG .*"key": "loadgen_', "mlperf"))


def json_kind(document: Fields) -> str | None:
    """The kind of a JSON file that no reader takes."""
    return next(
        (k.what for k in _JSON if all(has_field(document, f) for f in k.has) and not any(has_field(document, f) for f in k.lacks)), None
    )


def text_kind(raw: bytes) -> str | None:
    """The kind of a text file that no reader takes, or the tool whose reader takes it."""
    head = re.sub(r"^(#.*|=+|)\n", "", raw[:_HEAD].decode("utf-8", errors="replace").lstrip("\ufeff"), flags=re.MULTILINE)
    known = next((what for pattern, what in _TEXT if re.search(pattern, head, flags=re.MULTILINE)), None)
    return known or next((f"one of {tool}" for pattern, tool in _OWN if re.search(pattern, head, flags=re.MULTILINE)), None)


def has_field(document: Fields, path: str) -> bool:
    """Whether there is something at a dotted path; a number is a place in a list."""
    value: Any = document.values
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, Mapping) and name in value:
            value = value[name]
        else:
            return False
    return True
