"""inference-perf's `stage_N_lifecycle_metrics.json` and `summary_lifecycle_metrics.json`."""

from __future__ import annotations

from plumbline.results.benchmark_files.fields import Fields, json_fields
from plumbline.results.benchmark_files.run import BY_TOKENS, BenchmarkFile, Load, Run, error_row, gap, latency_rows, rate_row
from plumbline.results.document import MetricRow, Scalar
from plumbline.results.published import Gap

FILE = "stage_0_lifecycle_metrics.json of `inference-perf`"
MARKS = ("load_summary.count", "successes.latency")

_STATISTICS = {"mean": "mean", "p50": "median", "min": "min", "max": "max", **{name: name for name in ("p90", "p95", "p99")}}
_LATENCIES = ("request_latency", "time_to_first_token", "time_per_output_token", "inter_token_latency")


def read(raw: bytes, file: str) -> BenchmarkFile:
    """Its names are the field's, in seconds. The file has no version and no date; a summary over several stages has no rate."""
    whole = json_fields(raw, file)
    successes = whole.part("successes")
    requests, failed = successes.whole("count", least=1), whole.part("failures").whole("count")
    latency, throughput = successes.part("latency"), successes.part("throughput")
    latency.part("request_latency").number("mean", "s")
    rows: list[MetricRow] = []
    for metric in _LATENCIES:
        rows += latency_rows(latency.maybe_part(metric), metric, _STATISTICS, "s", requests)
    rows.append(rate_row(throughput, "request_throughput", "requests_per_sec", "requests/s", requests))
    rows.append(rate_row(throughput, "output_token_throughput", "output_tokens_per_sec", "tokens/s", requests))
    rows.append(error_row(failed, requests + failed, "failures.count over successes.count and failures.count"))
    run = Run(_load(whole.part("load_summary")), tuple(rows), requests, gaps=tuple(_gaps(whole)), asked=_lengths(successes))
    return BenchmarkFile("inference-perf", None, None, (run.with_common_gaps(),))


def _load(summary: Fields) -> Load:
    if summary.has("concurrency"):
        return Load("closed", concurrency=summary.whole("concurrency", least=1))
    rate = summary.maybe_number("requested_rate", "requests/s")
    return Load("unknown") if rate is None else Load("open", rate=rate)


def _lengths(successes: Fields) -> dict[str, Scalar]:
    names = {"input_tokens": "prompt_tokens", "output_tokens": "output_tokens"}
    parts = {name: successes.maybe_part(field) for name, field in names.items()}
    return {name: part.number("mean", "tokens") for name, part in parts.items() if part is not None}


def _gaps(whole: Fields) -> list[Gap]:
    gaps = []
    if whole.part("successes", "latency").has("inter_token_latency"):
        gaps.append(
            gap(
                "itl_between_tokens_of_events",
                "the file's inter_token_latency is 0 between tokens of one event, so its median can be 0",
                "inter_token_latency",
            )
        )
    delay = whole.maybe_part("load_summary", "schedule_delay")
    if delay is not None and not whole.part("load_summary").has("concurrency"):  # a closed loop has no schedule
        late = delay.number("p99" if delay.has("p99") else "max", "s", least=float("-inf"))
        gaps.append(gap("client_delay", f"the client sent 99 % of the requests at most {1e3 * late:.3g} ms after their time"))
    mismatched = whole.part("successes").maybe_number("token_count_mismatches")
    if mismatched:
        gaps.append(
            gap(
                "tokens_counted_by_client",
                f"{mismatched:g} answers have other token counts by the client's tokenizer than by the server's",
                *BY_TOKENS,
            )
        )
    return gaps
