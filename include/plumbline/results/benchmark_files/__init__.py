"""Result files of other benchmark tools, read by their documented fields.

fields       checked access to a file's fields
run          runs, their loads, figures and outcomes
gaps         what keeps a run from being compared, and rates that the same file contradicts
records      the records that AIPerf and GenAI-Perf share
aiperf … vllm_bench    one format each
recognise    files of other kinds, by name
publish      a file's runs as published results
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from plumbline.results.benchmark_files import (
    aiperf,
    genai_perf,
    guidellm,
    inference_perf,
    llmperf,
    mlperf,
    perf_analyzer,
    sglang,
    vllm_bench,
)
from plumbline.results.benchmark_files.fields import Fields, UnreadableFile, json_documents
from plumbline.results.benchmark_files.recognise import has_field, json_kind, text_kind
from plumbline.results.benchmark_files.run import BenchmarkFile

__all__ = ["FORMATS", "BenchmarkFile", "JsonFormat", "UnreadableFile", "read_benchmark_file"]


@dataclass(frozen=True)
class JsonFormat:
    """A tool's JSON file. `marks`: fields that only it has, as dotted paths; `older`: marks of its earlier layouts."""

    file: str
    read: Callable[[Fields], BenchmarkFile]
    marks: tuple[str, ...]
    older: tuple[tuple[str, ...], ...] = ()

    def missing(self, document: Fields) -> str | None:
        """The first mark that the document lacks; None if it has those of any layout."""
        lacking = [next((mark for mark in marks if not has_field(document, mark)), None) for marks in (self.marks, *self.older)]
        return None if None in lacking else lacking[0]


@dataclass(frozen=True)
class TextFormat:
    """A tool's file of lines."""

    file: str
    read: Callable[[bytes, str], BenchmarkFile]


FORMATS: dict[str, JsonFormat | TextFormat] = {
    "aiperf": JsonFormat(aiperf.FILE, aiperf.read, aiperf.MARKS, aiperf.OLDER),
    "genai-perf": JsonFormat(genai_perf.FILE, genai_perf.read, genai_perf.MARKS, genai_perf.OLDER),
    "perf_analyzer": TextFormat(perf_analyzer.FILE, perf_analyzer.read),
    "vllm-bench": JsonFormat(vllm_bench.FILE, vllm_bench.read, vllm_bench.MARKS),
    "sglang": JsonFormat(sglang.FILE, sglang.read, sglang.MARKS),
    "guidellm": JsonFormat(guidellm.FILE, guidellm.read, guidellm.MARKS),
    "inference-perf": JsonFormat(inference_perf.FILE, inference_perf.read, inference_perf.MARKS),
    "llmperf": JsonFormat(llmperf.FILE, llmperf.read, llmperf.MARKS),
    "mlperf": TextFormat(mlperf.FILE, mlperf.read),
}
"""By the name that `plumbline archive import --from` takes."""


def read_benchmark_file(raw: bytes, file: str, tool: str) -> BenchmarkFile:
    """The runs of a file of `tool`, one of FORMATS. UnreadableFile names the file, the field and the expected shape."""
    chosen = FORMATS[tool]
    if isinstance(chosen, JsonFormat):
        read = [_read(chosen, document) for document in _documents(raw, file, chosen)]
        runs = tuple(replace(run, day=run.day or one.day) for one in read for run in one.runs)
        return replace(read[0], runs=runs)
    try:
        return chosen.read(raw, file)
    except UnreadableFile as error:
        kind = text_kind(raw) or _json_kind(raw, file)
        if kind is None or kind == f"one of {tool}":
            raise
        raise UnreadableFile(f"{file}: the file is {kind}; expected {chosen.file}") from error


def _documents(raw: bytes, file: str, chosen: JsonFormat) -> list[Fields]:
    try:
        return json_documents(raw, file)
    except UnreadableFile as error:
        kind = text_kind(raw)
        if kind is None:
            raise
        raise UnreadableFile(f"{file}: the file is {kind}; expected {chosen.file}") from error


def _read(chosen: JsonFormat, document: Fields) -> BenchmarkFile:
    kind, missing = json_kind(document), chosen.missing(document)
    if kind is not None:
        raise UnreadableFile(f"{document.file}: the file is {kind}; expected {chosen.file}")
    if missing is None:
        return chosen.read(document)
    tool = _tool(document)
    raise document.error(missing, "is missing", f"{chosen.file}{f'; the file is one of {tool}' if tool else ''}")


def _tool(document: Fields) -> str | None:
    return next((name for name, one in FORMATS.items() if isinstance(one, JsonFormat) and one.missing(document) is None), None)


def _json_kind(raw: bytes, file: str) -> str | None:
    try:
        document = json_documents(raw, file)[0]
    except UnreadableFile:
        return None
    tool = _tool(document)
    return json_kind(document) or (f"one of {tool}" if tool else None)
