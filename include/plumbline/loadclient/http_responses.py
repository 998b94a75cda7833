"""What a response over HTTP means for a request, and those of KServe: its tokens with their times, or what is wrong with it.

A response is fed the bytes of one successful (2xx) body as they come (`feed`, with the moment of their arrival), and told when the body is
complete as HTTP says it must (`complete`). `arrived`: a moment for each event with a token so far; `over`: nothing is missing, whether or not the
body has ended. It knows no connection and no clock.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plumbline.loadclient.event_stream import EventStream, InvalidResponse
from plumbline.loadclient.request_log import STAGES, Remark
from plumbline.loadclient.stated_errors import MESSAGE_LENGTH, stated_error, status_class
from plumbline.loadclient.wire import SERVER_TIMES, Wire

MAX_INFLATED_PIECE = 8 * 2**20
"""Most bytes that one piece of a body becomes: a socket gives 256 KiB at most, and deflate packs up to 1,032 bytes into one."""
MAX_INFLATED_BODY = 32 * 2**20
"""Most bytes that a body becomes: more than the longest answer of 100,000 tokens as events."""


class ContentDecoder:
    """Decodes a body that was compressed although that was not asked for. Each piece may be a stream of its own."""

    def __init__(self, coding: bytes) -> None:
        self._coding = coding
        self._stream: Any = None
        self._inflated = 0

    def decoded(self, data: bytes) -> bytes:
        """InvalidResponse for an unknown coding, for bytes that are not in it, and for more of them than a piece or a body may become."""
        if self._coding not in (b"gzip", b"x-gzip", b"deflate"):
            raise InvalidResponse("server_error", f"Content-Encoding {self._name} came where identity was asked for")
        out = bytearray()
        most = min(MAX_INFLATED_PIECE, MAX_INFLATED_BODY - self._inflated)
        try:
            while data:
                if self._stream is None or self._stream.eof:
                    # Deflate is zlib's format by its definition, and a bare stream in practice.
                    bare = self._coding == b"deflate" and (data[0] & 0x0F != 8 or data[0] >> 4 > 7)
                    self._stream = zlib.decompressobj(-zlib.MAX_WBITS if bare else zlib.MAX_WBITS | 32)
                out += self._stream.decompress(data, most - len(out) + 1)
                if len(out) > most:
                    self._inflated = MAX_INFLATED_BODY  # the rest of the body is refused too
                    self._stream = None
                    limit = f"{MAX_INFLATED_PIECE:,} bytes in one piece, or {MAX_INFLATED_BODY:,} in all"
                    raise InvalidResponse("server_error", f"the body inflates beyond {limit}, by its Content-Encoding {self._name}")
                data = self._stream.unused_data if self._stream.eof else b""
        except zlib.error as error:
            raise InvalidResponse("server_error", f"the body is not in its Content-Encoding {self._name}: {error}") from error
        self._inflated += len(out)
        return bytes(out)

    @property
    def _name(self) -> str:
        return self._coding.decode("latin-1")


@dataclass
class CompletedResponse:
    """`token_at`: arrival of each token, in the caller's clock; tokens that came together share one. `server_s` [len(STAGES)]: reported times.
    `usage`: the server's own count, see USAGE; None: it reported none."""

    token_at: list[float]
    server_s: list[float] | None = None
    usage: tuple[int, ...] | None = None
    remark: Remark | None = None


@dataclass
class GenerateResponse:
    """A stream of KServe's generate_stream: one event a token, with the model's output tensors as JSON."""

    wire: Wire
    asked: int
    input_tokens: int | None = None
    _events: EventStream = field(default_factory=EventStream)
    _times: list[float] = field(default_factory=list)
    over: bool = False
    _last: dict[str, Any] = field(default_factory=dict)

    @property
    def arrived(self) -> list[float]:
        return self._times

    def feed(self, data: bytes, now: float) -> None:
        for event in self._events.feed(data):
            chunk = _object(event)
            if "error" in chunk:
                stated = stated_error(chunk["error"], chunk)
                raise InvalidResponse(status_class(stated.status or 500), f"error in the stream: {stated.message}")
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
        seconds = self._last.get(SERVER_TIMES)
        known = isinstance(seconds, list) and len(seconds) == len(STAGES)
        return CompletedResponse(self._times, list(map(float, seconds or ())) if known else None)


@dataclass
class InferResponse:
    """An answer of KServe's infer with binary tensors: one piece, whose tensors must have their sizes. `header_bytes` of its JSON part;
    None if the response did not say."""

    wire: Wire
    header_bytes: int | None = None
    _body: bytearray = field(default_factory=bytearray)
    _at: float = 0.0
    over: bool = False

    @property
    def arrived(self) -> list[float]:
        """Empty: the answer comes in one piece or not at all."""
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


def quoted(text: bytes) -> str:
    """The beginning of a text."""
    return text[: MESSAGE_LENGTH // 2].decode("utf-8", "replace")


def _object(text: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidResponse("server_error", f"not JSON ({error}): {quoted(text)}") from error
    if not isinstance(parsed, dict):
        raise InvalidResponse("server_error", f"not a JSON object: {quoted(text)}")
    return parsed
