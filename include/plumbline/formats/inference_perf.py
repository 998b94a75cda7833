"""inference-perf's `stage_N_lifecycle_metrics.json` and `summary_lifecycle_metrics.json`, of all versions so far."""

from __future__ import annotations

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.run import BY_TOKENS, BenchmarkFile, Gap, Load, Run, gap, latency_rows, outcome, rate_rows
from plumbline.formats.reading.tool_file import JsonFile, OtherJson
from plumbline.formats.registry import register
from plumbline.metrics.formatting import format_quantity
from plumbline.metrics.rows import MetricRow, Scalar

_STATISTICS = {"mean": "mean", "p50": "median", "min": "min", "max": "max", **{name: name for name in ("p90", "p95", "p99")}}
_LATENCIES = ("request_latency", "time_to_first_token", "time_per_output_token", "inter_token_latency")


@register
class InferencePerf(JsonFile):
    name = "inference-perf"
    order = 70
    file = "stage_0_lifecycle_metrics.json of `inference-perf`"
    marks = ("load_summary.count", "successes.count")
    others = (
        OtherJson("inference-perf's report of Prometheus metrics, which the server counted", ("load_summary", "successes.rate")),
        OtherJson("inference-perf's report of each request", ("start_time", "end_time", "request", "response")),
    )

    def read(self, whole: Fields) -> BenchmarkFile:
        """Its names are the field's, in seconds. The file has no version and no date; a summary over several stages has no rate."""
        successes, load_summary = whole.part("successes"), whole.part("load_summary")
        requests, failed = successes.whole("count"), whole.part("failures").whole("count")
        latency, throughput = successes.maybe_part("latency") or successes, successes.maybe_part("throughput")
        rows: list[MetricRow] = []
        for metric in _LATENCIES:
            rows += latency_rows(latency.maybe_part(metric), metric, _STATISTICS, "s", requests)
        rows += rate_rows(throughput, "request_throughput", "requests_per_sec", "requests/s", requests)
        rows += rate_rows(throughput, "output_token_throughput", "output_tokens_per_sec", "tokens/s", requests)
        ended, unaccounted = outcome(requests, failed, load_summary.whole("count"), "failures.count over load_summary.count")
        answered = _mean(successes, "output_len", requests)
        lengths: dict[str, float | None] = {
            "input_tokens": _mean(successes, "prompt_tokens", requests) or _mean(successes, "prompt_len", requests),
            "output_tokens": _mean(successes, "output_tokens", requests) or answered,
        }
        asked: dict[str, Scalar] = {name: mean for name, mean in lengths.items() if mean is not None}
        run = Run(_load(load_summary), (*rows, *ended), requests, gaps=(*_gaps(whole, rows), *unaccounted), asked=asked)
        # Its throughput counts the client's tokens (output_len) or the server's, as use_server_output_tokens says, which the file does not.
        tokens, rate = run.value("output_token_throughput") or 0.0, run.value("request_throughput") or 1.0
        counted = [mean for mean in (answered, lengths["output_tokens"]) if mean]
        nearest = min(counted, key=lambda mean: abs(tokens / rate - mean), default=None)
        return BenchmarkFile(self.name, None, None, (finished(run, length=nearest),))


def _load(summary: Fields) -> Load:
    if summary.has("concurrency"):
        return Load("closed", concurrency=summary.whole("concurrency", least=1))
    rate = summary.maybe_number("requested_rate", "requests/s")
    return Load("unknown") if rate is None else Load("open", rate=rate, sent=summary.maybe_number("achieved_rate", "requests/s"))


def _mean(successes: Fields, name: str, requests: int) -> float | None:
    """Mean tokens: a summary has their mean, 0.5 and 0.6 have only their total."""
    part = successes.maybe_part(name)
    if part is None or not requests:
        return None
    total = part.maybe_number("total", "tokens")
    return part.maybe_number("mean", "tokens") or (total / requests if total else None)


def _gaps(whole: Fields, rows: list[MetricRow]) -> list[Gap]:
    gaps = []
    if any(row.metric == "inter_token_latency" for row in rows):
        text = "the file's inter_token_latency is 0 between tokens of one event, so its median can be 0"
        gaps.append(gap("itl_between_tokens_of_events", text, "inter_token_latency"))
    load = whole.part("load_summary")
    delay = load.maybe_part("schedule_delay") or load.maybe_part("schedule_accuracy")
    if delay is not None and not load.has("concurrency"):  # a closed loop has no schedule
        late = delay.number("p99" if delay.has("p99") else "max", "s", least=float("-inf"))
        gaps.append(gap("client_delay", f"the client sent 99 % of the requests at most {format_quantity(late, 's')} after their time"))
    mismatched = whole.part("successes").maybe_whole("token_count_mismatches")
    if mismatched:
        text = f"{mismatched} answers have other token counts by the client's tokenizer than by the server's"
        gaps.append(gap("tokens_counted_by_client", text, *BY_TOKENS))
    return gaps
