"""The JSON file of `vllm bench serve --save-result`, and of `benchmark_serving.py` before it; with `--append-result` a run a line."""

from __future__ import annotations

from datetime import date, datetime, timezone

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.foreign_number import day
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.run import BenchmarkFile, Load, Run, outcome
from plumbline.formats.reading.serving_benchmark import between_events, rate_or_limit, served
from plumbline.formats.reading.tool_file import JsonFile, OtherJson, OtherText
from plumbline.formats.registry import register

_LATENCIES = {"ttft": "time_to_first_token", "tpot": "time_per_output_token", "itl": "inter_token_latency", "e2el": "request_latency"}


@register
class VllmBench(JsonFile):
    name = "vllm-bench"
    order = 40
    file = "the file of `vllm bench serve --save-result`"
    marks = ("num_prompts", "request_rate", "completed", "date")
    others = (
        OtherJson("a result of `vllm bench latency`: batches without requests", ("avg_latency", "latencies", "percentiles")),
        OtherJson(
            "a result of `vllm bench throughput`: offline, without latencies", ("elapsed_time", "requests_per_second", "tokens_per_second")
        ),
        OtherJson("vLLM's records for PyTorch's dashboard", ("benchmark", "metric.benchmark_values")),
        OtherText(
            "a table made from vLLM's console output, not the file that vLLM saves", r"^Successful requests,Benchmark duration \(s\),"
        ),
    )

    def read(self, whole: Fields) -> BenchmarkFile:
        """`--percentile-metrics` and `--metric-percentiles` choose what the file holds. It does not name vLLM's version."""
        requests = whole.whole("completed")
        rows, settings = served(whole, requests, _LATENCIES)
        # Versions before 0.10 do not write how many requests failed; vLLM waits for each that it sends.
        ended, unaccounted = outcome(requests, whole.maybe_whole("failed"), whole.whole("num_prompts"), "num_prompts without completed")
        run = Run(_load(whole), (*rows, *ended), requests, gaps=(*between_events(rows), *unaccounted), asked=settings)
        return BenchmarkFile(self.name, None, _day(whole), (finished(run),))


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


def _day(whole: Fields) -> date:
    text = whole.text("date", "a time such as 20261123-175236")
    try:
        return day(datetime.strptime(text, "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).date())  # of the client's clock
    except ValueError:
        raise whole.error("date", f'is "{text}"', "a time such as 20261123-175236") from None
