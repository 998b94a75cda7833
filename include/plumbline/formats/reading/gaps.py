"""Reasons why a run of any tool cannot be compared, by its load and figures, and rates that its own figures contradict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plumbline.formats.reading.run import LATENCIES, RATES, Gap, Run, gap
from plumbline.metrics.formatting import format_percent, format_quantity, format_significant
from plumbline.metrics.rows import MetricRow, Reason, metric_row

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


FEW_FAILURES = 0.01
"""Share of failed requests up to which a run's figures are those of its load: what fails takes no time and delivers nothing."""
_PERCENTILES = ("p50", "p90", "p95", "p99")
_FEW_REQUESTS = 100
"""Below this, the 99th percentile lies between the two slowest requests."""
_RATE_TOLERANCE = 0.1


def finished(run: Run, in_flight: float | None = None, length: float | None = None) -> Run:
    """The run without contradicted rates, with the gaps that its load and its figures show before the reader's own.

    `in_flight`, `length`: as `consistent` takes them; by default the length is the run's own."""
    own = run.asked.get("output_tokens")
    run = consistent(run, in_flight, length or (own if isinstance(own, float) else None))
    observed = any(row.value is not None for row in run.metrics)
    if not run.metrics:
        run = replace(run, metrics=(metric_row("error_rate", None, 0, reason="the file does not say"),))
    if not observed and not run.invalid:
        run = replace(run, invalid=(Reason(code="nothing_observed", detail="the file has no figure of this run"),))
    return replace(run, gaps=(*_load_gaps(run), *_figure_gaps(run), *run.gaps))


def _load_gaps(run: Run) -> Iterator[Gap]:
    load, figures = run.load, (*LATENCIES, *RATES)
    if load.kind == "closed":
        slow = "a slow server receives fewer requests, so these are not the latencies at a given arrival rate"
        yield gap("closed_loop", f"{load}: {slow}", *LATENCIES)
        yield gap("coordinated_omission", "a request that waits for a slow answer is not sent, and its wait is not counted", *LATENCIES)
    elif load.kind == "at_once":
        yield gap("all_at_once", "all requests arrive at the start: latencies are positions in the queue", *LATENCIES)
    elif load.kind == "unknown":
        yield gap("unknown_load", "the file does not say how requests arrived", *LATENCIES)
    if load.varies:
        yield gap("load_varies", f"{load.varies}: the figures are of no single load", *figures)
    if load.kind != "open":
        return
    if not run.scheduled:
        yield gap(
            "counted_from_send",
            "time to first token and request latency count from the send; waits in the client since the scheduled arrival are missing",
            "time_to_first_token",
        )
    latency = run.value("request_latency", "mean") or run.value("request_latency", "p50")
    if load.concurrency is not None and (run.requests is None or load.concurrency < run.requests):
        full = bool(load.rate and latency and load.rate * latency >= load.concurrency)
        reached = f", and {load.rate:.12g} requests/s of {format_quantity(latency, 's')} need more" if full else ""
        text = f"at most {load.concurrency} requests at a time{reached}; further ones wait in the client"
        yield gap("concurrency_limited", text, *(figures if full else LATENCIES))
    achieved = run.value("request_throughput")
    shown = {"sent": load.sent, "completed": achieved}
    if load.rate and any(rate and abs(rate / load.rate - 1) > _RATE_TOLERANCE for rate in shown.values()):
        rates = ", ".join(f"{format_significant(rate)} {name}" for name, rate in shown.items() if rate)
        yield gap("rate_differs", f"{load.rate:.12g} requests/s asked for, {rates}", *figures)


def _figure_gaps(run: Run) -> Iterator[Gap]:
    present: dict[str, set[str]] = {}
    for row in run.metrics:
        if row.value is not None:
            present.setdefault(row.metric, set()).add(row.statistic)
    expected = ["time_to_first_token", "time_per_output_token"] if run.first_token_expected else []
    if run.load.kind != "at_once" and "request_scheduled_latency" not in present:
        expected.append("request_latency")
    if missing := [name for name in (*expected, *RATES, "error_rate") if name not in present]:
        yield gap("missing_metrics", f"the file has no measurement of {', '.join(missing)}")
    for name in LATENCIES:
        absent = [p for p in _PERCENTILES if p not in present.get(name, ())]
        if name in present and absent:
            yield gap("missing_percentiles", f"no {', '.join(absent)} of {name}")
    if (failed := run.value("error_rate")) is not None and failed > FEW_FAILURES:
        text = (
            f"{format_percent(failed, 1)} of the requests failed: the figures are of the others" if failed < 1 else "every request failed"
        )
        yield gap("failed_requests", text, *LATENCIES, *RATES)
    if run.requests is None:
        yield gap("unknown_count", "the file does not say how many requests its figures are of")
    elif 0 < run.requests < _FEW_REQUESTS and any("p99" in statistics for statistics in present.values()):
        yield gap("few_requests", f"the p99 of {run.requests} requests lies between the two slowest; it needs at least {_FEW_REQUESTS}")
