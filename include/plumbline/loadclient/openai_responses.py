"""Read an answer of OpenAI's completions or chat completions: a stream of events, or a whole object where the server did not stream."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from plumbline.loadclient.event_stream import EventStream, InvalidResponse, NamedError
from plumbline.loadclient.http_responses import CompletedResponse, quoted, spread
from plumbline.loadclient.request_log import Remark
from plumbline.loadclient.stated_errors import MESSAGE_LENGTH, StatedError, body_message, stated_error, status_class

_BROKEN_OFF = frozenset(("error", "abort", "aborted", "cancelled", "timeout", "network_error", "insufficient_system_resource"))
"""Values of finish_reason of an answer that the server did not finish."""
_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
_FIELD = re.compile(rb"[A-Za-z_-]{1,20}:")
"""What a line of an event stream begins with."""
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Fields of a delta with a thought's text: servers name it either way, and some both ways at once."""
_MARKS = 8
"""Tokens of an answer that may have no text, such as its end."""
_KEEP_ALIVE = frozenset((b"", b"ping", b"keepalive", b"keep-alive", b"heartbeat", b"null", b'"ping"'))


@dataclass
class OpenAiResponse:
    """`asked` output tokens; `exact`: exactly as many, else at most. `sent_tokens`: of a prompt of token ids. `content_type`: of the response,
    named where the body is no event stream.

    An event with text is an arrival of tokens, whatever the text is: an answer's content, a thought, a call of a tool, a refusal, a transcript
    of audio. The server's usage says how many tokens those were."""

    asked: int
    exact: bool
    sent_tokens: int | None = None
    content_type: str = ""
    _events: EventStream = field(default_factory=EventStream)
    _times: list[float] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _empty: list[tuple[int, float]] = field(default_factory=list)
    """Events with an empty text: how many had come with one, and when."""
    _content_at: float | None = None
    _thought: bool = False
    _not_text: str = ""
    _usage: dict[str, Any] | None = None
    _finish: str = ""
    _skipped: int = 0
    _strange: bytes = b""
    _whole: bytearray | None = None
    _began: bool = False
    _at: float = 0.0
    over: bool = False

    @property
    def arrived(self) -> list[float]:
        return self._times

    def feed(self, data: bytes, now: float) -> None:
        if not self._began:
            beginning = data.lstrip(b"\xef\xbb\xbf \t\r\n")
            if not beginning:
                return
            self._began = True
            # By what it is: servers label streams as JSON, and errors as streams. The first bytes may be few.
            named = _FIELD.match(beginning) if "event-stream" in self.content_type else None
            if named is None and not any(beginning.startswith(name) or name.startswith(beginning) for name in _FIELDS):
                self._whole = bytearray()
        self._at = now
        if self._whole is not None:
            self._whole += data
            return
        for event in self._events.feed(data):
            self._event(event, now)

    def _event(self, event: bytes, now: float) -> None:
        if event == b"[DONE]":
            self.over = True
            return
        if type(event) is NamedError:
            raise _stated(stated_error(event.decode("utf-8", "replace")))
        try:
            chunk = json.loads(event.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            if event.strip() == b"[DONE]":
                self.over = True
                return
            if event.lstrip().startswith(b":") or event.strip().lower() in _KEEP_ALIVE:
                self._skipped += 1
                return
            raise InvalidResponse("server_error", f"not JSON ({error}): {quoted(event)}") from error
        try:
            self._chunk(chunk, event, now)
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            raise InvalidResponse(
                "invalid_response", f"an event of an unknown form ({type(error).__name__}: {error}): {quoted(event)}"
            ) from error

    def _chunk(self, chunk: Any, event: bytes, now: float) -> None:
        if isinstance(chunk, list) and chunk and isinstance(chunk[0], dict):
            chunk = chunk[0]
        if type(chunk) is not dict:
            if chunk is None or isinstance(chunk, str):
                self._skipped += 1
                return
            raise InvalidResponse("server_error", f"not a JSON object: {quoted(event)}")
        # Some servers send "error": null with each chunk.
        if error := chunk.get("error"):
            raise _stated(stated_error(error, chunk))
        if usage := chunk.get("usage"):
            self._usage = usage
        choices = chunk.get("choices")
        if not choices:
            if choices is None and _is_error(chunk):
                raise _stated(stated_error(chunk))
            self._strange = self._strange or event
            return
        for choice in choices:
            delta = choice.get("delta") or choice.get("message")
            text = choice.get("text") if delta is None else delta.get("content")
            if text and type(text) is str:
                if self._content_at is None:
                    self._content_at = now
            elif error := choice.get("error"):
                raise _stated(stated_error(error, choice))
            elif delta is not None:
                text = self._other_text(delta, now)
            if text:
                self._times.append(now)
                self._texts.append(text)
            elif text is not None and (delta is None or "role" not in delta):
                self._empty.append((len(self._times), now))
            if reason := choice.get("finish_reason"):
                self._ended(choice, chunk, str(reason))

    def _ended(self, choice: dict[str, Any], chunk: dict[str, Any], reason: str) -> None:
        self._finish = reason
        # Moonshot counts in the choice, Groq in an object of its own.
        self._usage = self._usage or choice.get("usage") or (chunk.get("x_groq") or {}).get("usage")
        if reason in _BROKEN_OFF:
            raise InvalidResponse("server_error", f"the server ended the answer: finish_reason {reason}")

    def _other_text(self, delta: dict[str, Any], now: float) -> str | None:
        """The text of a delta whose content is no text, empty if it has an empty one; None if it carries none. Thoughts are tokens too: they
        are generated, counted in the usage and paid for."""
        content = delta.get("content")
        said, thought = _parts(content) if isinstance(content, list) else ("", "")
        called = _calls(delta)
        if called is not None:
            said += called
            self._not_text = self._not_text or f"a tool call, not text: {called}"
        if isinstance(refusal := delta.get("refusal"), str) and refusal:
            said += refusal
            self._not_text = self._not_text or f"a refusal, not text: {refusal}"
        if isinstance(audio := delta.get("audio"), dict):
            said += str(audio.get("transcript") or audio.get("data") or "")
        if said and self._content_at is None:
            self._content_at = now
        if not said:
            reasons = (delta.get(name) for name in _THOUGHTS)
            thought = thought or next((each for each in reasons if isinstance(each, str) and each), "")
            if not thought and isinstance(details := delta.get("reasoning_details"), list):
                thought = "".join(str(each.get("text") or each.get("summary") or "") for each in details if isinstance(each, dict))
            self._thought = self._thought or bool(thought)
        text = said or thought
        return text or ("" if content == "" or called is not None else None)

    def complete(self) -> CompletedResponse:
        if self._whole is not None:
            self._read_whole(bytes(self._whole))
        elif not self._began:
            raise InvalidResponse("server_error", "the answer has an empty body")
        elif (last := self._events.unfinished()) and not self.over:
            self._event(last, self._at)  # its empty line was left out
        if self._whole is None and not self.over and not self._finish:
            raise InvalidResponse("server_error", f"the stream ended without [DONE], after {len(self._times)} events with text")
        prompt, cached, count, thoughts = usage_counts(self._usage or {}, self.asked)
        if count < len(self._texts) > 2 and self._texts[-1] == "".join(self._texts[:-1]):
            # The whole answer once more, as its own last event.
            self._texts.pop()
            self._times.pop()
        events = len(self._times)
        if not events:
            raise InvalidResponse("server_error", self._why_empty(count, thoughts))
        # Less than came is no count: some servers send 0, or leave out what they generated ahead.
        counted = count >= events
        tokens = count if counted else events
        if tokens > self.asked or (tokens < self.asked and self.exact):
            self._wrong_length(tokens, counted)
        if self.sent_tokens is not None and prompt > self.sent_tokens:
            raise InvalidResponse("wrong_output", f"the server read {prompt} tokens of a prompt of {self.sent_tokens} token ids")
        unsent = self._unsent(tokens, thoughts) if counted else 0
        notes = (
            self._not_text and f"answered by {self._not_text}"[:MESSAGE_LENGTH],
            "" if self._whole is None else f"did not stream ({self.content_type})",
            f"{self._skipped} events skipped that are no JSON, as comments are" if self._skipped else "",
        )
        note = "; ".join(each for each in notes if each)
        reasoned = self._thought or thoughts > 0
        remark = Remark(reasoned, self._content_at, unsent, note) if reasoned or unsent or note else None
        usage = (prompt, cached, count if counted else -1, thoughts)
        return CompletedResponse(spread(self._arrivals(tokens), tokens - unsent), usage=usage if self._usage else None, remark=remark)

    def _arrivals(self, tokens: int) -> list[float]:
        """Moments at which tokens came. An empty event between two with text may be a token that is no whole character, but a keep-alive looks
        alike: it counts only if these events explain the count of tokens."""
        events = len(self._times)
        between = [(place, at) for place, at in self._empty if 0 < place < events]
        if not between or not events + len(between) <= tokens <= events + len(self._empty):
            return self._times
        return sorted([*self._times, *(at for _, at in between)])

    def _unsent(self, tokens: int, thoughts: int) -> int:
        """Counted tokens that did not come: hidden thoughts, or more tokens than the text has bytes. Marks around a call of a tool are never sent,
        and a few elsewhere."""
        most = tokens - len(self._times)
        if thoughts > 0 and not self._thought:
            return min(thoughts, most)
        silent = tokens - len("".join(self._texts).encode("utf-8", "surrogatepass")) - len(self._empty)
        return min(silent, most) if silent > _MARKS and not self._not_text else 0

    def _wrong_length(self, tokens: int, counted: bool) -> None:
        what = f"{tokens} {'tokens' if counted else 'events and no usage that counts their tokens'}; expected {self.asked} tokens"
        if self._not_text:
            raise InvalidResponse("server_error", f"answered by {self._not_text}; {what}")
        raise InvalidResponse("wrong_output", what)

    def _why_empty(self, count: int, thoughts: int) -> str:
        counts = f", although {count} tokens were counted" + (f", {thoughts} of them thoughts" if thoughts > 0 else "") if count > 0 else ""
        finish = f"; finish_reason {self._finish}" if self._finish else ""
        strange = f"; first event without choices: {quoted(self._strange)}" if self._strange else ""
        return f"the answer is empty: no event with text{counts}{finish}{strange}"

    def _read_whole(self, body: bytes) -> None:
        """A body that is no event stream: a whole answer, or words that say why there is none."""
        kind = self.content_type or "a body"
        try:
            answer = json.loads(body.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not answer.get("choices"):
            raise _stated(body_message(body), f"HTTP 200 with {kind}, no event stream")
        message = answer["choices"][0].get("message") if isinstance(answer["choices"][0], dict) else None
        if isinstance(message, dict) and any(thoughts := {name: message.get(name) for name in _THOUGHTS}):
            answer["choices"] = [{"delta": thoughts}, *answer["choices"]]
        self._event(json.dumps(answer).encode(), self._at)


def _stated(error: StatedError, where: str = "") -> InvalidResponse:
    """The failure of a request whose answer holds an error."""
    if error.refused_content:
        return InvalidResponse("server_error", f"the server refused the content: {error.message}")
    status = "" if error.status is None else f"error {error.status} in the stream: "
    return InvalidResponse(
        "server_error" if error.status is None else status_class(error.status),
        f"{status or ('' if where else 'error in the stream: ')}{where + ': ' if where else ''}{error.message}",
    )


def _is_error(chunk: dict[str, Any]) -> bool:
    """Whether an object without choices is an error by its form."""
    if chunk.get("object") == "error" or chunk.get("type") == "error" or {"detail", "errors", "__type"} & set(chunk):
        return True
    if isinstance(chunk.get("message"), str):
        return any(name in chunk for name in ("code", "status", "type", "statusCode", "status_code"))
    return any(name.endswith("Exception") for name in chunk)


def _calls(delta: dict[str, Any]) -> str | None:
    """Name and arguments of the calls of tools in a delta; None if it has none."""
    calls = [each.get("function") or each.get("custom") or {} for each in delta.get("tool_calls") or ()]
    if isinstance(function := delta.get("function_call"), dict):
        calls.append(function)
    if not calls:
        return None
    return "".join(str(call.get(name) or "") for call in calls for name in ("name", "arguments", "input"))


def _parts(content: list[Any]) -> tuple[str, str]:
    """Text and thoughts of a content in parts."""
    said = thought = ""
    for part in content:
        if isinstance(part, str):
            said += part
        elif isinstance(part, dict):
            inner = part.get("thinking") or part.get("reasoning")
            if inner:
                thought += inner if isinstance(inner, str) else _parts(inner)[0]
            else:
                said += str(part.get("text") or part.get("refusal") or "")
    return said, thought


def usage_counts(usage: dict[str, Any], asked: int | None = None) -> tuple[int, int, int, int]:
    """As request_log.USAGE names them; -1: not reported. `asked`: at most so many output tokens.

    Thoughts are output tokens. Some servers leave them out of their count of those; then the total contains them."""
    prompt, completion = _count(usage, "prompt_tokens", "input_tokens"), _count(usage, "completion_tokens", "output_tokens")
    cached = _count(_fields(usage, "prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    thoughts = _count(_fields(usage, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens")
    thoughts = thoughts if thoughts >= 0 else _count(usage, "reasoning_tokens")
    apart = _count(usage, "total_tokens") - prompt - completion
    if (
        asked is not None
        and prompt >= 0
        and completion > 0
        and apart <= asked - completion
        and (thoughts == apart > 0 or (thoughts <= 0 and apart > _MARKS))
    ):
        return prompt, cached, completion + apart, apart
    return prompt, cached, completion, thoughts


def _fields(usage: dict[str, Any], *names: str) -> dict[str, Any]:
    return next((usage[name] for name in names if isinstance(usage.get(name), dict)), {})


def _count(fields: dict[str, Any], *names: str) -> int:
    value = next((fields[name] for name in names if fields.get(name) is not None), -1)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**31 else -1
