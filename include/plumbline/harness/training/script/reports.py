"""What a script reports of its steps: lines of its output or of a file it writes, by the declared format."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from plumbline.declarations.workloads.script import (
    FIELDS,
    CsvReport,
    JsonLinesReport,
    KnownReport,
    RegexReport,
    Report,
    ReporterReport,
    TensorBoardReport,
)
from plumbline.formats.reading.foreign_number import MAX_NUMBER, Count, Nanoseconds, described
from plumbline.formats.reading.lines import json_object
from plumbline.formats.reading.pattern import compiled

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_VALIDATION = re.compile(
    r"(?i)(?<![a-z0-9.])(?:val|valid(?:at\w*)?|eval(?:uat\w*)?|test(?:ing)?)"
    r"(?:[\s_/.:|=)\]-]{1,3}(?:\w+[ _/])?(?:loss|ppl|perplexity)|(?:_|[\s:|()\[\]]+(?:[a-z]+ )?)(?:(?:global_)?steps?|iter\w*|batch\w*|epoch|[0-9]))"
)
LOOK_SECONDS = 1.0
"""How often files that appear are looked for."""
_MATCHED = 1 << 12
_PARSED = 1 << 16

Values = Mapping[str, Any]
MAX_STEP = 10**9
_LARGEST = {"step": MAX_STEP, "began": 2**62, "ended": 2**62}
"""Of the script's steps, and of a clock's ns; other numbers are at most MAX_NUMBER."""


class ImpossibleReport(ValueError):
    """A report with a number that no step has."""


@dataclass(frozen=True)
class Reported:
    """One report, as the script wrote it: of one of its own steps, not of `report.every`.

    `step`: None if the caller counts. `seconds`, `data_wait`: s. `began`, `ended`: monotonic ns, if the report carries the moments."""

    step: int | None = None
    loss: float | None = None
    tokens: float | None = None
    samples: float | None = None
    seconds: float | None = None
    data_wait: float | None = None
    began: int | None = None
    ended: int | None = None


class Reader:
    """Reads one line after the other; a CSV's first line is its header."""

    def __init__(self, values: Callable[[str], Values | None]) -> None:
        self._values = values

    def read(self, line: str) -> Reported | None:
        """None if the line is no report. Colours are left out; of long lines only the beginning is read, so that none costs time."""
        line = line[:_PARSED]
        values = self._values(_COLOUR.sub("", line) if "\x1b" in line else line)
        return None if values is None else reported(values)


def validates(text: str) -> bool:
    """Whether a line, up to its loss, is of a validation: one of its words before `loss`, a step or a share of a bar."""
    return _VALIDATION.search(text) is not None


def reported(values: Values) -> Reported | None:
    """A report of FIELDS, as texts or numbers; None if it has a step that is no whole number, or nothing at all. ImpossibleReport for a finite number
    that no script has."""
    numbers: dict[str, Any] = {name: number for name in FIELDS if (number := _number(values.get(name))) is not None}
    # A loss may be no number; a time or an amount that is none is not one.
    numbers = {name: number for name, number in numbers.items() if name in ("step", "loss") or (number >= 0 and math.isfinite(number))}
    step = numbers.pop("step", None)
    if (step is None and values.get("step") is not None) or (step is None and not numbers):
        return None
    if step is not None and not (math.isfinite(step) and step.is_integer()):
        return None
    moments = {name: value for name in ("began", "ended") if isinstance(value := values.get(name), int)}
    for name, value in {**numbers, **moments, **({} if step is None else {"step": step})}.items():
        most = _LARGEST.get(name, MAX_NUMBER)
        if name != "loss" and abs(value) > most:
            raise ImpossibleReport(f"the script reported {name} {described(value)}; expected a number of at most {most:g}")
    if (milliseconds := numbers.pop("milliseconds", None)) is not None:
        numbers["seconds"] = milliseconds / 1e3
    return Reported(step=None if step is None else int(step), **numbers, **moments)


class ReportedSpan(BaseModel):
    """What the reporter says of a checkpoint, or of its loading: monotonic ns, and the bytes of its files."""

    began: Nanoseconds | None = None
    ended: Nanoseconds
    bytes: Count = 0


def reported_span(event: str, values: Values) -> ReportedSpan:
    """Of a line of the reporter. ImpossibleReport with the field that no checkpoint has."""
    try:
        return ReportedSpan.model_validate(values)
    except ValidationError as error:
        item = error.errors(include_url=False)[0]
        problem = item["msg"].removeprefix("Value error, ") if item["type"] != "missing" else "is missing; expected monotonic nanoseconds"
        raise ImpossibleReport(f"the script reported {event} whose {'.'.join(map(str, item['loc']))} {problem}") from None


def _number(value: Any) -> float | None:
    """Also with thousands separators."""
    if isinstance(value, bool):
        return None
    try:
        return float(value.strip().replace(",", "") if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        return None


def chosen(values: Values, names: Mapping[str, str]) -> Values | None:
    """The fields that a report declares (`names`: field to key; alternatives joined by |, the first one present counts).

    None unless the step and loss that are declared are there: an evaluation's row has a step alone."""
    fields = {}
    for field, keys in names.items():
        present = [values[key] for key in keys.split("|") if values.get(key) not in (None, "")]
        if present:
            fields[field] = present[0]
        elif field in ("step", "loss"):
            return None
    return fields or None


def names_of(report: JsonLinesReport | CsvReport | TensorBoardReport) -> dict[str, str]:
    """Field to key, of those declared."""
    return {name: key for name in ("step", "loss", "tokens", "samples", "seconds", "data_wait") if (key := getattr(report, name))}


def reader_of(report: Report) -> Reader:
    """A reader of lines. ValueError for event files, which have none."""
    if isinstance(report, KnownReport):
        return reader_of(report.resolved)
    if isinstance(report, RegexReport):
        return Reader(_Matches(report.pattern))
    if isinstance(report, JsonLinesReport):
        names = names_of(report)
        return Reader(lambda line: None if (values := json_object(line)) is None else chosen(values, names))
    if isinstance(report, CsvReport):
        return Reader(_Rows(names_of(report)))
    if isinstance(report, ReporterReport):
        return Reader(lambda line: values if (values := json_object(line)) is not None and values.pop("event", None) == "step" else None)
    raise ValueError(f"a report of {report.format} has no lines; expected EventFiles")


class _Matches:
    """Lines that match a pattern, but for those of a validation, unless the pattern itself names one."""

    def __init__(self, pattern: str) -> None:
        self._search = compiled(pattern).search
        self._all = validates(pattern)

    def __call__(self, line: str) -> Values | None:
        match = self._search(line[:_MATCHED])
        if match is None:
            return None
        groups = match.groupdict()
        return None if not self._all and validates(line[: match.end("loss" if groups.get("loss") else 0)]) else groups


class _Rows:
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.header: list[str] | None = None

    def __call__(self, line: str) -> Values | None:
        try:
            row = next(csv.reader([line.strip()]), [])
        except csv.Error:
            return None
        if self.header is None:
            self.header = [name.strip() for name in row]
            return None
        return chosen(dict(zip(self.header, row)), self.names)  # noqa: B905  # a row that is being written, or one with a trailing comma
