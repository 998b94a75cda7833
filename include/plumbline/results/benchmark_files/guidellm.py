"""GuideLLM's JSON report (`--output kind=json`), version 0.8: a list of benchmarks, one for each load."""

from __future__ import annotations

from plumbline.results.benchmark_files.fields import Fields, json_fields
from plumbline.results.benchmark_files.run import BenchmarkFile, Load, Run, error_row, gap, latency_rows, rate_row
from plumbline.results.document import MetricRow, Scalar
from plumbline.results.published import Gap

FILE = "the JSON report of `guidellm run`"
MARKS = ("metadata.guidellm_version", "benchmarks")

_SUMMARY = {"mean": "mean", "p50": "median", "min": "min", "max": "max", "stddev": "std_dev"}
_PERCENTILES = {name: name for name in ("p90", "p95", "p99")}
_LATENCIES = {
    "request_latency": ("request_latency", "s"),
    "request_scheduled_latency": ("request_scheduled_latency", "s"),
    "time_to_first_token": ("time_to_first_token_ms", "ms"),
    "time_per_output_token": ("inter_token_latency_ms", "ms"),
}
"""The catalogue's metric → GuideLLM's. Its inter-token latency is (last token − first) / (tokens − 1) of a request, which is the field's TPOT;
its own time per output token includes the first token."""
_GAPS = (
    gap(
        "tpot_as_itl",
        "the file's inter_token_latency_ms is each request's mean, weighted by its tokens: it is imported as time_per_output_token",
        "time_per_output_token",
    ),
    gap("tpot_includes_first_token", "the file's time_per_output_token_ms includes the time to the first token: it is not imported"),
)


def read(raw: bytes, file: str) -> BenchmarkFile:
    """Each benchmark of the report is a run; latencies are those of successful requests."""
    whole = json_fields(raw, file)
    version = whole.part("metadata").text("guidellm_version")
    benchmarks = whole.parts("benchmarks")
    return BenchmarkFile("guidellm", version, benchmarks[0].day("start_time"), tuple(map(_run, benchmarks)))


def _run(benchmark: Fields) -> Run:
    metrics = benchmark.part("metrics")
    totals = metrics.part("request_totals")
    requests, failed = totals.whole("successful", least=1), totals.whole("errored")
    rows: list[MetricRow] = []
    for metric, (name, unit) in _LATENCIES.items():
        statistics = metrics.part(name, "successful") if metric == "request_latency" else metrics.maybe_part(name, "successful")
        # GuideLLM writes zeros for what it did not observe.
        if statistics is not None and (metric == "request_latency" or statistics.whole("count") > 0):
            statistics.number("mean", unit)
            rows += latency_rows(statistics, metric, _SUMMARY, unit, requests)
            rows += latency_rows(statistics.part("percentiles"), metric, _PERCENTILES, unit, requests)
    rows.append(rate_row(metrics.part("requests_per_second", "successful"), "request_throughput", "mean", "requests/s", requests))
    rows.append(rate_row(metrics.part("output_tokens_per_second", "successful"), "output_token_throughput", "mean", "tokens/s", requests))
    rows.append(error_row(failed, requests + failed, f"{totals.path}.errored over successful and errored"))
    run = Run(_load(benchmark), tuple(rows), requests, gaps=(*_GAPS, *_unfinished(totals)), asked=_lengths(metrics), scheduled=False)
    return run.with_common_gaps()


def _load(benchmark: Fields) -> Load:
    strategy = benchmark.part("config", "strategy")
    kind = strategy.text("type_", "synchronous, concurrent, throughput, constant or poisson")
    if kind == "synchronous":
        return Load("closed", concurrency=1)
    if kind == "concurrent":
        return Load("closed", concurrency=strategy.whole("streams", least=1))
    if kind in ("constant", "poisson"):
        return Load("open", rate=strategy.number("rate", "requests/s"), arrivals=kind)
    return Load("at_once") if kind == "throughput" else Load("unknown")


def _lengths(metrics: Fields) -> dict[str, Scalar]:
    names = {"input_tokens": "prompt_token_count", "output_tokens": "output_token_count"}
    parts = {name: metrics.maybe_part(field, "successful") for name, field in names.items()}
    return {name: part.number("mean", "tokens") for name, part in parts.items() if part is not None}


def _unfinished(totals: Fields) -> list[Gap]:
    left = totals.whole("incomplete")
    return [gap("unfinished_requests", f"{left} requests were cut off at the end and are in no figure")] if left else []
