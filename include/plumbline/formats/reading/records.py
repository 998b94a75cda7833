"""The records that AIPerf and GenAI-Perf share: `{unit, avg, p50, p90, …}` for each metric, in its own unit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.foreign_number import ForeignNumber, described, moment
from plumbline.formats.reading.run import SECONDS, latency_rows, rate_rows
from plumbline.metrics.rows import MetricRow, Scalar

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


def record_rows(whole: Fields, requests: int | None) -> Iterator[MetricRow]:
    """Latencies and throughputs, as far as the file has them: a run in which nothing succeeded has none."""
    for metric, name in _LATENCIES.items():
        record = whole.maybe_part(name)
        if record is not None and record.stated("avg") is not None:
            unit = record.text("unit", f"one of {', '.join(SECONDS)}")
            if unit not in SECONDS:
                raise record.error("unit", f'is "{unit}"', f"one of {', '.join(SECONDS)}")
            yield from latency_rows(record, metric, _STATISTICS, unit, requests)
    for metric, (name, unit) in _RATES.items():
        record = whole.maybe_part(name)
        if record is not None and record.stated("avg", unit) is not None:
            if record.text("unit", unit) != unit:
                raise record.error("unit", f'is "{record.text("unit")}"', unit)
            yield from rate_rows(record, metric, "avg", unit, requests)


def count(whole: Fields, name: str) -> int | None:
    """A number of requests, or None where the file has none."""
    record = whole.maybe_part(name)
    return record.maybe_whole("avg") if record is not None else None


def lengths(whole: Fields) -> dict[str, Scalar]:
    """Mean tokens of a prompt and of an answer, where the file has them."""
    names = {"input_tokens": "input_sequence_length", "output_tokens": "output_sequence_length"}
    records = {name: whole.maybe_part(field) for name, field in names.items()}
    return {name: mean for name, record in records.items() if record is not None and (mean := record.maybe_number("avg", "tokens"))}


def day_of(part: Fields, name: str) -> date | None:
    """The day of a time in ISO 8601; None where the file has none."""
    text = part.maybe_text(name)
    if text is None:
        return None
    try:
        moment(text)
        return datetime.fromisoformat(text.replace("Z", "+00:00")).date()
    except ForeignNumber as error:
        raise part.error(name, f"is {described(text)}", error.expected) from None
