"""Result files of other benchmark tools, read by their documented fields.

fields     checked access to a file's fields
run        runs, loads and the gaps that they show
records    the records that AIPerf and GenAI-Perf share
aiperf … vllm_bench    one format each
publish    a file's runs as published results
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plumbline.results.benchmark_files import (
    aiperf,
    genai_perf,
    guidellm,
    inference_perf,
    llmperf,
    mlperf,
    perf_analyzer,
    vllm_bench,
)
from plumbline.results.benchmark_files.fields import Fields, UnreadableFile, json_fields
from plumbline.results.benchmark_files.run import BenchmarkFile

__all__ = ["FORMATS", "BenchmarkFile", "UnreadableFile", "read_benchmark_file"]


@dataclass(frozen=True)
class Format:
    """A tool's file. `marks`: fields that only it has, as dotted paths; empty for a format that is not JSON."""

    file: str
    read: Callable[[bytes, str], BenchmarkFile]
    marks: tuple[str, ...] = ()

    def missing(self, whole: Fields) -> str | None:
        """The first mark that the file lacks."""
        return next((mark for mark in self.marks if not _has_field(whole, mark)), None)


FORMATS = {
    "aiperf": Format(aiperf.FILE, aiperf.read, aiperf.MARKS),
    "genai-perf": Format(genai_perf.FILE, genai_perf.read, genai_perf.MARKS),
    "perf_analyzer": Format(perf_analyzer.FILE, perf_analyzer.read),
    "vllm-bench": Format(vllm_bench.FILE, vllm_bench.read, vllm_bench.MARKS),
    "guidellm": Format(guidellm.FILE, guidellm.read, guidellm.MARKS),
    "inference-perf": Format(inference_perf.FILE, inference_perf.read, inference_perf.MARKS),
    "llmperf": Format(llmperf.FILE, llmperf.read, llmperf.MARKS),
    "mlperf": Format(mlperf.FILE, mlperf.read),
}
"""By the name that `plumbline archive import --from` takes."""


def read_benchmark_file(raw: bytes, file: str, tool: str) -> BenchmarkFile:
    """The runs of a file of `tool`, one of FORMATS. UnreadableFile names the file, the field and the expected shape."""
    chosen = FORMATS[tool]
    if chosen.marks:
        whole = json_fields(raw, file)
        missing = chosen.missing(whole)
        if missing is not None:
            other = next((name for name, each in FORMATS.items() if each.marks and each.missing(whole) is None), None)
            hint = f"; the file is one of {other}" if other else ""
            raise UnreadableFile(f"{file}: {missing} is missing; expected {chosen.file}{hint}")
    return chosen.read(raw, file)


def _has_field(whole: Fields, mark: str) -> bool:
    value: object = whole.values
    for name in mark.split("."):
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True
