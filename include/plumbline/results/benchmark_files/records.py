"""The records that AIPerf and GenAI-Perf share: `{unit, avg, p50, p90, …}` for each metric, in its own unit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime

from plumbline.results.benchmark_files.fields import Fields
from plumbline.results.benchmark_files.run import SECONDS, latency_rows, rate_row
from plumbline.results.document import MetricRow, Scalar

_STATISTICS = {"mean": "avg", **{name: name for name in ("min", "p50", "p90", "p95", "p99", "max")}, "stddev": "std"}
_LATENCIES = {
    "request_latency": "request_latency",
    "time_to_first_token": "time_to_first_token",
    "time_per_output_token": "inter_token_latency",
}
"""The catalogue's metric → the tool's. Its inter-token latency is (request latency − TTFT) / (output tokens − 1) of each request."""
_RATES = {
    "request_throughput": ("request_throughput", "requests/sec"),
    "output_token_throughput": ("output_token_throughput", "tokens/sec"),
}


def record_rows(whole: Fields, requests: int) -> Iterator[MetricRow]:
    """Latencies and throughputs. Request latency and throughput are required, the others depend on streaming."""
    for metric, name in _LATENCIES.items():
        record = whole.part(name) if metric == "request_latency" else whole.maybe_part(name)
        if record is not None:
            unit = record.text("unit", f"one of {', '.join(SECONDS)}")
            if unit not in SECONDS:
                raise record.error("unit", f'is "{unit}"', f"one of {', '.join(SECONDS)}")
            record.number("avg", unit)
            yield from latency_rows(record, metric, _STATISTICS, unit, requests)
    for metric, (name, unit) in _RATES.items():
        record = whole.part(name) if metric == "request_throughput" else whole.maybe_part(name)
        if record is not None:
            if record.text("unit", unit) != unit:
                raise record.error("unit", f'is "{record.text("unit")}"', unit)
            yield rate_row(record, metric, "avg", unit, requests)


def lengths(whole: Fields) -> dict[str, Scalar]:
    """Mean tokens of a prompt and of an answer, where the file has them."""
    names = {"input_tokens": "input_sequence_length", "output_tokens": "output_sequence_length"}
    records = {name: whole.maybe_part(field) for name, field in names.items()}
    return {name: record.number("avg", "tokens") for name, record in records.items() if record is not None}


def day_of(part: Fields, name: str) -> date | None:
    """The day of a time in ISO 8601; None where the file has none."""
    text = part.maybe_text(name)
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).date()
    except ValueError:
        raise part.error(name, f'is "{text}"', "a time such as 2026-11-23T17:43:59") from None
