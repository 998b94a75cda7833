"""Read recorded arrivals: published column layouts to seconds, input tokens and output tokens."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from plumbline.declarations.workloads.load import MAX_TRACE_ROWS, Trace, TraceLayout
from plumbline.declarations.workloads.text_file import add_content
from plumbline.declarations.yaml_source import FieldPath, value_at
from plumbline.formats.reading.text_file import UnusableFile, json_problem
from plumbline.metrics.units import SECONDS, parse

Row = tuple[float, int, int]
Following = tuple[int, int, float]
"""A next turn: its row, the row of the turn before, seconds from that one's answer to this request."""
CONVERSATION, THINK = "conversation", "think_s"
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True)
class _Layout:
    """Columns in the order time, input tokens, output tokens, and the parser of a time."""

    columns: tuple[str, str, str]
    seconds: Callable[[str], float]
    time: str


def read_trace(folder: Path, name: str, layout: TraceLayout, *, until_s: float, after: list[Following] | None = None) -> tuple[Row, ...]:
    """The recorded requests of the first `until_s` seconds of the file `name` in `folder`: seconds since the first one (whole microseconds), input and output tokens.

    Next turns of conversations, which only layout plumbline knows, are added to `after`.

    Raises UnusableFile for a file that cannot be read, a missing column, a value that is none, time that goes back, too many rows.
    """
    described = _LAYOUTS[layout]
    rows: list[Row] = []
    turns = _Turns(name, after if after is not None else [])
    began = 0.0
    try:
        with (folder / name).open(encoding="utf-8-sig", newline="") as file:
            for line, record in (_jsonl if layout == "mooncake" else _csv)(file, name, described.columns):
                time, *lengths = (_required_value(f"{name}:{line}", column, record.get(column)) for column in described.columns)
                try:
                    at = described.seconds(time)
                except ValueError:
                    raise UnusableFile(f'{name}:{line}, {described.columns[0]} is "{time}"; expected {described.time}') from None
                began = began if rows else at
                since = round(at - began, 6)
                if rows and since < rows[-1][0]:
                    raise UnusableFile(f"{name}:{line}, {described.columns[0]} decreases; expected requests in order of arrival")
                if rows and since >= until_s:
                    return tuple(rows)
                if len(rows) == MAX_TRACE_ROWS:
                    raise UnusableFile(
                        f"{name}:{line} is request {MAX_TRACE_ROWS + 1:,} of the phase; expected at most {MAX_TRACE_ROWS:,}: a shorter phase, or a thinned file"
                    )
                read, written = (
                    _parse_tokens(f"{name}:{line}", column, value) for column, value in zip(described.columns[1:], lengths, strict=True)
                )
                if layout == "plumbline":
                    turns.add(line, len(rows), record)
                rows.append((since, read, written))
    except OSError as error:
        raise UnusableFile(f"{name} cannot be read ({error.strerror}); expected a file {folder / name}") from error
    except UnicodeDecodeError as error:
        raise UnusableFile(f"{name} is not UTF-8 text ({error.reason} at byte {error.start}); expected the published text file") from error
    if not rows:
        raise UnusableFile(f"{name} has no request; expected rows with {', '.join(described.columns)}")
    return tuple(rows)


class _Turns:
    """Links each row of a conversation to the one before."""

    def __init__(self, name: str, after: list[Following]) -> None:
        self._name, self._after = name, after
        self._last: dict[str, int] = {}

    def add(self, line: int, row: int, record: Mapping[str, Any]) -> None:
        conversation, think = ((record.get(column) or "").strip() for column in (CONVERSATION, THINK))
        if not conversation:
            return
        if (before := self._last.get(conversation)) is not None:
            try:
                self._after.append((row, before, round(_parse_seconds(think), 6)))
            except ValueError:
                raise UnusableFile(
                    f'{self._name}:{line}, {THINK} is "{think}"; expected seconds from the last answer of the conversation, such as 5.2'
                ) from None
        self._last[conversation] = row


def _csv(file: Any, name: str, columns: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(file)
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise UnusableFile(f"{name}:1 has no column {', '.join(missing)}; expected a header with {', '.join(columns)}")
    try:
        for record in reader:
            yield reader.line_num, record
    except csv.Error as error:
        raise UnusableFile(f"{name}:{reader.line_num} is not a CSV line ({error}); expected values for {', '.join(columns)}") from error


def _jsonl(file: Any, name: str, columns: tuple[str, ...]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, text in enumerate(file, start=1):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnusableFile(
                f"{name}:{line} is not JSON ({json_problem(error)[1]}); expected an object with {', '.join(columns)}"
            ) from error
        if not isinstance(record, dict):
            raise UnusableFile(f"{name}:{line} is not a JSON object; expected one with {', '.join(columns)}")
        yield line, record


def _required_value(where: str, column: str, value: object) -> str:
    if value is None or value == "" or isinstance(value, (bool, list, dict)):
        raise UnusableFile(f"{where} has no {column}; expected a value")
    return str(value).strip()


def _parse_tokens(where: str, column: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise UnusableFile(f'{where}, {column} is "{text}"; expected a whole number of tokens, at least 1: leave out requests that failed')
    return int(text)


def _parse_seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?([eE][+-]?\d+)?", text):
        raise ValueError(text)
    return float(text)


def _parse_timestamp(text: str) -> float:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day, time, fraction, zone = match.groups()
    offset = "+00:00" if zone in (None, "Z") else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
    whole = datetime.fromisoformat(f"{day}T{time}{offset}") - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return whole.total_seconds() + float(fraction or 0)


_LAYOUTS: dict[TraceLayout, _Layout] = {
    "azure": _Layout(("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _parse_timestamp, "a time such as 2026-11-16 18:17:03.9799600"),
    "burstgpt": _Layout(("Timestamp", "Request tokens", "Response tokens"), _parse_seconds, "seconds, such as 5.2"),
    "mooncake": _Layout(
        ("timestamp", "input_length", "output_length"),
        lambda text: _parse_seconds(text) / 1e3,
        "milliseconds since the beginning, such as 27482",
    ),
    "plumbline": _Layout(("arrived_s", "input_tokens", "output_tokens"), _parse_seconds, "seconds, such as 5.2"),
}


def load_trace_rows(data: Any, folder: Path) -> list[tuple[FieldPath, str]]:
    """Add the rows of an inference workload's traces to its data; their problems, by field."""
    problems: list[tuple[FieldPath, str]] = []
    phases = value_at(data, ("phases",))
    for i, phase in enumerate(phases if isinstance(phases, list) else ()):
        field = ("phases", i, "arrivals", "trace")
        problems += add_content(data, field, Trace, "file", ("rows", "after"), partial(_rows_of_phase, folder, phase))
    return problems


def _rows_of_phase(folder: Path, phase: Mapping[str, Any], trace: Trace) -> dict[str, Any]:
    try:
        duration_s = parse(phase.get("duration"), SECONDS, "a duration", "60s")
    except ValueError:
        return {}  # its own check reports it
    # An overload replays faster, so it needs more rows.
    factor = phase.get("factor") if phase.get("inject") == "overload" else None
    further = factor if isinstance(factor, (int, float)) and factor > 1 else 1.0
    after: list[Following] = []
    rows = read_trace(folder, trace.file, trace.layout, until_s=duration_s * trace.speed * further, after=after)
    return {"rows": rows, "after": after} if after else {"rows": rows}
