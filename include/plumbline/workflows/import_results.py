"""Import a result file of another benchmark tool as published results of a declared provider and workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

from plumbline.archive import Archive
from plumbline.archive.published import PublishedImport
from plumbline.declarations import Declarations
from plumbline.formats import TOOL_FILES, UnreadableFile, read_benchmark_file
from plumbline.formats.reading.fields import check_file_size
from plumbline.metrics.formatting import unknown_name
from plumbline.results.published import PublishedResult
from plumbline.results.published_files import published_results

Declared = TypeVar("Declared")


@dataclass(frozen=True)
class ImportedFile:
    """The file's runs as published results, and what became of them in the archive."""

    results: tuple[PublishedResult, ...]
    imported: PublishedImport


def import_benchmark_file(
    archive: Archive, declared: Declarations, path: Path, tool: str, provider: str, workload: str, day: date | None = None
) -> ImportedFile:
    """Read the file and record its runs, all or none; the same file again changes nothing.

    `tool`: one of TOOL_FILES. `day`: of the measurement, where the file does not say. LookupError for an unknown tool, provider
    or workload; ValueError for a training workload or a wrong day; UnreadableFile for a file that is not the tool's; OSError."""
    if tool not in TOOL_FILES:
        raise LookupError(unknown_name("tool", tool, TOOL_FILES))
    place, measured = _declared("provider", provider, declared.providers), _declared("workload", workload, declared.workloads)
    if (served := measured.serving) is None:
        raise ValueError(f'workload "{workload}" is of kind {measured.kind}; expected one of kind inference, which {tool} measures')
    if not path.is_file():
        raise UnreadableFile(f"{path} is not a file; expected {TOOL_FILES[tool].file}")
    check_file_size(path.stat().st_size, str(path))
    raw = path.read_bytes()
    results = published_results(read_benchmark_file(raw, path.name, tool), raw, path.name, place, served, day)
    return ImportedFile(tuple(results), archive.import_outside(results))


def _declared(kind: str, name: str, known: Mapping[str, Declared]) -> Declared:
    if name not in known:
        raise LookupError(unknown_name(kind, name, known))
    return known[name]
