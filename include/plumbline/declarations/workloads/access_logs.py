"""Read access logs of inference servers and gateways: when requests came, how long they were, which belong to one conversation. Text is never kept.

vllm      the log of `vllm serve --enable-log-requests`, with `--enable-log-outputs` for the answers' lengths
litellm   LiteLLM's spend logs, or its StandardLoggingPayload, as JSON lines or a JSON array
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal, get_args

from plumbline.declarations.workloads.text_file import UnusableFile, json_array, json_lines, json_problem, text_lines

LogFormat = Literal["vllm", "litellm"]
FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)
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

    format: LogFormat
    requests: list[LoggedRequest] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def skip(self, reason: str, n: int = 1) -> None:
        """Count requests that are left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + n


def read_log(text: str, name: str, kind: LogFormat | None = None) -> AccessLog:
    """The requests of a log; `name` is the file's, in messages; `kind` None: recognised by the content.

    Raises UnusableFile for a wrong line, an unknown format, and a log without requests.
    """
    kind = kind or _recognised(text, name)
    log = AccessLog(kind)
    _READERS[kind](text, name, log)
    if not log.requests:
        left_out = "; ".join(f"{n} left out: {why}" for why, n in log.skipped.items())
        raise UnusableFile(f"{name} holds no finished request{f' ({left_out})' if left_out else ''}; expected {_EXPECTED[kind]}")
    if len(log.requests) > MAX_REQUESTS:
        raise UnusableFile(f"{name} holds {len(log.requests):,} requests; expected at most {MAX_REQUESTS:,}: a part of the log")
    log.requests.sort(key=lambda request: (request.at, request.line))
    return log


_EXPECTED: dict[LogFormat, str] = {
    "vllm": 'lines with "Received request", of vllm serve --enable-log-requests',
    "litellm": "objects with startTime, prompt_tokens and completion_tokens",
}


def _recognised(text: str, name: str) -> LogFormat:
    if _RECEIVED.search(text):
        return "vllm"
    try:
        first = next(_objects(text, name))[2]
    except (UnusableFile, StopIteration):
        first = None
    if isinstance(first, Mapping) and "startTime" in first:
        return "litellm"
    raise UnusableFile(f"{name} is of no known format; expected --format with one of {', '.join(FORMATS)}")


def _objects(text: str, name: str) -> Iterator[tuple[str, int, Any]]:
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


# Fields of an object, with the place in the error.


def _parse_int(where: str, field_name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or value != int(value):
        raise UnusableFile(f"{where}, {field_name} is {_quote(value)}; expected a whole number, at least 0")
    return int(value)


def _quote(value: Any) -> str:
    """A value in a message. Longer text could be a prompt."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def _moment(where: str, field_name: str, value: Any) -> float:
    """Epoch seconds of a number or of an ISO 8601 time, UTC without a zone."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            pass
        else:
            return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    raise UnusableFile(f"{where}, {field_name} is {_quote(value)}; expected epoch seconds, or a time such as 2026-11-16T18:17:03.5Z")


# vLLM. Lines of several loggers, of which those of the request logger matter; a date without a year.

_STAMP = r"INFO (?P<month>\d\d)-(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?P<fraction>[.,]\d+)? "
_RECEIVED = re.compile(r"Received request (?P<id>\S+?): (?=.*?params: )")
_LINE = re.compile(
    _STAMP + r".*?(?P<what>Received request|Generated response) (?P<id>\S+?)(?: \((?P<stream>streaming \w+)\))?: (?P<rest>.*)"
)
_DETAILS = re.compile(r"Request (?P<id>\S+) details: (?P<rest>.*prompt_token_ids: .*)")
_ANSWER_DETAILS = re.compile(r"Generated response (?P<id>\S+?)(?: \((?P<stream>streaming \w+)\))? details: (?P<rest>output_token_ids: .*)")
_PROMPT_IDS = re.compile(r".*prompt_token_ids: (\[[\d, ]*\]|None)")
_OUTPUT_IDS = re.compile(r".*output_token_ids: (\[[\d, ]*\]|None)")
_LEAP_YEAR = 2000


def _vllm(text: str, name: str, log: AccessLog) -> None:
    requests: dict[str, LoggedRequest] = {}
    prompt_tokens: dict[str, int] = {}
    answered: dict[str, int] = {}
    year, month = _LEAP_YEAR, 0
    fractions = False
    for number, line in enumerate(text.split("\n"), start=1):
        if (details := _DETAILS.search(line)) is not None:
            if (count := _ids(_PROMPT_IDS, details["rest"])) is not None:
                prompt_tokens[details["id"]] = count
            continue
        if (details := _ANSWER_DETAILS.search(line)) is not None:
            if (count := _ids(_OUTPUT_IDS, details["rest"])) is not None:
                # Of a stream each part's ids, and at its end perhaps all of them again.
                part = details["stream"] == "streaming delta"
                answered[details["id"]] = count + (answered.get(details["id"], 0) if part else 0)
            continue
        match = _LINE.search(line)
        if match is None:
            if _RECEIVED.search(line):
                raise UnusableFile(
                    f"{name}:{number} has no time before its request; expected a line such as INFO 11-23 17:38:21 [logger.py:39] Received …"
                )
            continue
        fractions = fractions or match["fraction"] is not None
        if int(match["month"]) < month:  # the log goes on after New Year
            year += 1
        month = int(match["month"])
        try:
            at = datetime.fromisoformat(f"{year}-{match['month']}-{match['day']}T{match['time']}+00:00").timestamp()
        except ValueError:
            raise UnusableFile(
                f"{name}:{number}, the time is {match['month']}-{match['day']} {match['time']}; expected month-day and time"
            ) from None
        at += float((match["fraction"] or ".0").replace(",", "."))
        request = match["id"]
        if match["what"] == "Received request":
            if request not in requests:
                requests[request] = LoggedRequest(number, at, _ids(_PROMPT_IDS, match["rest"]))
            continue
        count = _ids(_OUTPUT_IDS, match["rest"])
        if match["stream"] == "streaming delta":
            answered[request] = answered.get(request, 0) + (count or 0)
            continue
        # An answer is logged by its response's id, which lacks the number that a completion's prompts have.
        numbered = request if request in requests else f"{request}-0"
        if numbered in requests:
            written = count if count is not None else answered.get(request) or None
            requests[numbered] = replace(requests[numbered], output_tokens=written, ended=at)
    log.requests = [replace(request, input_tokens=prompt_tokens.get(key, request.input_tokens)) for key, request in requests.items()]
    if not fractions:
        log.requests = _spread_over_seconds(log.requests)
        log.notes.append("times within a second: the log has whole seconds, over which its requests are spread evenly")
    log.notes.append("conversations: vLLM logs no id of them")


def _ids(pattern: re.Pattern[str], text: str) -> int | None:
    """How many ids the last such list has; None if they were not logged."""
    match = pattern.match(text)
    if match is None or match[1] == "None":
        return None
    return match[1].count(",") + 1 if match[1] != "[]" else 0


def _spread_over_seconds(requests: list[LoggedRequest]) -> list[LoggedRequest]:
    by_second: dict[float, list[LoggedRequest]] = {}
    for request in requests:
        by_second.setdefault(request.at, []).append(request)
    return [
        replace(request, at=at + (i + 0.5) / len(several)) for at, several in sorted(by_second.items()) for i, request in enumerate(several)
    ]


# LiteLLM.

_GENERATES = re.compile(r"a?(text_)?completion|anthropic_messages|a?responses|a?generate_content(_stream)?")


def _litellm(text: str, name: str, log: AccessLog) -> None:
    sessions = False
    for where, number, record in _objects(text, name):
        if not isinstance(record, Mapping):
            raise UnusableFile(f"{where} is not an object; expected one")
        if (record.get("status") or "success") != "success":
            log.skip("failed")
            continue
        if not _GENERATES.fullmatch(str(record.get("call_type") or "acompletion")):
            log.skip("no generation of text (call_type)")
            continue
        for required in ("startTime", "prompt_tokens", "completion_tokens"):
            if required not in record:
                raise UnusableFile(f"{where} has no {required}; expected a spend log or a StandardLoggingPayload")
        if str(record.get("cache_hit")).lower() == "true":
            log.skip("answered by the gateway's cache")
            continue
        at = _moment(where, "startTime", record["startTime"])
        ended = _moment(where, "endTime", record["endTime"]) if record.get("endTime") else None
        conversation = record.get("session_id") or record.get("trace_id")
        sessions = sessions or conversation is not None
        read, written = (_parse_int(where, key, record[key]) for key in ("prompt_tokens", "completion_tokens"))
        log.requests.append(LoggedRequest(number, at, read, written, ended, None if conversation is None else str(conversation)))
    if not sessions:
        log.notes.append("conversations: no request has a session_id or a trace_id")


_READERS: dict[LogFormat, Callable[[str, str, AccessLog], None]] = {"vllm": _vllm, "litellm": _litellm}
