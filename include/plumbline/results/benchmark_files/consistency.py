"""Rates of a run compared with its own latencies and lengths: a figure that the same file contradicts is not imported."""

from __future__ import annotations

from dataclasses import replace

from plumbline.metrics.formatting import format_significant
from plumbline.results.benchmark_files.run import RATES, Run, gap
from plumbline.results.document import MetricRow

_ALONE = 0.05
"""Relative difference from which one other figure contradicts a rate."""
_TOGETHER = 0.01
"""The same where two figures agree against it."""


def consistent(run: Run, in_flight: float | None = None, length: float | None = None) -> Run:
    """The run without a rate that its other figures contradict.

    `in_flight`: mean requests in flight, as the file measured them; divided by the mean latency they are the rate (Little's law), also of a
    window whose warm-up was cut off. `length`: mean output tokens of an answer, by which output tokens a second are requests a second. A closed
    loop completes at most its concurrency in a mean latency."""
    rate, latency = run.value("request_throughput"), run.value("request_latency", "mean")
    if not rate:
        return run
    tokens = run.value("output_token_throughput")
    by_tokens = tokens / length if tokens and length else None
    if in_flight and latency:
        by_time = in_flight / latency
        supported = by_tokens is not None and _differ(by_tokens, by_time) <= _TOGETHER
        if (by_tokens is None or _differ(rate, by_tokens) > _TOGETHER) and _differ(rate, by_time) > (_TOGETHER if supported else _ALONE):
            method = f"{in_flight:.6g} requests in flight / {latency:.6g} s, not {_method(run, 'request_throughput')}"
            text = f"the file's {format_significant(rate)} requests/s contradict its {format_significant(in_flight)} requests in flight"
            detail = f"{text} of {format_significant(latency)} s each: {format_significant(by_time)} requests/s are imported"
            rows = tuple(_with(m, by_time, method) if m.metric == "request_throughput" else m for m in run.metrics)
            return replace(run, metrics=rows, gaps=(*run.gaps, gap("rate_contradicted", detail)))
        if by_tokens is not None and _differ(by_tokens, by_time) > _ALONE and _differ(rate, by_time) <= _ALONE:
            return _without(run, "output_token_throughput", against=f"{format_significant(length or 0)} tokens an answer")
        return run
    if by_tokens is not None and _differ(rate, by_tokens) > _ALONE:
        return _without(run, *RATES, against=f"each other: answers have {format_significant(length or 0)} tokens")
    most = run.load.concurrency / latency if run.load.kind == "closed" and run.load.concurrency and latency else None
    if most is not None and rate > most * (1 + _ALONE):
        return _without(run, *RATES, against=f"{run.load.concurrency} requests at a time of {format_significant(latency or 0)} s each")
    return run


def _differ(one: float, other: float) -> float:
    return abs(one / other - 1)


def _method(run: Run, metric: str) -> str:
    return next(m.method or "" for m in run.metrics if m.metric == metric)


def _with(row: MetricRow, value: float, method: str) -> MetricRow:
    return row.model_copy(update={"value": value, "method": method})


def _without(run: Run, *metrics: str, against: str) -> Run:
    shown = " and ".join(_method(run, name) for name in metrics if run.value(name) is not None)
    detail = f"not imported: {shown} contradict {against}"
    return replace(
        run, metrics=tuple(m for m in run.metrics if m.metric not in metrics), gaps=(*run.gaps, gap("rate_contradicted", detail))
    )
