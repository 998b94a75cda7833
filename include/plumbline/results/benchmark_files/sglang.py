"""The JSON lines of SGLang's `bench_serving`: a run a line, appended to the file."""

from __future__ import annotations

from plumbline.results.benchmark_files.fields import Fields
from plumbline.results.benchmark_files.gaps import finished
from plumbline.results.benchmark_files.run import BenchmarkFile, Run, gap, outcome
from plumbline.results.benchmark_files.vllm_bench import between_events, rate_or_limit, served

FILE = "the JSON lines of SGLang's `python -m sglang.bench_serving`"
MARKS = ("backend", "completed", "total_output_tokens_retokenized")

_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e_latency": "request_latency",
}


def read(whole: Fields) -> BenchmarkFile:
    """Arrivals at a finite rate are Poisson. The lines have no date and no version; only with `--output-details` they say what failed.

    `concurrency` is computed from the latencies and the duration, so it cannot contradict the rate."""
    requests = whole.whole("completed")
    rows, settings = served(whole, requests, _LATENCIES)
    listed = whole.length("errors")
    attempted = listed if listed is not None and listed >= requests else None
    ended, _ = outcome(requests, None, attempted, "errors without completed")
    gaps = between_events(rows)
    server, client = whole.maybe_whole("total_output_tokens"), whole.maybe_whole("total_output_tokens_retokenized")
    if client is not None and server is not None and abs(client - server) > 0.01 * max(client, server):
        text = f"{server} output tokens were asked for or counted by the server, the client's tokenizer finds {client} in the answers"
        gaps.append(gap("tokens_counted_by_client", text, "time_per_output_token", "output_token_throughput"))
    load = rate_or_limit(whole, whole.maybe_whole("max_concurrency", least=1), "poisson")
    run = Run(load, (*rows, *ended), requests, gaps=tuple(gaps), asked=settings)
    return BenchmarkFile("sglang", None, None, (finished(run),))
