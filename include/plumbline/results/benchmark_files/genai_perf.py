"""GenAI-Perf's `profile_export_genai_perf.json`."""

from __future__ import annotations

from plumbline.results.benchmark_files.fields import Fields, json_fields
from plumbline.results.benchmark_files.records import lengths, record_rows
from plumbline.results.benchmark_files.run import BenchmarkFile, Load, Run, gap

FILE = "profile_export_genai_perf.json of `genai-perf profile`"
MARKS = ("input_config.perf_analyzer", "request_latency.unit")


def read(raw: bytes, file: str) -> BenchmarkFile:
    """GenAI-Perf's inter-token latency is each request's mean: the field's TPOT. The file has no version, date or number of failures."""
    whole = json_fields(raw, file)
    config = whole.part("input_config")
    requests = whole.part("request_count").whole("avg", least=1)
    renamed = gap("tpot_as_itl", "the file's inter_token_latency is each request's mean: it is imported as time_per_output_token")
    run = Run(
        load=_load(config.part("perf_analyzer", "stimulus")),
        metrics=tuple(record_rows(whole, requests)),
        requests=requests,
        gaps=(renamed,),
        asked=lengths(whole),
        first_token_expected=bool(config.part("endpoint").values.get("streaming")),
    )
    return BenchmarkFile("genai-perf", None, None, (run.with_common_gaps(),))


def _load(stimulus: Fields) -> Load:
    if stimulus.has("concurrency"):
        return Load("closed", concurrency=stimulus.whole("concurrency", least=1))
    return Load("open", rate=stimulus.number("request_rate", "requests/s"))
