"""LLMPerf's `*_summary.json` of `token_benchmark_ray.py`, results version 2023-08-31: one flat object."""

from __future__ import annotations

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.run import BenchmarkFile, Load, Run, gap, latency_rows, outcome, rate_rows
from plumbline.formats.reading.tool_file import JsonFile, OtherJson
from plumbline.formats.registry import register
from plumbline.metrics.rows import MetricRow, Scalar

_LATENCIES = {"time_to_first_token": "results_ttft_s", "request_latency": "results_end_to_end_latency_s"}
_STATISTICS = {**{name: f"quantiles_{name}" for name in ("p50", "p90", "p95", "p99")}, "mean": "mean", "stddev": "stddev"}
_LIMITS_S = (90.0, 600.0)
"""LLMPerf's default time limit and that of its leaderboard, which the file does not name. It drops the requests that are open at the limit."""
_GAP = gap(
    "itl_includes_first_token",
    "the file's inter_token_latency_s is end-to-end latency over tokens, the first one included: it is not imported",
)


@register
class LLMPerf(JsonFile):
    name = "llmperf"
    order = 80
    file = "the *_summary.json of LLMPerf's token_benchmark_ray.py"
    marks = ("num_concurrent_requests", "results_num_requests_started")
    others = (
        OtherJson("LLMPerf's *_individual_responses.json, a row a request", ("ttft_s", "end_to_end_latency_s")),
        OtherJson("llmperf-bench's own summary by concurrency", ("1.first-time-to-token_mean_in_ms",)),
    )

    def read(self, whole: Fields) -> BenchmarkFile:
        """LLMPerf keeps a fixed number of requests open, so its load is a closed loop. The file names the version of its layout, not the tool's."""
        started, failed = whole.whole("results_num_requests_started"), whole.whole("results_number_errors")
        requests = whole.whole("results_num_completed_requests")
        load = Load("closed", concurrency=whole.whole("num_concurrent_requests", least=1))
        rows: list[MetricRow] = []
        for metric, prefix in _LATENCIES.items():
            rows += latency_rows(whole, metric, {statistic: f"{prefix}_{name}" for statistic, name in _STATISTICS.items()}, "s", requests)
        rows += rate_rows(whole, "request_throughput", "results_num_completed_requests_per_min", "requests/min", requests, 60)
        rows += rate_rows(whole, "output_token_throughput", "results_mean_output_throughput_token_per_s", "tokens/s", requests)
        open_at_end = load.concurrency or 0 if not failed and _cut_off(whole, requests) else 0
        counts = "results_number_errors over results_num_requests_started"
        ended, unaccounted = outcome(requests, failed, started + open_at_end, counts)
        lengths = {name: whole.maybe_number(f"results_number_{name}_mean", "tokens") for name in ("input_tokens", "output_tokens")}
        asked: dict[str, Scalar] = {name: mean for name, mean in lengths.items() if mean is not None}
        run = Run(load, (*rows, *ended), requests, gaps=(_GAP, *unaccounted), asked=asked)
        return BenchmarkFile(self.name, f"layout {whole.text('version')}", whole.day("timestamp"), (finished(run),))


def _cut_off(whole: Fields, completed: int) -> bool:
    """Whether the run lasted as long as one of LLMPerf's time limits, to 2 %."""
    rate = whole.maybe_number("results_num_completed_requests_per_min", "requests/min")
    return bool(rate) and any(limit <= 60 * completed / (rate or 1.0) <= 1.02 * limit for limit in _LIMITS_S)
