"""The results that vLLM's and SGLang's serving benchmarks share: figures in milliseconds, totals, and a request rate."""

from __future__ import annotations

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.run import Gap, Load, gap, latency_rows, rate_rows
from plumbline.metrics.rows import MetricRow, Scalar

_PERCENTILES = ("p50", "p90", "p95", "p99")


def between_events(rows: list[MetricRow]) -> list[Gap]:
    """The field that these benchmarks call inter-token latency."""
    text = "the file's itl counts gaps between events; tokens of one event have none, so it is lower than TPOT if events carry several"
    found = any(row.metric == "inter_token_latency" for row in rows)
    return [gap("itl_between_events", text, "inter_token_latency")] if found else []


def served(whole: Fields, requests: int, latencies: dict[str, str]) -> tuple[list[MetricRow], dict[str, Scalar]]:
    """Figures and lengths of a result in milliseconds, as vLLM's and SGLang's benchmarks write it. `latencies`: the file's name → the catalogue's.

    A model that answered no token has no first one, whatever the file says."""
    answered = whole.maybe_number("total_output_tokens", "tokens")
    rows: list[MetricRow] = []
    for short, metric in latencies.items():
        by_tokens = metric != "request_latency"
        rows += latency_rows(whole, metric, _names(whole, short), "ms", 0 if by_tokens and answered == 0 else requests)
    seconds = whole.maybe_number("duration", "s")
    for metric, name, total, unit in (
        ("request_throughput", "request_throughput", "completed", "requests/s"),
        ("output_token_throughput", "output_throughput", "total_output_tokens", "tokens/s"),
    ):
        if whole.has(name):
            rows += rate_rows(whole, metric, name, unit, requests)
        elif seconds:
            rows += rate_rows(whole, metric, total, f"in {seconds:.15g} s", requests, seconds)
    names = {"input_tokens": "total_input_tokens", "output_tokens": "total_output_tokens"}
    totals = {name: whole.maybe_number(total, "tokens") for name, total in names.items()}
    return rows, {name: total / requests for name, total in totals.items() if total is not None and requests}


def _names(whole: Fields, short: str) -> dict[str, str]:
    names = {"mean": f"mean_{short}_ms", "stddev": f"std_{short}_ms", **{p: f"{p}_{short}_ms" for p in _PERCENTILES}}
    if not whole.has(names["p50"]):  # the median is there also if --metric-percentiles leaves out 50
        names["p50"] = f"median_{short}_ms"
    return names


def rate_or_limit(whole: Fields, limit: int | None, arrivals: str, cv: float | None = None) -> Load:
    """The load of a `request_rate`, where infinity sends as many requests as the limit allows."""
    rate = whole.values.get("request_rate")
    if rate in (None, "trace"):
        return Load("unknown", limit, varies="a trace's arrival times" if rate else None)
    if rate in ("inf", float("inf")):
        return Load("closed", limit) if limit is not None else Load("at_once")
    return Load("open", limit, whole.number("request_rate", 'requests/s, or "inf"'), arrivals, cv)
