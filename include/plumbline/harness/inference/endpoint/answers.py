"""What a response means for a request: its tokens with their times, or what is wrong with it.

An answer is fed the bytes of one successful (2xx) body as they come, and told when the body is complete. It knows no connection and no
clock; times are handed in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from plumbline.harness.inference.endpoint.sse import Events, EventTooLong
from plumbline.harness.inference.requestlog import STAGES, ErrorClass
from plumbline.harness.inference.wire import SERVER_TIMES, Wire


class WrongAnswer(Exception):
    """The answer is not what was asked for: class and detail of the request's failure."""

    def __init__(self, error: ErrorClass, detail: str) -> None:
        super().__init__(detail)
        self.error: ErrorClass = error
        self.detail = detail


@dataclass
class Outcome:
    """What an answer came to. `token_at`: arrival of each token, in the caller's clock; tokens that came together have the same one.
    `server_s` [len(STAGES)] if it told its times."""

    token_at: list[float]
    server_s: list[float] | None = None


class Answer(Protocol):
    """One body being received. Both methods raise WrongAnswer."""

    @property
    def arrived(self) -> list[float]:
        """When what has come so far came, a moment for each event with a token."""
        ...

    def feed(self, data: bytes, now: float) -> None:
        """The next bytes, which arrived at `now`."""
        ...

    def complete(self) -> Outcome:
        """The body has ended as HTTP says it must."""
        ...


@dataclass
class OpenAiAnswer:
    """A stream of /completions or /chat/completions. `asked` output tokens; `exact`: so many must come, else at most so many."""

    asked: int
    exact: bool
    sent_tokens: int | None = None
    _events: Events = field(default_factory=Events)
    _with_text: list[float] = field(default_factory=list)
    _all: list[float] = field(default_factory=list)
    _usage: dict[str, Any] | None = None
    _done: bool = False

    @property
    def arrived(self) -> list[float]:
        """See Answer.arrived."""
        return self._with_text

    def feed(self, data: bytes, now: float) -> None:
        """See Answer.feed."""
        for event in _complete(self._events, data):
            if event == b"[DONE]":
                self._done = True
            else:
                self._chunk(_object(event), now)

    def _chunk(self, chunk: dict[str, Any], now: float) -> None:
        if "error" in chunk:
            raise WrongAnswer("server_error", f"error in the stream: {_words(chunk['error'])}")
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            text = _text(choice)
            # The first chunk of a chat only says who speaks, the last one why it ended: neither is a token.
            if text:
                self._with_text.append(now)
                self._all.append(now)
            elif text == "" and "role" not in (choice.get("delta") or ()):
                self._all.append(now)

    def complete(self) -> Outcome:
        """See Answer.complete."""
        if not self._done:
            raise WrongAnswer("server_error", f"the stream ended without [DONE], after {len(self._with_text)} events with text")
        usage = self._usage or {}
        count = usage.get("completion_tokens")
        tokens = int(count) if isinstance(count, int) else len(self._with_text)
        if tokens > self.asked or (tokens < self.asked and self.exact):
            raise WrongAnswer("wrong_output", f"{tokens} tokens; expected {self.asked}")
        prompt = usage.get("prompt_tokens")
        if self.sent_tokens is not None and isinstance(prompt, int) and prompt != self.sent_tokens:
            raise WrongAnswer("wrong_output", f"the server read {prompt} tokens of a prompt of {self.sent_tokens} token ids")
        # A token may be no whole character and so have no text of its own; then there are as many events as tokens.
        times = self._all if len(self._all) <= tokens else self._with_text
        if not times or tokens == 0:
            raise WrongAnswer("wrong_output", f"no event with text, although {tokens} tokens were counted")
        if len(times) > tokens:
            raise WrongAnswer("wrong_output", f"{len(times)} events with text, although only {tokens} tokens were counted")
        return Outcome(spread(times, tokens))


@dataclass
class GenerateAnswer:
    """A stream of KServe's generate_stream: one event a token, with the model's output tensors as JSON."""

    wire: Wire
    asked: int
    input_tokens: int | None = None
    _events: Events = field(default_factory=Events)
    _times: list[float] = field(default_factory=list)
    _last: dict[str, Any] = field(default_factory=dict)

    @property
    def arrived(self) -> list[float]:
        """See Answer.arrived."""
        return self._times

    def feed(self, data: bytes, now: float) -> None:
        """See Answer.feed."""
        for event in _complete(self._events, data):
            chunk = _object(event)
            if "error" in chunk:
                raise WrongAnswer("server_error", f"error in the stream: {_words(chunk['error'])}")
            for name in self.wire.responses:
                if name not in chunk:
                    raise WrongAnswer("wrong_output", f"token {len(self._times)} has no {name}")
            if self.wire.index is not None and chunk[self.wire.index] != len(self._times):
                raise WrongAnswer(
                    "wrong_output",
                    f"token {len(self._times)} has index {chunk[self.wire.index]}; a token was lost, doubled or overtaken",
                )
            self._times.append(now)
            self._last = chunk

    def complete(self) -> Outcome:
        """See Answer.complete."""
        if len(self._times) != self.asked:
            raise WrongAnswer("wrong_output", f"{len(self._times)} tokens; expected {self.asked}")
        for name in self.wire.last:
            if name not in self._last:
                raise WrongAnswer("wrong_output", f"the last token has no {name}")
        told = self._last.get("INPUT_TOKENS")
        if told is not None and self.input_tokens is not None and told != self.input_tokens:
            raise WrongAnswer("wrong_output", f"tokenizer mismatch: the server made {told} tokens of a prompt of {self.input_tokens}")
        return Outcome(self._times, _stages(self._last.get(SERVER_TIMES)))


@dataclass
class InferAnswer:
    """An answer of KServe's infer with binary tensors: one piece, whose tensors must have their sizes. `header_bytes` of its JSON part;
    None if the response did not say."""

    wire: Wire
    header_bytes: int | None = None
    _body: bytearray = field(default_factory=bytearray)
    _at: float = 0.0

    @property
    def arrived(self) -> list[float]:
        """See Answer.arrived: in one piece or not at all."""
        return []

    def feed(self, data: bytes, now: float) -> None:
        """See Answer.feed."""
        self._body += data
        self._at = now

    def complete(self) -> Outcome:
        """See Answer.complete."""
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
                raise WrongAnswer("wrong_output", f"{sizes.get(name, 0)} bytes of {name}; expected {expected if expected >= 0 else 'some'}")
        return Outcome([self._at], times)


def spread(times: list[float], tokens: int) -> list[float]:
    """Arrivals of `tokens` tokens that came in as many events as there are `times`, evenly shared: tokens of one event arrived together."""
    return [times[i * len(times) // tokens] for i in range(tokens)] if len(times) < tokens else times


def _complete(events: Events, data: bytes) -> list[bytes]:
    try:
        return events.feed(data)
    except EventTooLong as error:
        raise WrongAnswer("server_error", str(error)) from error


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise WrongAnswer("server_error", f"no JSON ({error}): {text[:80].decode('utf-8', 'replace')}") from error
    if not isinstance(found, dict):
        raise WrongAnswer("server_error", f"no JSON object: {text[:80].decode('utf-8', 'replace')}")
    return found


def _text(choice: dict[str, Any]) -> str | None:
    """The text of a choice, empty if it has some that is empty; None if the chunk carries none."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return _string(choice.get("text"))
    # Thoughts are tokens too: they are generated, counted in the usage and paid for.
    return _string(delta.get("content")) or _string(delta.get("reasoning_content")) or _string(delta.get("content"))


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _words(error: Any) -> str:
    said = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(said).split())[:300]


def _stages(told: Any) -> list[float] | None:
    return [float(v) for v in told] if isinstance(told, list) and len(told) == len(STAGES) else None
