"""The JSON file of `vllm bench serve --save-result`."""

from __future__ import annotations

from datetime import date, datetime, timezone

from plumbline.results.benchmark_files.fields import Fields, json_fields
from plumbline.results.benchmark_files.run import BenchmarkFile, Load, Run, error_row, gap, latency_rows, rate_row
from plumbline.results.document import Scalar

FILE = "the file of `vllm bench serve --save-result`"
MARKS = ("num_prompts", "request_rate", "mean_ttft_ms")

_LATENCIES = {"ttft": "time_to_first_token", "tpot": "time_per_output_token", "itl": "inter_token_latency", "e2el": "request_latency"}
_PERCENTILES = ("p50", "p90", "p95", "p99")


def read(raw: bytes, file: str) -> BenchmarkFile:
    """`--percentile-metrics` and `--metric-percentiles` choose what the file holds. It does not name vLLM's version."""
    whole = json_fields(raw, file)
    requests, failed = whole.whole("completed", least=1), whole.maybe_number("failed")
    rows = [
        row
        for short, metric in _LATENCIES.items()
        for row in latency_rows(whole, metric, _names(whole, short), "ms", requests)
    ]  # fmt: skip
    whole.number("mean_ttft_ms", "ms")
    rows.append(rate_row(whole, "request_throughput", "request_throughput", "requests/s", requests))
    rows.append(rate_row(whole, "output_token_throughput", "output_throughput", "tokens/s", requests))
    if failed is not None:
        rows.append(error_row(int(failed), requests + int(failed), "failed over num_prompts"))
    settings: dict[str, Scalar] = {
        "input_tokens": whole.number("total_input_tokens", "tokens") / requests,
        "output_tokens": whole.number("total_output_tokens", "tokens") / requests,
    }
    between_events = gap(
        "itl_between_events",
        "the file's itl counts gaps between events; tokens of one event have none, so it is lower than TPOT if events carry several",
        "inter_token_latency",
    )
    run = Run(_load(whole), tuple(rows), requests, gaps=(between_events,) if whole.has("mean_itl_ms") else (), asked=settings)
    return BenchmarkFile("vllm-bench", None, _day(whole), (run.with_common_gaps(),))


def _names(whole: Fields, short: str) -> dict[str, str]:
    names = {"mean": f"mean_{short}_ms", "stddev": f"std_{short}_ms", **{p: f"{p}_{short}_ms" for p in _PERCENTILES}}
    if not whole.has(names["p50"]):  # the median is there also if --metric-percentiles leaves out 50
        names["p50"] = f"median_{short}_ms"
    return names


def _load(whole: Fields) -> Load:
    limit = whole.whole("max_concurrency", least=1) if whole.has("max_concurrency") else None
    if whole.values.get("request_rate") == "inf":
        return Load("closed", limit) if limit is not None else Load("at_once")
    burstiness = whole.maybe_number("burstiness")
    arrivals = None if burstiness is None else "poisson" if burstiness == 1 else f"gamma (burstiness {burstiness:g})"
    return Load("open", limit, whole.number("request_rate", 'requests/s, or "inf"'), arrivals)


def _day(whole: Fields) -> date:
    text = whole.text("date", "a time such as 20261123-175236")
    try:
        return datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).date()  # of the client's clock
    except ValueError:
        raise whole.error("date", f'is "{text}"', "a time such as 20261123-175236") from None
