"""Checked access to the fields of a file that another tool wrote: an error names file, field and expected shape."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from pydantic_core import from_json

from plumbline.formats.reading.foreign_number import MAX_NUMBER, ForeignNumber, moment, number

MAX_FILE_BYTES = 512 * 2**20
"""Reports that list each request take kilobytes a request."""
_LARGE_FILE = 2**20
_MAX_VALUES = 1_000_000
"""Most commas, brackets and braces of a large file, beside its lists of requests."""
_LONG_LIST, _LONG_BYTES = 200, 4096
"""Elements and bytes above which a list of a large file is one of requests, of which no reader reads more than the length."""
_LENGTH = "…length of a long list"
# What a look-ahead took is not tried in another way: a string that nothing closes costs one pass. Python 3.10 has no possessive `*+`.
_TOKEN = re.compile(rb'"(?=((?:[^"\\]+|\\.)*))\1"|[\[\]{}]', re.DOTALL)


class UnreadableFile(ValueError):
    """The file is not one of the tool, is damaged, or lacks a field; the message names file, field and expected shape."""


@dataclass(frozen=True)
class Fields:
    """An object of the file. `path` leads to it, such as `benchmarks.0.metrics`; empty for the whole file."""

    file: str
    values: Mapping[str, Any]
    path: str = ""

    def has(self, name: str) -> bool:
        """Whether the field holds something: tools write null, NaN and Infinity for what they did not observe."""
        value = self.values.get(name)
        return value is not None and not (isinstance(value, float) and not math.isfinite(value))

    def part(self, *names: str) -> Fields:
        """The object at the end of these names."""
        here = self
        for name in names:
            here = here._object(name, here._required(name, "an object"))
        return here

    def maybe_part(self, *names: str) -> Fields | None:
        """The object, or None where one of the names is missing or null."""
        here = self
        for name in names:
            if not here.has(name):
                return None
            here = here.part(name)
        return here

    def parts(self, name: str) -> list[Fields]:
        """A list of at least one object."""
        objects = self._required(name, "a list of objects")
        if not isinstance(objects, list) or not objects:
            raise self.error(name, f"is {_describe(objects)}", "a list of at least one object")
        return [self._object(f"{name}.{i}", one) for i, one in enumerate(objects)]

    def number(self, name: str, unit: str = "", least: float = 0.0) -> float:
        """A number from `least` to MAX_NUMBER. `unit` is named by the error."""
        shape = f"a number of at least {least:g}{f' in {unit}' if unit else ''}"
        value = self._required(name, shape)
        try:
            return number(None if isinstance(value, str) else value, least=least)
        except ForeignNumber:
            largest = f", at most {MAX_NUMBER:g}" if isinstance(value, (int, float)) and value > MAX_NUMBER else ""
            raise self.error(name, f"is {_describe(value)}", f"{shape}{largest}") from None

    def maybe_number(self, name: str, unit: str = "", least: float = 0.0) -> float | None:
        """The number, or None where it is missing, null or not finite."""
        return self.number(name, unit, least) if self.has(name) else None

    def stated(self, name: str, unit: str = "") -> float | None:
        """The number of a field that the tool always writes, or None where it is null or not finite."""
        return self.maybe_number(name, unit) if name in self.values else self.number(name, unit)

    def whole(self, name: str, least: int = 0) -> int:
        """A whole number of at least `least`."""
        number = self.number(name, least=least)
        if number != int(number):
            raise self.error(name, f"is {number:g}", f"a whole number of at least {least}")
        return int(number)

    def maybe_whole(self, name: str, least: int = 0) -> int | None:
        """The whole number, or None where it is missing or null."""
        return self.whole(name, least) if self.has(name) else None

    def text(self, name: str, shape: str = "text") -> str:
        """Text that is not empty."""
        value = self._required(name, shape)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.error(name, f"is {_describe(value)}", shape)
        return value.strip()

    def day(self, name: str) -> date:
        """The day, in UTC, of a time in seconds since 1970."""
        seconds = self.number(name, "seconds since 1970")
        try:
            return moment(seconds).date()
        except ForeignNumber:
            raise self.error(name, f"is {seconds:g}", "seconds since 1970, from 2000 until 2100") from None

    def maybe_text(self, name: str) -> str | None:
        """The text, or None where it is missing, null or empty."""
        return self.text(name) if self.values.get(name) not in (None, "") else None

    def length(self, name: str) -> int | None:
        """The number of a list's elements, also of one that `without_long_lists` replaced; None for anything else."""
        value = self.values.get(name)
        if isinstance(value, dict) and isinstance(count := value.get(_LENGTH), int):
            return count
        return len(value) if isinstance(value, list) else None

    def error(self, name: str, problem: str, expected: str) -> UnreadableFile:
        """An error about one field of this object."""
        where = f"{self.path}.{name}" if self.path else name
        return UnreadableFile(f"{self.file}: {where} {problem}; expected {expected}")

    def _required(self, name: str, shape: str) -> Any:
        if name not in self.values:
            raise self.error(name, "is missing", shape)
        return self.values[name]

    def _object(self, name: str, value: Any) -> Fields:
        if not isinstance(value, dict):
            raise self.error(name, f"is {_describe(value)}", "an object")
        return Fields(self.file, value, f"{self.path}.{name}" if self.path else name)


def check_file_size(size: int, file: str) -> None:
    """UnreadableFile if the file has more than MAX_FILE_BYTES."""
    if size > MAX_FILE_BYTES:
        raise UnreadableFile(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB, the limit for such a file")


def json_documents(raw: bytes, file: str) -> list[Fields]:
    """The JSON objects of the file: one, a list of them, or one a line."""
    check_file_size(len(raw), file)
    raw = raw.removeprefix(codecs.BOM_UTF8)
    if len(raw) > _LARGE_FILE:
        raw = without_long_lists(raw)
        if (values := sum(map(raw.count, (b",", b"[", b"{")))) > _MAX_VALUES:
            raise UnreadableFile(f"{file} has {values:,} values beside its lists of requests; expected at most {_MAX_VALUES:,}")
    try:
        parsed = from_json(raw, cache_strings="none")
    except ValueError as error:
        lines = [(number, line) for number, line in enumerate(raw.splitlines(), 1) if line.strip()]
        if len(lines) < 2 or not lines[0][1].rstrip().endswith(b"}"):
            raise UnreadableFile(f"{file}: not whole JSON ({error}); expected one JSON object") from error
        return [_line(file, number, line) for number, line in lines]
    if isinstance(parsed, list) and parsed and all(isinstance(one, dict) for one in parsed):
        return [Fields(file, one, str(number)) for number, one in enumerate(parsed)]
    if not isinstance(parsed, dict):
        raise UnreadableFile(f"{file}: the file is {_describe(parsed)}; expected one JSON object")
    return [Fields(file, parsed)]


def without_long_lists(raw: bytes) -> bytes:
    """The JSON with an object that has the length in place of each long list, so that a report of each request takes little memory.

    Looks at strings and brackets only; text that is no JSON comes back so far as its brackets close, and its parser says what is wrong."""
    kept: list[bytes] = []
    open_: list[tuple[int, int, int]] = []  # of each list or object: its place in `kept`, its own bytes and its commas so far
    own = commas = at = 0
    for token in _TOKEN.finditer(raw):
        gap = raw[at : token.start()]
        own, commas = own + len(gap), commas + gap.count(b",")
        kept.append(gap)
        text, at = token[0], token.end()
        if text in (b"[", b"{"):
            open_.append((len(kept), own, commas))
            own = commas = 0
        kept.append(text)
        own += len(text)
        if text in (b"]", b"}") and open_:
            start, outer, outer_commas = open_.pop()
            long = text == b"]" and open_ and commas >= _LONG_LIST and own > _LONG_BYTES
            kept[start:] = [json.dumps({_LENGTH: commas + 1}).encode() if long else b"".join(kept[start:])]
            own, commas = outer + len(kept[start]), outer_commas
        if len(open_) > 1 and commas >= _LONG_LIST and own > _LONG_BYTES and kept[open_[-1][0]] == b"[":
            del kept[open_[-1][0] + 1 :]
    return b"".join([*kept, raw[at:]])


def _line(file: str, number: int, line: bytes) -> Fields:
    try:
        parsed = from_json(line, cache_strings="none")
    except ValueError as error:
        raise UnreadableFile(f"{file}: line {number} is not whole JSON ({error}); expected one JSON object a line") from error
    if not isinstance(parsed, dict):
        raise UnreadableFile(f"{file}: line {number} is {_describe(parsed)}; expected one JSON object a line")
    return Fields(file, parsed, f"line {number}")


def text_lines(raw: bytes, file: str) -> list[str]:
    """The lines of a text file, without the empty ones."""
    check_file_size(len(raw), file)
    try:
        return [line for line in raw.decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{file}: not text in UTF-8 ({error.reason} at byte {error.start}); expected a text file") from error


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "null" if value is None else repr(value)[:60]
