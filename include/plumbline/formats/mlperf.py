"""`mlperf_log_detail.txt` of MLPerf's load generator: a line of JSON for each key."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json

from plumbline.formats.reading.fields import Fields, UnreadableFile, text_lines
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.records import day_of
from plumbline.formats.reading.run import BenchmarkFile, Load, Run, gap, latency_rows, outcome, rate_rows
from plumbline.formats.reading.tool_file import OtherText, TextFile
from plumbline.formats.registry import register
from plumbline.metrics.rows import MetricRow, Reason, metric_row

MARK = ":::MLLOG "

_PERCENTILES = {"p50": "50.00", "p90": "90.00", "p95": "95.00", "p99": "99.00"}
_LAST = "result_99.90_percentile_latency_ns"


@register
class MLPerfLoadgen(TextFile):
    name = "mlperf"
    order = 90
    file = "mlperf_log_detail.txt of MLPerf's load generator"
    mark = r'^:::MLLOG .*"key": "loadgen_'
    others = (
        OtherText("mlperf_log_summary.txt, beside which the load generator writes mlperf_log_detail.txt", r"^MLPerf Results Summary"),
        OtherText("a detail log of a load generator before 1.0, which has no MLLOG lines", r'^"pid": \d+, "tid": \d+, "ts": \d+ns : '),
        OtherText(
            "a log of MLPerf Training; `plumbline archive import-mlperf` takes the published runs as CSV",
            r'^(\d+: )?:::MLLOG .*"key": "(submission_benchmark|cache_clear|init_start)"',
        ),
    )

    def read(self, raw: bytes, file: str) -> BenchmarkFile:
        """Server latencies count from the scheduled arrival. Results of an accuracy run are refused: they have no figures of performance."""
        whole = Fields(file, _keys(text_lines(raw, file), file))
        version = whole.text("loadgen_version", "a key of the load generator, which logs of MLPerf Training do not have").split(" @ ")[0]
        mode = whole.text("effective_test_mode", "PerformanceOnly")
        if mode != "PerformanceOnly":
            raise whole.error("effective_test_mode", f'is "{mode}"', "PerformanceOnly")
        scenario = whole.text("effective_scenario")
        if scenario not in _SCENARIOS:
            raise whole.error("effective_scenario", f'is "{scenario}"', f"one of {', '.join(_SCENARIOS)}")
        run = _SCENARIOS[scenario](whole, tuple(_invalid(whole)))
        # The last figure that every scenario and version writes; token figures and num_errors follow in newer ones.
        whole.number("result_completed_tokens_per_second" if _streams(whole) and scenario != "Offline" else _LAST, "ns")
        return BenchmarkFile(self.name, version, day_of(whole, "test_datetime"), (finished(run),))


def _keys(lines: list[str], file: str) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        if not line.startswith(MARK):
            raise UnreadableFile(f"{file}: line {number} does not begin with {MARK.strip()}; expected lines of {MLPerfLoadgen.file}")
        try:
            entry = from_json(line[len(MARK) :])
            keys[entry["key"]] = entry["value"]
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableFile(f"{file}: line {number} is damaged ({error}); expected one JSON object with key and value") from error
    return keys


def _server(whole: Fields, invalid: tuple[Reason, ...]) -> Run:
    requests = whole.whole("result_query_count")
    rows = [*_latencies(whole, "request_scheduled_latency", requests), *_tokens(whole, requests)]
    rows += rate_rows(whole, "request_throughput", "result_completed_samples_per_sec", "samples/s", requests)
    load = Load("open", rate=whole.number("effective_target_qps", "requests/s"), arrivals="poisson")
    ended = _errors(whole, requests)
    return Run(load, (*rows, *ended), requests, invalid=invalid, scheduled=True, first_token_expected=_streams(whole))


def _single_stream(whole: Fields, invalid: tuple[Reason, ...]) -> Run:
    requests = whole.whole("result_query_count")
    rows = [*_latencies(whole, "request_latency", requests), *_tokens(whole, requests)]
    rows += rate_rows(whole, "request_throughput", "result_qps_with_loadgen_overhead", "queries/s", requests)
    ended = _errors(whole, requests)
    return Run(Load("closed", concurrency=1), (*rows, *ended), requests, invalid=invalid, first_token_expected=_streams(whole))


def _offline(whole: Fields, invalid: tuple[Reason, ...]) -> Run:
    requests = whole.whole("effective_samples_per_query", least=1) * whole.whole("result_query_count")
    rows = [*rate_rows(whole, "request_throughput", "result_samples_per_second", "samples/s", requests)]
    rows += rate_rows(whole, "output_token_throughput", "result_tokens_per_second", "tokens/s", requests)
    left_out = gap("no_latencies", "the Offline scenario's latencies are positions in the queue: they are not imported")
    ended = _errors(whole, requests)
    return Run(Load("at_once"), (*rows, *ended), requests, gaps=(left_out,), invalid=invalid, first_token_expected=False)


_SCENARIOS = {"Server": _server, "SingleStream": _single_stream, "Offline": _offline}


def _streams(whole: Fields) -> bool:
    return whole.has("result_first_token_mean_latency_ns")


def _tokens(whole: Fields, requests: int) -> list[MetricRow]:
    """Rows of a run with token latencies."""
    if not _streams(whole):
        return []
    first = {"mean": "result_first_token_mean_latency_ns", **_names("result_first_token_{}_percentile_latency_ns")}
    each = {"mean": "result_time_to_output_token_mean", **_names("result_time_per_output_token_{}_percentile_ns")}
    return [
        *latency_rows(whole, "time_to_first_token", first, "ns", requests),
        *latency_rows(whole, "time_per_output_token", each, "ns", requests),
        *rate_rows(whole, "output_token_throughput", "result_completed_tokens_per_second", "tokens/s", requests),
    ]


def _latencies(whole: Fields, metric: str, requests: int) -> list[MetricRow]:
    whole.number("result_99.00_percentile_latency_ns", "ns")
    names = {"mean": "result_mean_latency_ns", "min": "result_min_latency_ns", "max": "result_max_latency_ns"}
    return [*latency_rows(whole, metric, {**names, **_names("result_{}_percentile_latency_ns")}, "ns", requests)]


def _names(pattern: str) -> dict[str, str]:
    return {statistic: pattern.format(percent) for statistic, percent in _PERCENTILES.items()}


def _errors(whole: Fields, requests: int) -> list[MetricRow]:
    """Errors of the run, which MLPerf does not tie to requests. Versions before 5 do not write their number."""
    errors = whole.maybe_whole("num_errors")
    if not errors:
        return outcome(requests, errors, None, "num_errors")[0]
    return [metric_row("error_rate", None, requests, reason=f"{errors} errors of the run")]


def _invalid(whole: Fields) -> list[Reason]:
    validity = whole.text("result_validity", "VALID or INVALID")
    if validity not in ("VALID", "INVALID"):
        raise whole.error("result_validity", f'is "{validity}"', "VALID or INVALID")
    if validity == "VALID":
        return []
    failed = {
        "result_perf_constraints_met": "latency targets missed",
        "result_min_duration_met": "run shorter than the minimum duration",
        "result_min_queries_met": "fewer queries than the minimum",
    }
    causes = [text for key, text in failed.items() if whole.values.get(key) is False] or ["early stopping not satisfied"]
    return [Reason(code="rejected_by_tool", detail=f"the load generator's result is INVALID: {', '.join(causes)}")]
