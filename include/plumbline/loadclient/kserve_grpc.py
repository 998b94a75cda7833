"""KServe v2 over gRPC: one HTTP/2 connection, its streams and its flow control."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import unquote

from plumbline.loadclient import http2
from plumbline.loadclient.http2 import Outbox, grpc_error, http_error, reset_error
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.responses import MessageReader, RecordingChecker, ResponseChecker, ResponseProgress
from plumbline.loadclient.transport import Bodies, Connection, Sink, Target

_SERVICE = "/inference.GRPCInferenceService/"


class GrpcTransport:
    """Opens connections to one server for one phase's load; `bodies[i]` is request i, serialised."""

    # Over one connection all that is due at a moment leaves with one call of the system; a server that limits its streams may need more.
    first, most = 1, 32

    def __init__(self, target: Target, load: PhaseLoad, bodies: Bodies) -> None:
        self._target, self._load, self._bodies = target, load, bodies
        self._connections: list[GrpcConnection] = []
        # Tritonserver up to 24.11 can crash when the cancellation of a unary request meets its answer. Whoever waits no longer for one just
        # does not listen any more; the answer to a stream is long, and there our models see to it that the two do not meet.
        self._cancels = target.wire.method == "stream"
        self._tls = ssl.create_default_context() if target.tls else None
        if self._tls is not None:
            self._tls.set_alpn_protocols(["h2"])
        host, _, port = target.address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._block = http2.request_block(
            [
                (":method", "POST"),
                (":scheme", "https" if target.tls else "http"),
                (":path", _SERVICE + ("ModelStreamInfer" if target.wire.method == "stream" else "ModelInfer")),
                (":authority", target.address),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                *((name.lower(), value) for name, value in target.headers.items()),
            ]
        )

    async def connect(self, loop: asyncio.AbstractEventLoop, sink: Sink) -> Connection:
        wire, outputs = self._target.wire, self._target.outputs
        answers = ResponseChecker(wire, self._load, sink) if outputs is None else RecordingChecker(wire, self._load, sink, outputs)
        reader = MessageReader(wire, answers, sink)
        connecting = loop.create_connection(
            lambda: GrpcConnection(sink, self._block, self._bodies, reader, answers, cancels=self._cancels),
            self._host,
            self._port,
            ssl=self._tls,
        )
        transport, connection = await connecting
        try:
            await connection.ready
        except BaseException:
            transport.abort()
            raise
        self._connections.append(connection)
        return connection

    @property
    def received(self) -> int:
        return sum(connection.received for connection in self._connections)


_WRITE_BUFFER = 4 << 20
_REFILL = 1 << 29
_LAST = http2.END_HEADERS | http2.END_STREAM


class GrpcConnection(asyncio.Protocol):
    """One connection. `block`: the request headers. `cancels`: given-up requests are cancelled on the server. `ready`: done once the server has
    announced its limits, OSError if it hangs up before."""

    def __init__(
        self,
        sink: Sink,
        block: bytes,
        bodies: Bodies,
        reader: MessageReader,
        answers: ResponseChecker,
        *,
        cancels: bool = True,
        first_stream: int = 1,
    ) -> None:
        self._sink, self._block, self._bodies, self._answers = sink, block, bodies, answers
        self._read = reader.read
        self._cancels = cancels
        self._heads = http2.HeaderBlocks()
        self._rest = b""
        self._open_block: tuple[int, int, bytearray] | None = None
        self._unreturned = self.received = 0
        self._calls: dict[int, StreamState] = {}
        self._streams: dict[int, int] = {}
        self._next = first_stream
        self._most = 100
        self._congested = self._over = False
        self._offered = True
        self._why = ""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # What the engine asks for.

    def send(self, number: int) -> bool:
        stream, body = self._next, self._bodies[number]
        self._next = stream + 2
        self._calls[stream] = StreamState(number, stream)
        self._streams[number] = stream
        out = self._out
        out.request(stream, body)
        self._offered = len(self._calls) < self._most and not (self._congested or self._over or out.blocked)
        if self._next > http2.LAST_STREAM:
            self._retire("its stream numbers are used up")
        return self._offered

    def cancel(self, number: int) -> None:
        stream = self._streams.pop(number)
        if self._cancels:
            self._out.forget(stream)
            del self._calls[stream]
            self._out.write(http2.frame(http2.RST_STREAM, 0, stream, http2.CANCEL.to_bytes(4, "big")))
            self._left_one()
        else:
            # What flow control holds back of its message still goes out: a server that waits for the rest would keep the stream for ever.
            self._calls[stream].given_up = True

    def close(self) -> None:
        self._over = True
        self._out.flush()
        if self._calls:
            self._calls.clear()
            self._transport.abort()
        else:
            self._transport.close()

    @property
    def usable(self) -> bool:
        return not self._over

    stale = False

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's does not say that it is one
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)
        self._out = Outbox(asyncio.get_running_loop(), transport, self._block)
        # No table on our side (see HeaderBlocks), nothing pushed, and as much credit as there is: the server never waits for us.
        ours = {http2.HEADER_TABLE_SIZE: 0, http2.ENABLE_PUSH: 0, http2.INITIAL_WINDOW_SIZE: http2.LARGEST_WINDOW}
        credit = (http2.LARGEST_WINDOW - http2.DEFAULT_WINDOW).to_bytes(4, "big")
        self._out.write(http2.PREFACE + http2.settings(ours) + http2.frame(http2.WINDOW_UPDATE, 0, 0, credit))

    def connection_lost(self, error: Exception | None) -> None:
        why = self._why or f"the connection broke: {error or 'the server closed it'}"
        at = time.monotonic()
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(why))
        self._out.clear()
        calls, self._calls = self._calls, {}
        self._streams.clear()
        self._retire(why)
        for call in calls.values():
            if not call.given_up:
                self._sink.fail(call.number, "unreachable", why)
                self._sink.ended(call.number, at)

    def pause_writing(self) -> None:
        self._congested, self._offered = True, False

    def resume_writing(self) -> None:
        self._congested = False
        self._offer()

    def data_received(self, data: bytes) -> None:
        at = time.monotonic()
        self.received += len(data)
        buffer = self._rest + data if self._rest else data
        position, end, heads = 0, len(buffer), self._heads
        try:
            while end - position >= 9:
                high, low, kind, flags, stream = http2.unpack_head(buffer, position)
                begin, after = position + 9, position + 9 + (high << 8 | low)
                if after - begin > http2.DEFAULT_FRAME:
                    raise http2.ProtocolError(f"a frame of {after - begin} bytes; at most {http2.DEFAULT_FRAME} were allowed")
                if after > end:
                    break
                position = after
                if self._open_block is not None and kind != http2.CONTINUATION:
                    raise http2.ProtocolError(f"frame type {kind} inside a header block")
                if kind == http2.DATA:
                    self._data(stream, flags, buffer[begin:after], at)
                elif kind == http2.HEADERS:
                    # Nearly all answers begin and end alike, with headers that say nothing but that all is well.
                    block = buffer[begin:after]
                    if flags == _LAST and block in heads.well_ended:
                        if (call := self._calls.get(stream)) is not None:
                            self._well_ended(call, at)
                    elif flags != http2.END_HEADERS or block not in heads.well_begun:
                        self._headers(stream, flags, block, at)
                else:
                    self._control(kind, flags, stream, buffer[begin:after], at)
        except http2.ProtocolError as error:
            self._why = f"the server broke HTTP/2's rules: {error}"
            self._transport.abort()
            return
        self._rest = buffer[position:]

    # Frames.

    def _data(self, stream: int, flags: int, payload: bytes, at: float) -> None:
        self._unreturned += len(payload)
        if self._unreturned >= _REFILL:
            self._out.write(http2.frame(http2.WINDOW_UPDATE, 0, 0, self._unreturned.to_bytes(4, "big")))
            self._unreturned = 0
        call = self._calls.get(stream)
        if call is None or call.given_up:
            return  # what was under way still comes
        if flags & http2.PADDED:
            payload = http2.without_padding(flags & http2.PADDED, payload)
        size = len(payload)
        if call.partial is None and size >= 5 and int.from_bytes(payload[:5], "big") == size - 5:
            self._read(call, payload[5:], at)  # one whole, uncompressed message: nearly always
        else:
            for message in call.messages(payload):
                if message is None:
                    self._sink.fail(call.number, "wrong_output", "a compressed message, which was not asked for")
                else:
                    self._read(call, message, at)
        if flags & http2.END_STREAM and stream in self._calls:
            self._sink.fail(call.number, "server_error", "the stream ended without a status")
            self._finish(call, at)

    def _headers(self, stream: int, flags: int, payload: bytes, at: float) -> None:
        if flags & (http2.PADDED | http2.WITH_PRIORITY):
            payload = http2.without_padding(flags, payload)
        if flags & http2.END_HEADERS:
            self._head(stream, flags, self._heads.read(payload), at)
        else:
            self._open_block = (stream, flags, bytearray(payload))

    def _head(self, stream: int, flags: int, head: http2.Head, at: float) -> None:
        call = self._calls.get(stream)
        if call is None:
            return
        if head.http_status not in (None, "200"):
            self._sink.fail(call.number, *http_error(str(head.http_status)))
        if not flags & http2.END_STREAM:
            return
        if head.grpc_status is None:
            self._sink.fail(call.number, "server_error", "the stream ended without a status")
        elif head.grpc_status:
            self._sink.fail(call.number, *grpc_error(head.grpc_status, unquote(head.grpc_message)))
        else:
            self._well_ended(call, at)
            return
        self._finish(call, at)

    def _well_ended(self, call: StreamState, at: float) -> None:
        if call.partial:
            self._sink.fail(call.number, "wrong_output", f"the stream ended {len(call.partial)} bytes into a message")
        else:
            self._answers.close(call)
        self._finish(call, at)

    def _control(self, kind: int, flags: int, stream: int, payload: bytes, at: float) -> None:
        if kind == http2.CONTINUATION:
            if self._open_block is None or self._open_block[0] != stream:
                raise http2.ProtocolError("a continuation of nothing")
            self._open_block[2].extend(payload)
            if flags & http2.END_HEADERS:
                begun, self._open_block = self._open_block, None
                self._head(stream, begun[1], self._heads.read(bytes(begun[2])), at)
        elif kind == http2.SETTINGS:
            if not flags & http2.ACK:
                self._settings(http2.read_settings(payload))
        elif kind == http2.WINDOW_UPDATE:
            self._out.credit(stream, http2.uint31(payload, 0))
            self._offer()
        elif kind == http2.PING:
            if not flags & http2.ACK:
                self._out.write(http2.frame(http2.PING, http2.ACK, 0, payload))
        elif kind == http2.RST_STREAM:
            if (call := self._calls.get(stream)) is not None:
                self._sink.fail(call.number, *reset_error(http2.uint31(payload, 0)))
                self._finish(call, at)
        elif kind == http2.GOAWAY:
            self._goaway(http2.uint31(payload, 0), http2.uint31(payload, 4), at)
        elif kind == http2.PUSH_PROMISE:
            raise http2.ProtocolError("a promise to push, which was not allowed")

    def _settings(self, values: Mapping[int, int]) -> None:
        self._out.write(http2.frame(http2.SETTINGS, http2.ACK, 0))
        self._most = values.get(http2.MAX_CONCURRENT_STREAMS, self._most if self.ready.done() else http2.LARGEST_WINDOW)
        self._out.settings(values)
        if not self.ready.done():
            self.ready.set_result(None)
        self._offer()

    def _goaway(self, last: int, code: int, at: float) -> None:
        why = f"the server closes the connection: {http2.error_name(code)}"
        # First of all: with each that ends there is room for one that waited, and that must not be sent here.
        self._retire(why)
        # The server has not looked at the streams above the last one (RFC 9113, 6.8): they may go to another connection.
        turned_away = []
        for call in [call for stream, call in self._calls.items() if stream > last]:
            if call.responses:
                self._sink.fail(call.number, "unreachable", f"{why}, although it had begun to answer")
                self._finish(call, at)
                continue
            del self._calls[call.stream]
            self._out.forget(call.stream)
            if not call.given_up:
                del self._streams[call.number]
                turned_away.append(call.number)
        self._left_one()
        self._sink.turned_away(turned_away, why, at)

    # Streams and room for more of them.

    def _finish(self, call: StreamState, at: float) -> None:
        del self._calls[call.stream]
        if self._out.blocked and self._out.forget(call.stream):
            # The answer is complete, the question is not: the server need not wait for the rest.
            self._out.write(http2.frame(http2.RST_STREAM, 0, call.stream, http2.NO_ERROR.to_bytes(4, "big")))
        if not call.given_up:
            del self._streams[call.number]
            self._sink.ended(call.number, at)
        if self._over or not self._offered:
            self._left_one()

    def _has_room(self) -> bool:
        return not (self._congested or self._over or self._out.blocked) and len(self._calls) < self._most

    def _offer(self) -> None:
        if not self._offered and self._has_room():
            self._offered = True
            self._sink.room(self)

    def _left_one(self) -> None:
        self._offer()
        if self._over and not self._calls:
            self._transport.close()

    def _retire(self, why: str) -> None:
        if not self._over:
            self._over, self._offered, self._why = True, False, why
            self._sink.lost(self, why)
            if not self._calls:
                self._transport.close()


class StreamState(ResponseProgress):
    """`partial`: an incomplete message; `given_up`: the client no longer waits."""

    __slots__ = ("given_up", "partial", "stream")

    def __init__(self, number: int, stream: int) -> None:
        # Not by way of super(): one is made for each request.
        self.number, self.stream = number, stream
        self.responses = self.tokens = 0
        self.final = self.given_up = False
        self.partial: bytearray | None = None

    def messages(self, payload: bytes) -> Iterator[bytes | None]:
        """The messages that are whole with this payload, without gRPC's five bytes before each; None for a compressed one."""
        buffer = self.partial if self.partial is not None else bytearray()
        buffer += payload
        begin = 0
        while len(buffer) - begin >= 5 and len(buffer) - begin - 5 >= (size := int.from_bytes(buffer[begin + 1 : begin + 5], "big")):
            yield None if buffer[begin] else bytes(buffer[begin + 5 : begin + 5 + size])
            begin += 5 + size
        del buffer[:begin]
        self.partial = buffer or None
