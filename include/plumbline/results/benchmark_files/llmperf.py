"""LLMPerf's `*_summary.json` of `token_benchmark_ray.py`, results version 2023-08-31: one flat object."""

from __future__ import annotations

from plumbline.results.benchmark_files.fields import json_fields
from plumbline.results.benchmark_files.run import BenchmarkFile, Load, Run, error_row, gap, latency_rows, rate_row
from plumbline.results.document import MetricRow, Scalar

FILE = "the *_summary.json of LLMPerf's token_benchmark_ray.py"
MARKS = ("num_concurrent_requests", "results_ttft_s_quantiles_p50")

_LATENCIES = {"time_to_first_token": "results_ttft_s", "request_latency": "results_end_to_end_latency_s"}
_STATISTICS = {**{name: f"quantiles_{name}" for name in ("p50", "p90", "p95", "p99")}, "mean": "mean", "stddev": "stddev"}
_GAP = gap(
    "itl_includes_first_token",
    "the file's inter_token_latency_s is end-to-end latency over tokens, the first one included: it is not imported",
)


def read(raw: bytes, file: str) -> BenchmarkFile:
    """LLMPerf keeps a fixed number of requests open, so its load is a closed loop. The file names the version of its layout, not the tool's."""
    whole = json_fields(raw, file)
    started, failed = whole.whole("results_num_requests_started", least=1), whole.whole("results_number_errors")
    requests = whole.whole("results_num_completed_requests", least=1)
    rows: list[MetricRow] = []
    for metric, prefix in _LATENCIES.items():
        whole.number(f"{prefix}_mean", "s")
        rows += latency_rows(whole, metric, {statistic: f"{prefix}_{name}" for statistic, name in _STATISTICS.items()}, "s", requests)
    each_minute = rate_row(whole, "request_throughput", "results_num_completed_requests_per_min", "requests/min", requests)
    rows.append(each_minute.model_copy(update={"value": (each_minute.value or 0.0) / 60}))
    rows.append(rate_row(whole, "output_token_throughput", "results_mean_output_throughput_token_per_s", "tokens/s", requests))
    rows.append(error_row(failed, started, "results_number_errors over results_num_requests_started"))
    settings: dict[str, Scalar] = {
        "input_tokens": whole.number("results_number_input_tokens_mean", "tokens"),
        "output_tokens": whole.number("results_number_output_tokens_mean", "tokens"),
    }
    load = Load("closed", concurrency=whole.whole("num_concurrent_requests", least=1))
    run = Run(load, tuple(rows), requests, gaps=(_GAP,), asked=settings)
    return BenchmarkFile("llmperf", f"layout {whole.text('version')}", whole.day("timestamp"), (run.with_common_gaps(),))
