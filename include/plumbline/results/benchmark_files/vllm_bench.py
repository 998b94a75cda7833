"""The JSON file of `vllm bench serve --save-result`, and of `benchmark_serving.py` before it; with `--append-result` a run a line."""

from __future__ import annotations

from datetime import date, datetime, timezone

from plumbline.results.benchmark_files.fields import Fields
from plumbline.results.benchmark_files.gaps import finished
from plumbline.results.benchmark_files.run import BenchmarkFile, Load, Run, gap, latency_rows, outcome, rate_rows
from plumbline.results.document import MetricRow, Scalar
from plumbline.results.published import Gap

FILE = "the file of `vllm bench serve --save-result`"
MARKS = ("num_prompts", "request_rate", "completed", "date")

_LATENCIES = {"ttft": "time_to_first_token", "tpot": "time_per_output_token", "itl": "inter_token_latency", "e2el": "request_latency"}
_PERCENTILES = ("p50", "p90", "p95", "p99")


def read(whole: Fields) -> BenchmarkFile:
    """`--percentile-metrics` and `--metric-percentiles` choose what the file holds. It does not name vLLM's version."""
    requests = whole.whole("completed")
    rows, settings = served(whole, requests, _LATENCIES)
    # Versions before 0.10 do not write how many requests failed; vLLM waits for each that it sends.
    ended, unaccounted = outcome(requests, whole.maybe_whole("failed"), whole.whole("num_prompts"), "num_prompts without completed")
    run = Run(_load(whole), (*rows, *ended), requests, gaps=(*between_events(rows), *unaccounted), asked=settings)
    return BenchmarkFile("vllm-bench", None, _day(whole), (finished(run),))


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


def _load(whole: Fields) -> Load:
    limit = whole.maybe_whole("max_concurrency", least=1)
    burstiness = whole.maybe_number("burstiness", least=1e-9) or 1.0  # before the option, arrivals were Poisson
    poisson = burstiness == 1
    arrivals, cv = "poisson" if poisson else f"gamma (burstiness {burstiness:.12g})", None if poisson else burstiness**-0.5
    if whole.has("ramp_up_strategy"):
        ends = (whole.number(f"ramp_up_{end}_rps", "requests/s") for end in ("start", "end"))
        between = " to ".join(f"{rate:.12g}" for rate in ends)
        return Load("open", limit, None, arrivals, cv, varies=f"{whole.text('ramp_up_strategy')} ramp from {between} requests/s")
    if whole.has("rps_change_events"):
        return Load("open", limit, None, arrivals, cv, varies="a series of rates")
    return rate_or_limit(whole, limit, arrivals, cv)


def rate_or_limit(whole: Fields, limit: int | None, arrivals: str, cv: float | None = None) -> Load:
    """The load of a `request_rate`, where infinity sends as many requests as the limit allows."""
    rate = whole.values.get("request_rate")
    if rate in (None, "trace"):
        return Load("unknown", limit, varies="a trace's arrival times" if rate else None)
    if rate in ("inf", float("inf")):
        return Load("closed", limit) if limit is not None else Load("at_once")
    return Load("open", limit, whole.number("request_rate", 'requests/s, or "inf"'), arrivals, cv)


def _day(whole: Fields) -> date:
    text = whole.text("date", "a time such as 20261123-175236")
    try:
        return datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).date()  # of the client's clock
    except ValueError:
        raise whole.error("date", f'is "{text}"', "a time such as 20261123-175236") from None
