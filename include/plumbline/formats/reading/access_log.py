"""Access logs of servers and gateways: when requests came, how long they were, which belong to one conversation. Text is never kept."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from plumbline.formats.reading.foreign_number import ForeignNumber, moment, whole
from plumbline.formats.reading.text_file import UnusableFile, json_array, json_lines, json_problem, text_lines
from plumbline.formats.registry import Format, Formats

MAX_REQUESTS = 5_000_000


@dataclass(frozen=True)
class LoggedRequest:
    """`at`, `ended`: seconds since an origin that all requests of the log share; None: not logged. `conversation`: the log's own id."""

    line: int
    at: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    ended: float | None = None
    conversation: str | None = None


@dataclass
class AccessLog:
    """`requests` in order of arrival. `skipped`: why requests were left out, and how many. `notes`: what the log does not say."""

    format: str
    requests: list[LoggedRequest] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def skip(self, reason: str, n: int = 1) -> None:
        """Count requests that are left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + n


class AccessLogFormat(Format):
    """`expected`: what a log of the format holds, in words, as an error ends. `hint`: how a log gets the lengths that it may lack."""

    expected: ClassVar[str]
    hint: ClassVar[str]

    @abstractmethod
    def matches(self, text: str, name: str) -> bool:
        """Whether the text looks like a log of this format; `name` is the file's."""

    @abstractmethod
    def read(self, text: str, name: str, log: AccessLog) -> None:
        """Add the log's requests to `log`. UnusableFile for a wrong line."""


ACCESS_LOGS: Formats[AccessLogFormat] = Formats(AccessLogFormat, "access_logs")
"""By the name that `plumbline workload from-log --format` takes."""


def read_log(text: str, name: str, kind: str | None = None) -> AccessLog:
    """The requests of a log; `name` is the file's, in messages; `kind`: one of ACCESS_LOGS, None: recognised by the content.

    Raises UnusableFile for a wrong line, an unknown format, and a log without requests.
    """
    kind = kind or next((one.name for one in ACCESS_LOGS.values() if one.matches(text, name)), None)
    if kind is None:
        raise UnusableFile(f"{name} is of no known format; expected --format with one of {', '.join(ACCESS_LOGS)}")
    log, format_ = AccessLog(kind), ACCESS_LOGS[kind]
    format_.read(text, name, log)
    if not log.requests:
        left_out = "; ".join(f"{n} left out: {why}" for why, n in log.skipped.items())
        raise UnusableFile(f"{name} holds no finished request{f' ({left_out})' if left_out else ''}; expected {format_.expected}")
    if len(log.requests) > MAX_REQUESTS:
        raise UnusableFile(f"{name} holds {len(log.requests):,} requests; expected at most {MAX_REQUESTS:,}: a part of the log")
    log.requests.sort(key=lambda request: (request.at, request.line))
    return log


def objects(text: str, name: str) -> Iterator[tuple[str, int, Any]]:
    """Place, number and value of each object: JSON lines, or one JSON document (an array's items, or itself)."""
    if text.lstrip().startswith("["):
        yield from json_array(text, name)
        return
    try:
        yield f"{name}:1", 1, json.loads(text)
    except (ValueError, RecursionError) as error:
        if next((line for _, line in text_lines(text)), "").strip() == "{":
            line, why = json_problem(error)
            raise UnusableFile(f"{name}:{line} is not JSON ({why}); expected one document, or one object a line") from None
        yield from json_lines(text, name)


def whole_number(where: str, field_name: str, value: Any) -> int:
    """Of tokens, as of anything that is counted."""
    try:
        return whole(None if isinstance(value, str) else value)
    except ForeignNumber as error:
        raise UnusableFile(f"{where}, {field_name} is {_quote(value)}; expected {error.expected}") from None


def _quote(value: Any) -> str:
    """A value in a message. Longer text could be a prompt."""
    try:
        text = json.dumps(value)
    except ValueError:  # an integer of more digits than Python writes
        text = ""
    return text if 0 < len(text) <= 40 else f"a {type(value).__name__}"


def moment_of(where: str, field_name: str, value: Any) -> float:
    """Epoch seconds of a number or of an ISO 8601 time, UTC without a zone."""
    try:
        return moment(value).timestamp()
    except ForeignNumber:
        expected = "epoch seconds, or a time such as 2026-11-16T18:17:03.5Z, from 2000 until 2100"
        raise UnusableFile(f"{where}, {field_name} is {_quote(value)}; expected {expected}") from None
