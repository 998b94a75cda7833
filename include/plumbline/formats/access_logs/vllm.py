"""The log of `vllm serve --enable-log-requests`, with `--enable-log-outputs` for the answers' lengths.

Lines of several loggers, of which those of the request logger matter; a date without a year."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from plumbline.formats.reading.access_log import AccessLog, AccessLogFormat, LoggedRequest
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.formats.registry import register

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


@register
class VllmLog(AccessLogFormat):
    name = "vllm"
    order = 10
    expected = 'lines with "Received request", of vllm serve --enable-log-requests'
    hint = "vLLM logs the prompts' ids with VLLM_LOGGING_LEVEL=DEBUG, the answers' with --enable-log-outputs"

    def matches(self, text: str, name: str) -> bool:
        return _RECEIVED.search(text) is not None

    def read(self, text: str, name: str, log: AccessLog) -> None:
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
