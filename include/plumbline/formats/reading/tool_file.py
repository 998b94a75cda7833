"""Result files of benchmark tools: how a tool's file is recognised, and how it is named where another one was expected."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from plumbline.formats.reading.fields import Fields, UnreadableFile, json_documents
from plumbline.formats.reading.run import BenchmarkFile
from plumbline.formats.registry import Format, Formats

_HEAD = 64 * 2**10
"""Bytes that identify the kind of a text file."""


@dataclass(frozen=True)
class OtherJson:
    """A JSON file that no format reads: what it is in words, fields that it has and fields that it lacks, as dotted paths."""

    what: str
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class OtherText:
    """A text file that no format reads: what it is in words, and a pattern of its first lines."""

    what: str
    pattern: str


class ToolFile(Format):
    """A tool's result file, which becomes published results. `file`: the file in words, as an error ends. `others`: files of the same tool that
    are not read, for clear errors."""

    file: ClassVar[str]
    others: ClassVar[tuple[OtherJson | OtherText, ...]] = ()

    @abstractmethod
    def runs(self, raw: bytes, file: str) -> BenchmarkFile:
        """The runs of a file's bytes. UnreadableFile names the file, the field and the expected shape."""


class JsonFile(ToolFile):
    """A tool's JSON file. `marks`: fields that only it has, as dotted paths; `older`: marks of its earlier layouts."""

    marks: ClassVar[tuple[str, ...]]
    older: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @abstractmethod
    def read(self, whole: Fields) -> BenchmarkFile:
        """The runs of one JSON object that has the marks."""

    def runs(self, raw: bytes, file: str) -> BenchmarkFile:
        """Of every object of the file, as one: the first one's tool and version."""
        read = [self._read(document) for document in self._documents(raw, file)]
        runs = tuple(replace(run, day=run.day or one.day) for one in read for run in one.runs)
        return replace(read[0], runs=runs)

    def missing(self, document: Fields) -> str | None:
        """The first mark that the document lacks; None if it has those of any layout."""
        lacking = [next((mark for mark in marks if not _has_field(document, mark)), None) for marks in (self.marks, *self.older)]
        return None if None in lacking else lacking[0]

    def _documents(self, raw: bytes, file: str) -> list[Fields]:
        try:
            return json_documents(raw, file)
        except UnreadableFile as error:
            kind = _text_kind(raw)
            if kind is None:
                raise
            raise UnreadableFile(f"{file}: the file is {kind}; expected {self.file}") from error

    def _read(self, document: Fields) -> BenchmarkFile:
        kind, missing = _other_kind(document), self.missing(document)
        if kind is not None:
            raise UnreadableFile(f"{document.file}: the file is {kind}; expected {self.file}")
        if missing is None:
            return self.read(document)
        tool = _tool(document)
        raise document.error(missing, "is missing", f"{self.file}{f'; the file is one of {tool}' if tool else ''}")


class TextFile(ToolFile):
    """A tool's file of lines. `mark`: a pattern of its first lines that only it matches."""

    mark: ClassVar[str]

    @abstractmethod
    def read(self, raw: bytes, file: str) -> BenchmarkFile:
        """The runs of the file's bytes."""

    def runs(self, raw: bytes, file: str) -> BenchmarkFile:
        """As `read`; where that fails, the error says what the file is instead."""
        try:
            return self.read(raw, file)
        except UnreadableFile as error:
            kind = _text_kind(raw) or _json_kind(raw, file)
            if kind is None or kind == f"one of {self.name}":
                raise
            raise UnreadableFile(f"{file}: the file is {kind}; expected {self.file}") from error


TOOL_FILES: Formats[ToolFile] = Formats(ToolFile)
"""By the name that `plumbline archive import --from` takes."""


def read_benchmark_file(raw: bytes, file: str, tool: str) -> BenchmarkFile:
    """The runs of a file of `tool`, one of TOOL_FILES. UnreadableFile names the file, the field and the expected shape."""
    return TOOL_FILES[tool].runs(raw, file)


def _others() -> Iterator[OtherJson | OtherText]:
    for tool in TOOL_FILES.values():
        yield from tool.others
    yield from _OF_OTHER_TOOLS


def _other_kind(document: Fields) -> str | None:
    """The kind of a JSON file that no format reads."""
    known = (one for one in _others() if isinstance(one, OtherJson))
    return next(
        (k.what for k in known if all(_has_field(document, f) for f in k.has) and not any(_has_field(document, f) for f in k.lacks)), None
    )


def _text_kind(raw: bytes) -> str | None:
    """The kind of a text file that no format reads, or the tool whose format reads it."""
    head = re.sub(r"^(#.*|=+|)\n", "", raw[:_HEAD].decode("utf-8", errors="replace").lstrip("\ufeff"), flags=re.MULTILINE)
    known = [(one.pattern, one.what) for one in _others() if isinstance(one, OtherText)]
    own = [(one.mark, f"one of {name}") for name, one in TOOL_FILES.items() if isinstance(one, TextFile)]
    return next((what for pattern, what in (*known, *own) if re.search(pattern, head, flags=re.MULTILINE)), None)


def _json_kind(raw: bytes, file: str) -> str | None:
    try:
        document = json_documents(raw, file)[0]
    except UnreadableFile:
        return None
    tool = _tool(document)
    return _other_kind(document) or (f"one of {tool}" if tool else None)


def _tool(document: Fields) -> str | None:
    return next((name for name, one in TOOL_FILES.items() if isinstance(one, JsonFile) and one.missing(document) is None), None)


def _has_field(document: Fields, path: str) -> bool:
    """Whether there is something at a dotted path; a number is a place in a list."""
    value: Any = document.values
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, Mapping) and name in value:
            value = value[name]
        else:
            return False
    return True


_OF_OTHER_TOOLS: tuple[OtherJson | OtherText, ...] = (
    OtherJson(
        "InferenceX's processed result: seconds, without the raw file's fields in ms", ("median_ttft", "request_rate"), ("mean_ttft_ms",)
    ),
    OtherJson("InferenceX's aggregated result of a configuration", ("tput_per_gpu",)),
    OtherJson("llm-d's Benchmark Report", ("version", "scenario", "results")),
    OtherJson("llm-d's Benchmark Report", ("version", "scenario", "metrics")),
    OtherJson("a report of TensorRT-LLM's trtllm-bench", ("engine", "performance", "world_info")),
    OtherText("LMBench's CSV, a row a request", r"^prompt_tokens,generation_tokens,ttft,"),
    OtherText("a table of Triton's Model Analyzer", r"^Model,.*Throughput \(infer/sec\)"),
    OtherText("llm-d's Benchmark Report", r"(?s)^version: *['\"]?0\.\d.*^(scenario|run):"),
    OtherText("console output of a serving benchmark, not the file that it saves", r"^=+ Serving Benchmark Result =+"),
)
"""Files of tools that have no format here."""
