"""What a reader makes of a file: the runs that it reports, each with its load, its figures and its gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from plumbline.metrics import METRICS
from plumbline.results.benchmark_files.fields import Fields
from plumbline.results.document import MetricRow, Reason, Scalar, metric_row
from plumbline.results.published import Gap

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds in one of each unit of time that the tools use."""
LATENCIES = ("time_to_first_token", "time_per_output_token", "request_latency", "request_scheduled_latency")
BY_TOKENS = ("time_per_output_token", "output_token_throughput")
"""Metrics that depend on who counts tokens."""
_PERCENTILES = ("p50", "p90", "p95", "p99")
_FEW_REQUESTS = 100
"""Below this, the 99th percentile lies between the two slowest requests."""
_RATE_TOLERANCE = 0.1


@dataclass(frozen=True)
class Load:
    """How requests arrived. `closed`: `concurrency` at a time, the next one after an answer; `open`: at `rate` requests/s, whatever the answers,
    `concurrency` the client's limit if it has one; `at_once`: all at the start; `unknown`: the file does not say."""

    kind: Literal["closed", "open", "at_once", "unknown"]
    concurrency: int | None = None
    rate: float | None = None
    arrivals: str | None = None

    @property
    def name(self) -> str:
        """Names the run among those of a file: `concurrency-4`, `rate-2.5`."""
        if self.kind == "closed" and self.concurrency is not None:
            return f"concurrency-{self.concurrency}"
        return f"rate-{self.rate:g}" if self.kind == "open" and self.rate is not None else self.kind.replace("_", "-")

    def __str__(self) -> str:
        if self.kind == "closed":
            if self.concurrency == 1:
                return "closed loop, one request at a time"
            return f"closed loop, {self.concurrency or 'an unknown number of'} requests at a time"
        if self.kind == "open":
            rate = "an unknown rate" if self.rate is None else f"{self.rate:g} requests/s"
            return f"open loop, {f'{self.arrivals} arrivals at ' if self.arrivals else ''}{rate}"
        return "all requests at once" if self.kind == "at_once" else "unknown load"


@dataclass(frozen=True)
class Run:
    """One run of the tool. `metrics`: in the catalogue's names and units; each row's `method` is the file's own field, value and unit.

    `gaps`: what the run cannot be compared for. `invalid`: why the tool itself rejects the run. `asked`: lengths and other settings.
    `scheduled`: latencies count from the scheduled arrival, not from the send."""

    load: Load
    metrics: tuple[MetricRow, ...]
    requests: int
    gaps: tuple[Gap, ...] = ()
    invalid: tuple[Reason, ...] = ()
    asked: Mapping[str, Scalar] = field(default_factory=dict)
    scheduled: bool = False
    first_token_expected: bool = True

    def value(self, metric: str, statistic: str | None = None) -> float | None:
        """A figure in the catalogue's unit; by default the metric's usual statistic."""
        chosen = statistic or METRICS[metric].statistic
        return next((m.value for m in self.metrics if (m.metric, m.statistic) == (metric, chosen)), None)

    def with_common_gaps(self) -> Run:
        """The run with the gaps that its load and its figures show, before the reader's own."""
        return replace(self, gaps=(*_load_gaps(self), *_figure_gaps(self), *self.gaps))


@dataclass(frozen=True)
class BenchmarkFile:
    """What a file reports. `day` and `version`: None where the file does not say."""

    tool: str
    version: str | None
    day: date | None
    runs: tuple[Run, ...]


def latency_rows(part: Fields | None, metric: str, names: Mapping[str, str], unit: str, requests: int) -> Iterator[MetricRow]:
    """Rows of a latency from fields in `unit`. `names`: statistic → the file's field; one that is missing gives no row."""
    if part is None:
        return
    for statistic, name in names.items():
        value = part.maybe_number(name, unit)
        if value is not None:
            yield metric_row(metric, value * SECONDS[unit], requests, statistic=statistic, method=_source(part, name, value, unit))


def rate_row(part: Fields, metric: str, name: str, unit: str, requests: int) -> MetricRow:
    """A required throughput that the file has in the catalogue's unit; `unit` as the file names it."""
    value = part.number(name, unit)
    return metric_row(metric, value, requests, method=_source(part, name, value, unit))


def error_row(failed: int, requests: int, fields: str) -> MetricRow:
    """The share of failed requests. `fields`: those of the file that say so."""
    return metric_row("error_rate", failed / requests if requests else None, requests, method=f"{fields} = {failed} of {requests}")


def _source(part: Fields, name: str, value: float, unit: str) -> str:
    return f"{part.path}.{name} = {value:.10g} {unit}".removeprefix(".")


def gap(code: str, detail: str, *metrics: str) -> Gap:
    """A gap that touches these metrics of the run; none if it touches nothing that is imported."""
    return Gap(code=code, detail=detail, metrics=metrics)


def _load_gaps(run: Run) -> Iterator[Gap]:
    load = run.load
    if load.kind == "closed":
        slow = "a slow server receives fewer requests, so these are not the latencies at a given arrival rate"
        yield gap("closed_loop", f"{load}: {slow}", *LATENCIES)
        yield gap("coordinated_omission", "a request that waits for a slow answer is not sent, and its wait is not counted", *LATENCIES)
    elif load.kind == "at_once":
        yield gap("all_at_once", "all requests arrive at the start: latencies are positions in the queue", *LATENCIES)
    elif load.kind == "unknown":
        yield gap("unknown_load", "the file does not say how requests arrived", *LATENCIES)
    if load.kind == "open" and not run.scheduled:
        yield gap(
            "counted_from_send",
            "time to first token and request latency count from the send; waits in the client since the scheduled arrival are missing",
            "time_to_first_token",
        )
    if load.kind == "open" and load.concurrency is not None:
        yield gap("concurrency_limited", f"at most {load.concurrency} requests at a time; further ones wait in the client", *LATENCIES)
    achieved = run.value("request_throughput")
    if load.kind == "open" and load.rate and achieved and abs(achieved / load.rate - 1) > _RATE_TOLERANCE:
        touched = (*LATENCIES, "request_throughput", "output_token_throughput")
        yield gap("rate_differs", f"{load.rate:g} requests/s asked for, {achieved:.3g} completed", *touched)


def _figure_gaps(run: Run) -> Iterator[Gap]:
    present: dict[str, set[str]] = {}
    for row in run.metrics:
        if row.value is not None:
            present.setdefault(row.metric, set()).add(row.statistic)
    expected = ["time_to_first_token", "time_per_output_token"] if run.first_token_expected else []
    if run.load.kind != "at_once" and "request_scheduled_latency" not in present:
        expected.append("request_latency")
    if missing := [name for name in (*expected, "output_token_throughput", "error_rate") if name not in present]:
        yield gap("missing_metrics", f"the file has no {', '.join(missing)}")
    for name in LATENCIES:
        absent = [p for p in _PERCENTILES if p not in present.get(name, ())]
        if name in present and absent:
            yield gap("missing_percentiles", f"no {', '.join(absent)} of {name}")
    if 0 < run.requests < _FEW_REQUESTS and any("p99" in statistics for statistics in present.values()):
        yield gap("few_requests", f"the p99 of {run.requests} requests lies between the two slowest; it needs at least {_FEW_REQUESTS}")
    if not run.requests:
        yield gap("unknown_count", "the file does not say how many requests its figures are of")
