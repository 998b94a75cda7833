"""HTTP/1.1 transport: requests are serialized before the load; each connection carries one request at a time and stays open."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

import httptools

from plumbline.loadclient.event_stream import InvalidResponse
from plumbline.loadclient.http_requests import request_prefix
from plumbline.loadclient.http_responses import MAX_INFLATED_BODY, ContentDecoder, GenerateResponse, InferResponse, quoted
from plumbline.loadclient.openai_responses import OpenAiResponse
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import ErrorClass
from plumbline.loadclient.round_trip import split_address, tls_context
from plumbline.loadclient.stated_errors import asked_wait, body_message, status_class
from plumbline.loadclient.transport import Sink, Target
from plumbline.loadclient.wire import INPUT_TOKENS

_HEADER_LENGTH = b"inference-header-content-length"


def request_path(target: Target) -> str:
    own = {
        "openai": "/completions",
        "openai_chat": "/chat/completions",
        "kserve_http": f"/v2/models/{target.wire.model}/{'generate_stream' if target.wire.method == 'stream' else 'infer'}",
    }
    return target.url(own[target.protocol])


def http_transport(target: Target, load: PhaseLoad, bodies: Sequence[bytes] | Mapping[int, bytes]) -> Http1:
    """The transport of one phase's load over HTTP/1.1; `bodies[i]` is request i, as `Endpoint.body` makes it."""

    def answer_of(number: int, headers: Headers) -> ResponseReader:
        if target.protocol != "kserve_http":
            sent = int(load.input_tokens[number]) if INPUT_TOKENS in target.wire.last else None
            kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
            return OpenAiResponse(int(load.output_tokens[number]), target.exact, sent, kind)
        if target.wire.method == "stream":
            return GenerateResponse(target.wire, int(load.output_tokens[number]), int(load.input_tokens[number]) or None)
        length = headers.get(_HEADER_LENGTH, b"")
        return InferResponse(target.wire, int(length) if length.isdigit() else None)

    return Http1(
        split_address(target.address),
        tls_context() if target.tls else None,
        request_prefix(target.address, request_path(target), target.headers),
        bodies,
        answer_of,
        ready=int((load.after < 0).sum()) if load.closed else 0,
        quoted=target.quoted,
        waits=target.waits,
    )


ResponseReader = GenerateResponse | InferResponse | OpenAiResponse
Headers = dict[bytes, bytes]
ReaderFactory = Callable[[int, Headers], ResponseReader]
"""Makes the reader of the answer to request `number`, by the answer's headers (names in lower case)."""
_QUOTED_BYTES = 65536
_REFUSED_FOR_NOW = (429, 503)
_READY = 64
_IDLE_S = 1.0
"""A connection that was idle for so long may be closed by the server, as HTTP servers do after some seconds, while a request is on its way."""


class Http1:
    """A Transport. `prefix` + `bodies[number]` is request `number`; `quoted` makes one line of a server's words; `ready` connections are opened
    before the load, some tens at least; `waits`: see Target."""

    most = 900  # below the usual limit of open files

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
        prefix: bytes,
        bodies: Sequence[bytes] | Mapping[int, bytes],
        answer_of: ReaderFactory,
        quoted: Callable[[str], str] = str,
        ready: int = 0,
        waits: bool = False,
    ) -> None:
        # Ready before the load, so that a handshake is no delay of a request: it would be the client's, not the server's.
        self.first = min(len(bodies), max(ready, _READY), self.most)
        self.received = 0
        self._address, self._tls = address, tls
        self.prefix, self.bodies, self.answer_of, self.quoted, self.waits = prefix, bodies, answer_of, quoted, waits

    async def connect(self, loop: asyncio.AbstractEventLoop, sink: Sink) -> Http1Connection:
        host, port = self._address
        _, connection = await loop.create_connection(
            lambda: Http1Connection(self, loop, sink), host, port, ssl=self._tls, server_hostname=host if self._tls else None
        )
        return connection


class Http1Connection(asyncio.Protocol):
    def __init__(self, http: Http1, loop: asyncio.AbstractEventLoop, sink: Sink) -> None:
        self._http, self._loop, self._sink = http, loop, sink
        self._parser = httptools.HttpResponseParser(self)
        self._number: int | None = None
        self._at = self._sent_at = 0.0
        self._idle = False
        self._clear()
        self._open = True

    def _clear(self) -> None:
        self._headers: Headers = {}
        self._answer: ResponseReader | None = None
        self._refusal = bytearray()
        self._status = 0
        self._by_end = self._reported = False
        self._decoder: ContentDecoder | None = None
        self._received = 0

    # Connection

    @property
    def usable(self) -> bool:
        return self._open

    @property
    def stale(self) -> bool:
        return self._number is None and time.monotonic() - self._at >= _IDLE_S

    def send(self, number: int) -> bool:
        """See Connection.send: there is never room for another one."""
        self._clear()
        self._number = number
        now = time.monotonic()
        self._idle = now - self._at >= _IDLE_S
        self._sent_at = now
        self._transport.writelines([self._http.prefix, self._http.bodies[number]])
        return False

    def cancel(self, number: int) -> None:
        """See Connection.cancel. HTTP/1.1 knows no other way than to close."""
        if self._number == number:
            self._number = None
            self._transport.abort()

    def close(self) -> None:
        self._number, self._open = None, False
        self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._at = time.monotonic()

    def data_received(self, data: bytes) -> None:
        self._at = time.monotonic()
        self._http.received += len(data)
        if self._number is None:
            self._transport.abort()  # nobody asked
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._broken("server_error", f"the response is not HTTP/1.1: {error}")
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        crossed = self._number if self._idle and self._at <= self._sent_at else None
        self._at = time.monotonic()
        why = f" ({error})" if error else ""
        if crossed is not None:
            self._number = None
        elif self._number is not None:
            if self._by_end or (self._answer is not None and self._answer.over):
                self._finish_response()
            elif self._status:
                self._broken("server_error", f"the connection was closed in the middle of the answer{why}")
            else:
                self._broken("unreachable", f"the connection was closed before an answer came{why}")
        if self._open:
            self._open = False
            self._sink.lost(self, f"the connection was closed{why}")
            if crossed is not None:
                self._sink.turned_away([crossed], f"the server closed the idle connection{why}", self._at)

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # 100 Continue and the like: the answer follows
            self._headers = {}
            return
        self._status = status
        # Without a length and without chunks the body ends with the connection.
        chunked = b"chunked" in self._headers.get(b"transfer-encoding", b"").lower()
        self._by_end = b"content-length" not in self._headers and not chunked
        coding = self._headers.get(b"content-encoding", b"identity").strip().lower()
        if coding not in (b"identity", b""):
            self._decoder = ContentDecoder(coding)
        if self._number is not None and 200 <= status < 300:
            self._answer = self._http.answer_of(self._number, self._headers)

    def on_body(self, data: bytes) -> None:
        if self._answer is not None:
            self._try(lambda answer: answer.feed(self._bounded(data), self._at), data)
        elif len(self._refusal) < _QUOTED_BYTES:
            with suppress(InvalidResponse):
                said = data if self._decoder is None else self._decoder.decoded(data)
                self._refusal += said[: _QUOTED_BYTES - len(self._refusal)]

    def _bounded(self, data: bytes) -> bytes:
        """A piece of the body, decoded. InvalidResponse for one that goes on and on."""
        if self._decoder is not None:
            return self._decoder.decoded(data)
        self._received += len(data)
        if self._received > MAX_INFLATED_BODY:
            raise InvalidResponse("server_error", f"the body has more than {MAX_INFLATED_BODY:,} bytes; expected an answer")
        return data

    def on_message_complete(self) -> None:
        if not self._status:
            return
        keep = self._parser.should_keep_alive() and not self._by_end
        self._finish_response()
        if keep:
            # Not at once: the engine may send on this very connection, and the parser is not done with this message.
            self._loop.call_soon(self._ready)
        else:
            self._transport.abort()

    def _ready(self) -> None:
        if self._open and self._number is None:
            self._sink.room(self)

    def _finish_response(self) -> None:
        if self._number is None:
            return
        if self._answer is None:
            location = self._headers.get(b"location", b"").decode("latin-1")
            to = f" to {self._http.quoted(location)}, which is not followed" if location and 300 <= self._status < 400 else ""
            stated = body_message(bytes(self._refusal))
            error, wait = status_class(self._status), asked_wait(self._headers)
            after = f", {wait.words}" if wait else ""
            said = self._http.quoted(stated.message)
            why = f"HTTP {self._status}{to}{after}{': ' + said if said else ''}"
            if stated.refused_content:
                why = f"the server refused the content: {why}"
            # Unless that is declared, the request is not sent again: its user would have waited, and the next are due at their own times.
            if wait is not None and self._http.waits and self._status in _REFUSED_FOR_NOW:
                number, self._number = self._number, None
                self._sink.told_to_wait(number, wait.seconds, error, why, self._at)
                return
            self._sink.fail(self._number, error, why)
        elif not self._reported:
            self._try(self._outcome)
        self._end()

    def _outcome(self, answer: ResponseReader) -> None:
        outcome = answer.complete()
        assert self._number is not None
        self._reported = True
        for at in outcome.token_at:
            self._sink.token(self._number, at)
        if outcome.server_s is not None:
            self._sink.server_times(self._number, tuple(outcome.server_s))
        if outcome.usage is not None:
            self._sink.usage(self._number, outcome.usage)
        if outcome.remark is not None:
            self._sink.remark(self._number, replace(outcome.remark, note=self._http.quoted(outcome.remark.note)))

    def _try(self, step: Callable[[ResponseReader], None], data: bytes = b"") -> None:
        """A step of the answer, with `data`; after its first mistake the rest of the body is only read to its end."""
        answer, number = self._answer, self._number
        if answer is None or number is None or self._reported:
            return
        try:
            step(answer)
        except InvalidResponse as wrong:
            self._tell_arrived(answer, number)
            self._sink.fail(number, wrong.error, self._http.quoted(wrong.detail))
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            self._tell_arrived(answer, number)
            what = f"an answer of an unknown form ({type(error).__name__}: {error}): {quoted(data)}"
            self._sink.fail(number, "invalid_response", self._http.quoted(what))

    def _tell_arrived(self, answer: ResponseReader, number: int) -> None:
        self._reported = True
        for at in answer.arrived:
            self._sink.token(number, at)

    def _broken(self, error: ErrorClass, detail: str) -> None:
        if self._number is None:
            return
        if self._answer is not None and not self._reported:
            self._tell_arrived(self._answer, self._number)
        self._sink.fail(self._number, error, detail)
        self._end()

    def _end(self) -> None:
        number, self._number = self._number, None
        if number is not None:
            self._sink.ended(number, self._at)
