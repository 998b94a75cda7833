"""The runs in a benchmark tool's file, each with its load, figures and gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from pydantic import Field

from plumbline.formats.reading.fields import Fields
from plumbline.metrics import METRICS
from plumbline.metrics.rows import MetricRow, Part, Reason, Scalar, metric_row

SECONDS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Seconds in one of each unit of time that the tools use."""
LATENCIES = ("time_to_first_token", "time_per_output_token", "request_latency", "request_scheduled_latency")
RATES = ("request_throughput", "output_token_throughput")
BY_TOKENS = ("time_per_output_token", "output_token_throughput")
"""Metrics that depend on who counts tokens."""
_SPREAD = ("min", "stddev")
"""Statistics that can be 0 although most requests were observed."""


@dataclass(frozen=True)
class Load:
    """How requests arrived. `closed`: `concurrency` at a time, the next one after an answer; `open`: at `rate` requests/s, whatever the answers,
    `concurrency` the client's limit if it has one; `at_once`: all at the start; `unknown`: the file does not say.

    `cv`: coefficient of variation of the gaps between gamma arrivals. `sent`: requests/s that left the client. `varies`: how the load changes
    during the run, in words."""

    kind: Literal["closed", "open", "at_once", "unknown"]
    concurrency: int | None = None
    rate: float | None = None
    arrivals: str | None = None
    cv: float | None = None
    sent: float | None = None
    varies: str | None = None

    @property
    def name(self) -> str:
        """Names the run among those of a file: `concurrency-4`, `rate-2.5`."""
        if self.kind == "closed" and self.concurrency is not None:
            return f"concurrency-{self.concurrency}"
        if self.kind == "open" and self.rate is not None:
            return f"rate-{self.rate:.12g}"
        return self.varies or self.kind.replace("_", "-")

    def __str__(self) -> str:
        parts = [{"closed": "closed loop", "open": "open loop", "at_once": "all requests at once", "unknown": "unknown load"}[self.kind]]
        if self.kind == "closed":
            at_a_time = f"{self.concurrency or 'an unknown number of'} requests at a time"
            parts.append("one request at a time" if self.concurrency == 1 else at_a_time)
        if self.kind == "open":
            rate = f"{self.rate:.12g} requests/s" if self.rate is not None else None if self.varies else "an unknown rate"
            parts.append(" at ".join(part for part in (self.arrivals and f"{self.arrivals} arrivals", rate) if part))
            if self.concurrency is not None:
                parts.append(f"at most {self.concurrency} at a time")
        return ", ".join(part for part in (*parts, self.varies) if part)


class Gap(Part):
    """Why an imported figure is not what a trial here would measure. `metrics`: those that it touches; empty if it touches no imported one."""

    code: str = Field(pattern=r"^[a-z][a-z0-9_]*$", examples=["closed_loop"])
    detail: str = Field(min_length=1)
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """One run of the tool. `metrics`: in the catalogue's names and units; each row's `method` is the file's own field, value and unit.

    `requests`: completed ones; None where the file does not say. `gaps`: what the run cannot be compared for. `invalid`: why the tool itself
    rejects the run. `asked`: lengths, as answered where the file has them, and other settings. `scheduled`: latencies count from the scheduled
    arrival, not from the send. `day`: of this run, where the file holds several."""

    load: Load
    metrics: tuple[MetricRow, ...]
    requests: int | None
    gaps: tuple[Gap, ...] = ()
    invalid: tuple[Reason, ...] = ()
    asked: Mapping[str, Scalar] = field(default_factory=dict)
    scheduled: bool = False
    first_token_expected: bool = True
    day: date | None = None

    def value(self, metric: str, statistic: str | None = None) -> float | None:
        """A figure in the catalogue's unit; by default the metric's usual statistic."""
        chosen = statistic or METRICS[metric].statistic
        return next((m.value for m in self.metrics if (m.metric, m.statistic) == (metric, chosen)), None)


@dataclass(frozen=True)
class BenchmarkFile:
    """The content of a file. `day` and `version`: None if the file does not have them."""

    tool: str
    version: str | None
    day: date | None
    runs: tuple[Run, ...]


def latency_rows(part: Fields | None, metric: str, names: Mapping[str, str], unit: str, requests: int | None) -> Iterator[MetricRow]:
    """Rows of a latency from fields in `unit`. `names`: statistic → the file's field; one that is missing gives no row.

    Tools write 0 for what they did not observe. A request without a first token or a pace pulls the whole distribution down, so a row
    whose middle is 0 is left out. Gaps between the tokens of one event are 0 by nature: there only the mean or the tail says whether any were observed.
    """
    if part is None or requests == 0:
        return
    figures = {statistic: value for statistic, name in names.items() if (value := part.maybe_number(name, unit)) is not None}
    central = [value for statistic, value in figures.items() if statistic not in _SPREAD]
    if not any(central) or (metric != "inter_token_latency" and not all(central)):
        return
    for statistic, value in figures.items():
        if value or statistic == "stddev" or metric == "inter_token_latency":
            method = _source(part, names[statistic], value, unit)
            yield metric_row(metric, value * SECONDS[unit], requests or 0, statistic=statistic, method=method)


def rate_rows(part: Fields | None, metric: str, name: str, unit: str, requests: int | None, seconds: float = 1.0) -> Iterator[MetricRow]:
    """A throughput from a field in `unit`, so much in `seconds`. None where it is missing, or 0: nothing was observed."""
    value = part.maybe_number(name, unit) if part is not None else None
    if part is not None and value:
        yield metric_row(metric, value / seconds, requests or 0, method=_source(part, name, value, unit))


def outcome(completed: int, failed: int | None, attempted: int | None, fields: str) -> tuple[list[MetricRow], list[Gap]]:
    """The error rate, and what became of requests that are neither completed nor failed. `fields`: those of the file that say so.

    Without `failed`, every attempted request that did not complete has failed. Neither row nor gap where the file knows only the completed,
    unless there are none."""
    if failed is None:
        if attempted is None:
            return ([], []) if completed else ([metric_row("error_rate", 1.0, 0, method="completed = 0")], [])
        failed = max(0, attempted - completed)
    lost = max(0, (attempted or 0) - completed - failed)
    requests = completed + failed + lost
    method = f"{fields} = {failed} of {requests}"
    if lost:
        text = f"{lost} of {requests} requests neither completed nor failed"
        row = metric_row("error_rate", None, requests, reason=text, method=method)
        return [row], [gap("unaccounted_requests", f"{text}: the error rate is unknown", *LATENCIES, *RATES)]
    return [metric_row("error_rate", failed / requests if requests else None, requests, method=method)], []


def gap(code: str, detail: str, *metrics: str) -> Gap:
    """A gap that touches these metrics of the run; none if it touches nothing that is imported."""
    return Gap(code=code, detail=detail, metrics=metrics)


def _source(part: Fields, name: str, value: float, unit: str) -> str:
    return f"{part.path}.{name} = {value:.15g} {unit}".removeprefix(".")
