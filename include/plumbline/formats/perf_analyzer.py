"""The CSV report of `perf_analyzer -f FILE`: one row for each concurrency or request rate."""

from __future__ import annotations

import csv

from plumbline.formats.reading.fields import Fields, UnreadableFile, text_lines
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.run import BenchmarkFile, Load, Run, gap, latency_rows, rate_rows
from plumbline.formats.reading.tool_file import OtherJson, TextFile
from plumbline.formats.registry import register
from plumbline.metrics.rows import MetricRow, metric_row

COLUMNS = ("Inferences/Second", "p50 latency", "p90 latency", "p95 latency", "p99 latency")

_STATISTICS = {"mean": "Avg latency", **{p: f"{p} latency" for p in ("p50", "p90", "p95", "p99")}}
_SERVER_TIMES = {
    "queue_time": ("Server Queue",),
    "compute_time": ("Server Compute Input", "Server Compute Infer", "Server Compute Output"),
}
"""Columns that are there if the server is a Triton. Mean microseconds of a request."""


@register
class PerfAnalyzer(TextFile):
    name = "perf_analyzer"
    order = 30
    file = "the CSV report of `perf_analyzer -f FILE`"
    mark = r"Inferences/Second,"
    others = (OtherJson("perf_analyzer's export of each request", ("experiments", "service_kind")),)

    def read(self, raw: bytes, file: str) -> BenchmarkFile:
        """Latencies are microseconds, from the send to the last response. The report has no version, date, failures or number of requests."""
        try:
            rows = list(csv.reader(text_lines(raw, file)))
        except csv.Error as error:
            raise UnreadableFile(f"{file}: not CSV ({error}); expected {self.file}") from error
        header = rows[0] if rows else []
        loads = [name for name in ("Concurrency", "Request Rate") if name in header]
        missing = [name for name in COLUMNS if name not in header]
        if missing or not loads:
            name = missing[0] if missing else "Concurrency or Request Rate"
            raise UnreadableFile(f'{file}: column "{name}" is missing; expected a header with {", ".join(("Concurrency", *COLUMNS))}')
        if not raw.endswith(b"\n"):  # the last number may have lost digits
            raise UnreadableFile(f"{file}: line {len(rows)} is cut; expected a line break at its end")
        body = [row for row in rows[1:] if row]
        if not body:
            raise UnreadableFile(f"{file}: no row follows the header; expected one for each {loads[0].lower()}")
        return BenchmarkFile(self.name, None, None, tuple(_run(_record(file, header, i, row), loads[0]) for i, row in enumerate(body, 2)))


def _record(file: str, header: list[str], line: int, row: list[str]) -> Fields:
    if len(row) < len(header):
        raise UnreadableFile(f'{file}: line {line} ends before column "{header[len(row)]}"; expected {len(header)} values')
    values: dict[str, object] = {}
    for name, text in zip(header, row, strict=False):
        try:
            values[name] = float(text)
        except ValueError:
            values[name] = text
    return Fields(file, values, f"line {line}")


def _run(record: Fields, load: str) -> Run:
    amount = record.number(load, "requests/s" if load == "Request Rate" else "", least=1e-9)
    for name in COLUMNS[1:]:
        record.number(name, "us")
    rows: list[MetricRow] = [*latency_rows(record, "request_latency", _STATISTICS, "us", None)]
    inferences = record.number("Inferences/Second", "inferences/s")
    each = _inferences_a_request(record, load, amount, inferences)
    rows += rate_rows(record, "request_throughput", "Inferences/Second", f"inferences/s of {each} a request", None, each)
    for metric, columns in _SERVER_TIMES.items():
        if all(record.has(name) for name in columns):
            mean = sum(record.number(name, "us") for name in columns) * 1e-6
            rows.append(metric_row(metric, mean, 0, statistic="mean", method=f"{' + '.join(columns)}, us"))
    batched = f"{each} inferences a request, as the latency shows: Inferences/Second was divided by {each}"
    gaps = (gap("inferences_of_a_batch", batched),) if each > 1 else ()
    kind = Load("closed", concurrency=int(amount)) if load == "Concurrency" else Load("open", rate=amount)
    return finished(Run(kind, tuple(rows), None, gaps=gaps))


def _inferences_a_request(record: Fields, load: str, amount: float, inferences: float) -> int:
    """The batch size (`-b`), which the report does not name: requests in flight take the latency, so they bound the requests a second."""
    latency = record.maybe_number("Avg latency", "us") or record.number("p50 latency", "us")
    requests = amount if load == "Request Rate" else amount / (latency * 1e-6) if latency else 0.0
    return max(1, round(inferences / requests)) if requests else 1
