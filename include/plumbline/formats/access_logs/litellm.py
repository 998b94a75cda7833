"""LiteLLM's spend logs, or its StandardLoggingPayload, as JSON lines or a JSON array."""

from __future__ import annotations

import re
from collections.abc import Mapping

from plumbline.formats.reading.access_log import AccessLog, AccessLogFormat, LoggedRequest, moment_of, objects, whole_number
from plumbline.formats.reading.text_file import UnusableFile
from plumbline.formats.registry import register

_GENERATES = re.compile(r"a?(text_)?completion|anthropic_messages|a?responses|a?generate_content(_stream)?")


@register
class LitellmLog(AccessLogFormat):
    name = "litellm"
    order = 20
    expected = "objects with startTime, prompt_tokens and completion_tokens"
    hint = "prompt_tokens and completion_tokens"

    def matches(self, text: str, name: str) -> bool:
        try:
            first = next(objects(text, name))[2]
        except (UnusableFile, StopIteration):
            return False
        return isinstance(first, Mapping) and "startTime" in first

    def read(self, text: str, name: str, log: AccessLog) -> None:
        sessions = False
        for where, number, record in objects(text, name):
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
            at = moment_of(where, "startTime", record["startTime"])
            ended = moment_of(where, "endTime", record["endTime"]) if record.get("endTime") else None
            conversation = record.get("session_id") or record.get("trace_id")
            sessions = sessions or conversation is not None
            read, written = (whole_number(where, key, record[key]) for key in ("prompt_tokens", "completion_tokens"))
            log.requests.append(LoggedRequest(number, at, read, written, ended, None if conversation is None else str(conversation)))
        if not sessions:
            log.notes.append("conversations: no request has a session_id or a trace_id")
