"""Parse the HTTP responses of OpenAI and KServe endpoints into token times, or into an error class and its detail."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from plumbline.harness.inference.load.request_log import STAGES, ErrorClass
from plumbline.harness.inference.load.wire import SERVER_TIMES, Wire

_LONGEST = 4 * 2**20


class EventTooLong(ValueError): ...


class EventStream:
    """Collects bytes and gives the data of each event that is complete.

    Lines end with LF, CR LF or CR; `data` lines of one event are joined by LF; comments and other fields are left out.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """Data of the events that are complete now; EventTooLong if one exceeds 4 MiB."""
        received = self._rest + received
        # A CR at the end may be the first half of a CR LF.
        ends_in_cr = received.endswith(b"\r")
        if b"\r" in received:
            received = received[: len(received) - ends_in_cr].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + b"\r" * ends_in_cr
        *lines, self._rest = received.split(b"\n")
        events = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif not line and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        if len(self._rest) + sum(map(len, self._data)) > _LONGEST:
            raise EventTooLong(f"an event is longer than {_LONGEST} bytes")
        return events


# What a response means for a request: its tokens with their times, or what is wrong with it.
#
# An answer is fed the bytes of one successful (2xx) body as they come, and told when the body is complete. It knows no connection and no
# clock; times are handed in.


class InvalidResponse(Exception):
    """An invalid answer: class and detail of the request's failure."""

    def __init__(self, error: ErrorClass, detail: str) -> None:
        super().__init__(detail)
        self.error: ErrorClass = error
        self.detail = detail


@dataclass
class CompletedResponse:
    """`token_at`: arrival of each token, in the caller's clock; tokens that came together share one. `server_s` [len(STAGES)]: reported times.
    `usage`: the server's own count, see USAGE; None: it reported none."""

    token_at: list[float]
    server_s: list[float] | None = None
    usage: tuple[int, ...] | None = None


class ResponseReader(Protocol):
    @property
    def arrived(self) -> list[float]:
        """A moment for each event with a token so far."""
        ...

    def feed(self, data: bytes, now: float) -> None:
        """The next bytes, which arrived at `now`."""
        ...

    def complete(self) -> CompletedResponse:
        """The body has ended as HTTP says it must."""
        ...


@dataclass
class OpenAiResponse:
    """A stream of /completions or /chat/completions. `asked` output tokens; `exact`: exactly as many, else at most."""

    asked: int
    exact: bool
    sent_tokens: int | None = None
    _events: EventStream = field(default_factory=EventStream)
    _with_text: list[float] = field(default_factory=list)
    _all: list[float] = field(default_factory=list)
    _usage: dict[str, Any] | None = None
    _done: bool = False

    @property
    def arrived(self) -> list[float]:
        return self._with_text

    def feed(self, data: bytes, now: float) -> None:
        for event in _complete(self._events, data):
            if event == b"[DONE]":
                self._done = True
            else:
                self._chunk(_object(event), now)

    def _chunk(self, chunk: dict[str, Any], now: float) -> None:
        # Some servers send "error": null with each chunk.
        if error := chunk.get("error"):
            raise _stream_error(error)
        if usage := chunk.get("usage"):
            self._usage = usage
        choices = chunk.get("choices")
        if not choices and chunk.get("object") == "error":
            raise _stream_error(chunk)
        for choice in choices or ():
            text = _text(choice)
            # The first chunk of a chat only says who speaks, the last one why it ended: neither is a token.
            if text:
                self._with_text.append(now)
                self._all.append(now)
            elif text == "" and "role" not in (choice.get("delta") or ()):
                self._all.append(now)
            if (reason := choice.get("finish_reason")) is not None and reason in _BROKEN_OFF:
                raise InvalidResponse("server_error", f"the server ended the answer: finish_reason {reason}")

    def complete(self) -> CompletedResponse:
        if not self._done:
            raise InvalidResponse("server_error", f"the stream ended without [DONE], after {len(self._with_text)} events with text")
        prompt, _, count = usage = usage_counts(self._usage or {})
        counted = count >= 0
        tokens = count if counted else len(self._with_text)
        if tokens > self.asked or (tokens < self.asked and self.exact):
            what = "tokens" if counted else "events and no usage that counts their tokens"
            raise InvalidResponse("wrong_output", f"{tokens} {what}; expected {self.asked} tokens")
        if self.sent_tokens is not None and prompt not in (-1, self.sent_tokens):
            raise InvalidResponse("wrong_output", f"the server read {prompt} tokens of a prompt of {self.sent_tokens} token ids")
        # A token may be no whole character and so have no text of its own; then there are as many events as tokens.
        times = self._all if len(self._all) <= tokens else self._with_text
        if not times or tokens == 0:
            raise InvalidResponse("wrong_output", f"no event with text, although {tokens} tokens were counted")
        if len(times) > tokens:
            raise InvalidResponse("wrong_output", f"{len(times)} events with text, although only {tokens} tokens were counted")
        return CompletedResponse(spread(times, tokens), usage=usage if counted else None)


@dataclass
class GenerateResponse:
    """A stream of KServe's generate_stream: one event a token, with the model's output tensors as JSON."""

    wire: Wire
    asked: int
    input_tokens: int | None = None
    _events: EventStream = field(default_factory=EventStream)
    _times: list[float] = field(default_factory=list)
    _last: dict[str, Any] = field(default_factory=dict)

    @property
    def arrived(self) -> list[float]:
        return self._times

    def feed(self, data: bytes, now: float) -> None:
        for event in _complete(self._events, data):
            chunk = _object(event)
            if "error" in chunk:
                raise _stream_error(chunk["error"])
            for name in self.wire.responses:
                if name not in chunk:
                    raise InvalidResponse("wrong_output", f"token {len(self._times)} has no {name}")
            if self.wire.index is not None and chunk[self.wire.index] != len(self._times):
                raise InvalidResponse(
                    "wrong_output",
                    f"token {len(self._times)} has index {chunk[self.wire.index]}; a token was lost, doubled or overtaken",
                )
            self._times.append(now)
            self._last = chunk

    def complete(self) -> CompletedResponse:
        if len(self._times) != self.asked and not (self.wire.natural and 0 < len(self._times) < self.asked):
            raise InvalidResponse("wrong_output", f"{len(self._times)} tokens; expected {self.asked}")
        for name in self.wire.last:
            if name not in self._last:
                raise InvalidResponse("wrong_output", f"the last token has no {name}")
        reported = self._last.get("INPUT_TOKENS")
        if reported is not None and self.input_tokens is not None and reported != self.input_tokens:
            raise InvalidResponse(
                "wrong_output", f"tokenizer mismatch: the server made {reported} tokens of a prompt of {self.input_tokens}"
            )
        return CompletedResponse(self._times, _stage_seconds(self._last.get(SERVER_TIMES)))


@dataclass
class InferResponse:
    """An answer of KServe's infer with binary tensors: one piece, whose tensors must have their sizes. `header_bytes` of its JSON part;
    None if the response did not say."""

    wire: Wire
    header_bytes: int | None = None
    _body: bytearray = field(default_factory=bytearray)
    _at: float = 0.0

    @property
    def arrived(self) -> list[float]:
        """In one piece or not at all."""
        return []

    def feed(self, data: bytes, now: float) -> None:
        self._body += data
        self._at = now

    def complete(self) -> CompletedResponse:
        length = len(self._body) if self.header_bytes is None else self.header_bytes
        header = _object(bytes(self._body[:length]))
        at, sizes, times = length, {}, None
        for output in header.get("outputs") or ():
            name, size = output.get("name"), (output.get("parameters") or {}).get("binary_data_size", 0)
            sizes[name] = min(size, len(self._body) - at)
            if name == SERVER_TIMES and sizes[name] == 8 * len(STAGES):
                times = np.frombuffer(bytes(self._body[at : at + size]), "<f8").tolist()
            at += size
        for name, expected in {**self.wire.responses, **self.wire.last}.items():
            if sizes.get(name, 0) != expected and not (expected < 0 < sizes.get(name, 0)):
                raise InvalidResponse(
                    "wrong_output", f"{sizes.get(name, 0)} bytes of {name}; expected {expected if expected >= 0 else 'some'}"
                )
        return CompletedResponse([self._at], times)


def spread(times: list[float], tokens: int) -> list[float]:
    """Arrivals of `tokens` tokens that came in as many events as there are `times`, evenly shared: tokens of one event arrived together."""
    return [times[i * len(times) // tokens] for i in range(tokens)] if len(times) < tokens else times


def _complete(events: EventStream, data: bytes) -> list[bytes]:
    try:
        return events.feed(data)
    except EventTooLong as error:
        raise InvalidResponse("server_error", str(error)) from error


def _object(text: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise InvalidResponse("server_error", f"not JSON ({error}): {text[:80].decode('utf-8', 'replace')}") from error
    if not isinstance(parsed, dict):
        raise InvalidResponse("server_error", f"not a JSON object: {text[:80].decode('utf-8', 'replace')}")
    return parsed


def _text(choice: dict[str, Any]) -> str | None:
    """The text of a choice, empty if it has some that is empty; None if the chunk carries none."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return _string(choice.get("text"))
    content = _string(delta.get("content"))
    if content:
        return content
    # Thoughts are tokens too: they are generated, counted in the usage and paid for. Servers call them either.
    return _string(delta.get("reasoning_content")) or _string(delta.get("reasoning")) or content


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


_BROKEN_OFF = ("error", "abort")
"""Values of finish_reason of an answer that the server did not finish."""


def usage_counts(usage: dict[str, Any]) -> tuple[int, int, int]:
    """As USAGE names them; -1: not reported."""
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return _count(prompt), _count(cached), _count(completion)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else -1


def _stream_error(error: Any) -> InvalidResponse:
    limited = isinstance(error, dict) and str(error.get("code")) in ("429", "rate_limit_exceeded")
    return InvalidResponse("rate_limited" if limited else "server_error", f"error in the stream: {_error_text(error)}")


def _error_text(error: Any) -> str:
    message = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(message).split())[:300]


def _stage_seconds(seconds: Any) -> list[float] | None:
    return [float(v) for v in seconds] if isinstance(seconds, list) and len(seconds) == len(STAGES) else None
