"""GuideLLM's JSON report, of 0.2 and later: a list of benchmarks, one for each load."""

from __future__ import annotations

from dataclasses import replace

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.run import BenchmarkFile, Load, Run, gap, latency_rows, outcome, rate_rows
from plumbline.formats.reading.tool_file import JsonFile, OtherJson, OtherText
from plumbline.formats.registry import register
from plumbline.metrics.rows import MetricRow, Scalar

_STATISTICS = {
    "mean": "mean",
    "p50": "median",
    "min": "min",
    "max": "max",
    "stddev": "std_dev",
    **{name: f"percentiles.{name}" for name in ("p90", "p95", "p99")},
}
_LATENCIES = {
    "request_latency": ("request_latency", "s"),
    "request_scheduled_latency": ("request_scheduled_latency", "s"),
    "time_to_first_token": ("time_to_first_token_ms", "ms"),
    "time_per_output_token": ("inter_token_latency_ms", "ms"),
}
"""The catalogue's metric → GuideLLM's. Its inter-token latency is (last token − first) / (tokens − 1) of a request, which is the field's TPOT;
its own time per output token includes the first token."""
_RATES = {
    "request_throughput": ("requests_per_second", "requests/s"),
    "output_token_throughput": ("output_tokens_per_second", "tokens/s"),
}
_GAPS = (
    gap(
        "tpot_as_itl",
        "the file's inter_token_latency_ms is each request's mean, weighted by its tokens: it is imported as time_per_output_token",
        "time_per_output_token",
    ),
    gap("tpot_includes_first_token", "the file's time_per_output_token_ms includes the time to the first token: it is not imported"),
)


@register
class GuideLLM(JsonFile):
    name = "guidellm"
    order = 60
    file = "the JSON report of `guidellm run`"
    marks = ("benchmarks", "benchmarks.0.metrics.requests_per_second")
    others = (
        OtherJson("GuideLLM's layout before 0.2", ("benchmarks.0.mode",)),
        OtherText("a YAML report of GuideLLM, which also writes JSON", r"(?s)^(args|benchmarks|metadata):.*generative_benchmark"),
    )

    def read(self, whole: Fields) -> BenchmarkFile:
        """Each benchmark of the report is a run; latencies are those of successful requests."""
        benchmarks = whole.parts("benchmarks")
        metadata = whole.maybe_part("metadata")
        layout = "0.2 to 0.3" if benchmarks[0].has("run_stats") else "0.4"
        version = metadata.text("guidellm_version") if metadata is not None else f"layout {layout}"
        return BenchmarkFile(self.name, version, benchmarks[0].day("start_time"), tuple(map(_run, benchmarks)))


def _run(benchmark: Fields) -> Run:
    metrics = benchmark.part("metrics")
    totals = metrics.maybe_part("request_totals") or benchmark.part("request_totals")
    requests, failed, left = totals.whole("successful"), totals.whole("errored"), totals.whole("incomplete")
    rows: list[MetricRow] = []
    for metric, (name, unit) in _LATENCIES.items():
        statistics = metrics.maybe_part(name, "successful")
        # GuideLLM writes zeros for what it did not observe.
        if statistics is not None and statistics.whole("count") and statistics.stated("mean", unit) is not None:
            percentiles = {f"percentiles.{name}": value for name, value in statistics.part("percentiles").values.items()}
            flat = replace(statistics, values={**statistics.values, **percentiles})
            rows += latency_rows(flat, metric, _STATISTICS, unit, requests)
    for metric, (name, unit) in _RATES.items():
        rows += rate_rows(metrics.maybe_part(name, "successful"), metric, "mean", unit, requests)
    ended, unaccounted = outcome(requests, failed, (totals.maybe_whole("total") or 0) - left, f"{totals.path}.errored of ended requests")
    cut = [gap("unfinished_requests", f"{left} requests were cut off at the end and are in no figure")] if left else []
    in_flight = metrics.maybe_part("request_concurrency", "successful")
    load, asked = _load(benchmark, requests + failed + left), _lengths(metrics)
    run = Run(load, (*rows, *ended), requests, gaps=(*_GAPS, *cut, *unaccounted), asked=asked)
    return finished(run, in_flight=in_flight.maybe_number("mean") if in_flight is not None else None)


def _load(benchmark: Fields, requests: int) -> Load:
    # Until 0.3 the strategy is in args, since then in config.
    strategy = (benchmark.maybe_part("config") or benchmark.part("args")).part("strategy")
    kind = strategy.text("type_", "synchronous, concurrent, throughput, constant or poisson")
    ramp = next((s for name in ("rampup_duration", "startup_duration") if (s := strategy.maybe_number(name, "s"))), None)
    varies = f"a ramp over {ramp:.12g} s at the start" if ramp else None
    if kind == "synchronous":
        return Load("closed", concurrency=1, varies=varies)
    if kind == "concurrent":
        return Load("closed", concurrency=strategy.whole("streams", least=1), varies=varies)
    limit = strategy.maybe_whole("max_concurrency", least=1)
    if kind in ("constant", "poisson"):
        limit = limit if limit is not None and limit < requests else None
        return Load("open", limit, strategy.number("rate", "requests/s"), kind, varies=varies)
    if kind != "throughput":
        return Load("unknown", varies=varies)
    return Load("closed", limit, varies=varies) if limit is not None and limit < requests else Load("at_once", varies=varies)


def _lengths(metrics: Fields) -> dict[str, Scalar]:
    names = {"input_tokens": "prompt_token_count", "output_tokens": "output_token_count"}
    parts = {name: metrics.maybe_part(field, "successful") for name, field in names.items()}
    return {name: mean for name, part in parts.items() if part is not None and (mean := part.maybe_number("mean", "tokens"))}
