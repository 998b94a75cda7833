"""GenAI-Perf's `profile_export_genai_perf.json`."""

from __future__ import annotations

from plumbline.formats.reading.fields import Fields
from plumbline.formats.reading.gaps import finished
from plumbline.formats.reading.records import count, lengths, record_rows
from plumbline.formats.reading.run import BenchmarkFile, Load, Run, gap
from plumbline.formats.reading.tool_file import JsonFile
from plumbline.formats.registry import register


@register
class GenAIPerf(JsonFile):
    name = "genai-perf"
    order = 20
    file = "profile_export_genai_perf.json of `genai-perf profile`"
    marks = ("input_config.perf_analyzer", "request_throughput")
    older = (("input_config.service_kind", "request_throughput"),)
    """Marks of the layout before 0.0.9: input_config is the flat command line."""

    def read(self, whole: Fields) -> BenchmarkFile:
        """GenAI-Perf's inter-token latency is each request's mean: the field's TPOT. The file has no version, date or number of failures."""
        config = whole.part("input_config")
        endpoint, load = config.maybe_part("endpoint") or config, config.maybe_part("perf_analyzer", "stimulus") or config
        requests = count(whole, "request_count")
        renamed = gap("tpot_as_itl", "the file's inter_token_latency is each request's mean: it is imported as time_per_output_token")
        run = Run(
            load=_load(load),
            metrics=tuple(record_rows(whole, requests)),
            requests=requests,
            gaps=(renamed,),
            asked=lengths(whole),
            first_token_expected=bool(endpoint.values.get("streaming")),
        )
        return BenchmarkFile(self.name, None, None, (finished(run),))


def _load(stimulus: Fields) -> Load:
    limit = stimulus.maybe_whole("concurrency", least=1)
    if stimulus.has("request_rate") or limit is None:
        return Load("open", limit, stimulus.number("request_rate", "requests/s"))
    return Load("closed", limit)
