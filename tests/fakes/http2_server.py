"""An HTTP/2 server built on the h2 library, which knows the protocol by itself and refuses what breaks it. It answers KServe's unary calls
in the ways that a correct server may and in some that it may not.

    with Http2Server(most_streams=2, ways={3: "reset"}) as server:
        ...              # load server.address
    server.most_open     # what it saw
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from typing import Any, Literal

import h2.config
import h2.connection
import h2.events
import h2.settings
from hyperframe.frame import GoAwayFrame
from tritonclient.grpc import service_pb2 as messages

Right = Literal["plain", "in_pieces", "padded", "pinged", "goaway", "answer_as_last", "turned_away"]
Wrong = Literal[
    "always_turned_away",
    "long_trailers",
    "reset",
    "refused",
    "http_503",
    "no_trailers",
    "unfinished",
    "compressed",
    "no_message",
    "two_messages",
]
Way = Right | Wrong | Literal["garbage", "broken_frame", "silent"]
VECTOR = bytes(range(64))


@dataclass
class _Stream:
    body: bytearray = field(default_factory=bytearray)


class _Connection(asyncio.Protocol):
    def __init__(self, server: Http2Server) -> None:
        self.server = server
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.streams: dict[int, _Stream] = {}
        self.last: int | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self.server.connections == self.server.most_connections:
            transport.abort()
            return
        self.server.connections += 1
        self.h2.initiate_connection()
        codes = h2.settings.SettingCodes
        self.h2.update_settings({codes.MAX_CONCURRENT_STREAMS: self.server.most_streams, codes.INITIAL_WINDOW_SIZE: self.server.window})
        self.flush()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self.h2.receive_data(data):
                self.on(event)
        except Exception as error:
            self.server.errors.append(repr(error))
            raise
        finally:
            self.flush()

    def on(self, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.streams[event.stream_id] = _Stream()
            self.server.headers.append(dict(event.headers))
            self.server.most_open = max(self.server.most_open, len(self.streams))
        elif isinstance(event, h2.events.DataReceived):
            self.streams[event.stream_id].body += event.data
            # Credit comes back a moment later, so that the client has to wait for it.
            loop, size = asyncio.get_running_loop(), event.flow_controlled_length
            loop.call_later(self.server.credit_after_s, self.credit, size, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            asyncio.get_running_loop().call_later(self.server.delay_s, self.answer, event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.streams.pop(event.stream_id, None)
            self.server.resets.append(event.error_code)
        elif isinstance(event, h2.events.PingAckReceived):
            self.server.pongs.append(event.ping_data)

    def credit(self, size: int, stream: int) -> None:
        if size and stream in self.streams:
            self.h2.acknowledge_received_data(size, stream)
            self.flush()

    def answer(self, stream: int) -> None:
        asked = self.streams.pop(stream, None)
        if asked is None or (self.last is not None and stream > self.last):
            return
        request = messages.ModelInferRequest.FromString(bytes(asked.body[5:]))
        self.server.received[int(request.id)] = sum(map(len, request.raw_input_contents))
        way = self.server.ways.get(int(request.id), "plain")
        if way in ("answer_as_last", "turned_away"):
            del self.server.ways[int(request.id)]
        getattr(self, way)(stream)
        self.flush()

    # The ways.

    def begin(self, stream: int, status: str = "200") -> None:
        self.h2.send_headers(stream, [(":status", status), ("content-type", "application/grpc"), ("x-server", "h2")])

    def end(self, stream: int, message: str = "") -> None:
        self.h2.send_headers(stream, [("grpc-status", "13" if message else "0"), ("grpc-message", message)], end_stream=True)

    def plain(self, stream: int) -> None:
        self.begin(stream)
        self.h2.send_data(stream, framed(response()))
        self.end(stream)

    def in_pieces(self, stream: int) -> None:
        self.begin(stream)
        data = framed(response())
        for at in range(0, len(data), 3):
            self.h2.send_data(stream, data[at : at + 3])
            self.flush()
        self.end(stream)

    def padded(self, stream: int) -> None:
        self.begin(stream)
        self.h2.send_data(stream, framed(response()), pad_length=100)
        self.end(stream)

    def long_trailers(self, stream: int) -> None:
        """More than one frame of them: HEADERS and CONTINUATION."""
        self.begin(stream)
        self.end(stream, "so%20long " + "".join(chr(97 + i * i % 26) for i in range(40_000)))

    def pinged(self, stream: int) -> None:
        self.h2.ping(b"plumblin")
        self.plain(stream)

    def reset(self, stream: int) -> None:
        self.begin(stream)
        self.h2.reset_stream(stream, 2)

    def refused(self, stream: int) -> None:
        self.h2.reset_stream(stream, 7)

    def goaway(self, stream: int) -> None:
        """This one is answered still; the next must come over another connection."""
        self.plain(stream)
        self.h2.close_connection(last_stream_id=stream)

    def last_stream(self, stream: int) -> None:
        """The library would refuse all that is still under way: the frame is written beside it."""
        self.last = stream
        self.flush()
        self.transport.write(GoAwayFrame(0, last_stream_id=stream).serialize())

    def answer_as_last(self, stream: int) -> None:
        self.last_stream(stream)
        self.plain(stream)

    def turned_away(self, stream: int) -> None:
        """Nothing that came over this connection will be answered, and this request on another one."""
        self.last_stream(0)

    always_turned_away = turned_away

    def http_503(self, stream: int) -> None:
        self.h2.send_headers(stream, [(":status", "503")], end_stream=True)

    def no_trailers(self, stream: int) -> None:
        self.begin(stream)
        self.h2.send_data(stream, framed(response()), end_stream=True)

    def unfinished(self, stream: int) -> None:
        self.begin(stream)
        self.h2.send_data(stream, framed(response())[:20])
        self.end(stream)

    def compressed(self, stream: int) -> None:
        self.begin(stream)
        self.h2.send_data(stream, b"\1" + framed(response())[1:])
        self.end(stream)

    def no_message(self, stream: int) -> None:
        self.begin(stream)
        self.end(stream)

    def two_messages(self, stream: int) -> None:
        self.begin(stream)
        self.h2.send_data(stream, 2 * framed(response()))
        self.end(stream)

    def garbage(self, stream: int) -> None:
        self.begin(stream)
        self.h2.send_data(stream, framed(b"\xff\xff\xff"))
        self.end(stream)

    def broken_frame(self, stream: int) -> None:
        """A frame that is larger than was ever allowed."""
        self.flush()
        self.transport.write((1 << 20).to_bytes(3, "big") + b"\0\0" + stream.to_bytes(4, "big") + bytes(100))

    def silent(self, stream: int) -> None:
        """Never an answer; the stream stays open."""
        self.streams[stream] = _Stream()

    def flush(self) -> None:
        self.transport.write(self.h2.data_to_send())


def framed(message: bytes) -> bytes:
    """A message as gRPC frames it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def response() -> bytes:
    """A right answer."""
    made = messages.ModelInferResponse(model_name="m")
    made.outputs.add(name="VECTOR", datatype="FP32", shape=[16])
    made.raw_output_contents.append(VECTOR)
    return bytes(made.SerializeToString())


class Http2Server:
    """The server as a context manager, on a loop in a thread of its own. `window`: each stream's bytes before credit is needed, which
    comes `credit_after_s` after the bytes. Connections beyond `most_connections` are hung up."""

    def __init__(
        self,
        *,
        most_streams: int = 1000,
        window: int = 65_535,
        credit_after_s: float = 0.001,
        delay_s: float = 0.0,
        ways: dict[int, Way] | None = None,
        most_connections: int = 10_000,
    ) -> None:
        self.most_connections = most_connections
        self.most_streams, self.window, self.credit_after_s, self.delay_s, self.ways = (
            most_streams,
            window,
            credit_after_s,
            delay_s,
            ways or {},
        )
        self.connections = self.most_open = 0
        self.received: dict[int, int] = {}
        self.headers: list[dict[str, str]] = []
        self.resets: list[int] = []
        self.pongs: list[bytes] = []
        self.errors: list[str] = []

    def __enter__(self) -> Http2Server:
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        self._loop.close()
