"""The JSON lines of SGLang's `bench_serving`: a run a line, appended to the file."""

from __future__ import annotations

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.run import BenchmarkFile, Run, gap, outcome
from plumbline.formats.reading.serving_benchmark import between_events, rate_or_limit, served
from plumbline.formats.reading.tool_file import JsonFile, OtherJson
from plumbline.formats.registry import register

_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e_latency": "request_latency",
}


@register
class SGLangBench(JsonFile):
    name = "sglang"
    order = 50
    file = "the JSON lines of SGLang's `python -m sglang.bench_serving`"
    marks = ("backend", "completed", "total_output_tokens_retokenized")
    others = (
        OtherJson("SGLang's offline throughput result: without latencies", ("total_latency", "successful_requests", "total_input_tokens")),
        OtherJson("SGLang's result of `bench_one_batch`: batches without requests", ("batch_size", "prefill_latency")),
    )

    def read(self, whole: Fields) -> BenchmarkFile:
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
        return BenchmarkFile(self.name, None, None, (finished(run),))
