"""HTTP/2 frames (RFC 9113) and header blocks (RFC 7541) of a gRPC client, its outgoing queue, and the error class of each status."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import hpack

from plumbline.loadclient.request_log import ErrorClass
from plumbline.loadclient.stated_errors import status_class

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, WITH_PRIORITY = 0x4, 0x8, 0x20
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE = range(1, 6)
NO_ERROR, CANCEL = 0x0, 0x8
ERRORS = (
    *("NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR"),
    *("REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"),
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DEFAULT_WINDOW, LARGEST_WINDOW, DEFAULT_FRAME, LAST_STREAM = 65_535, 2**31 - 1, 16_384, 2**31 - 1

unpack_head = struct.Struct(">HBBBI").unpack_from
"""The nine bytes before each frame's payload: length (upper 16 bits, lower 8), type, flags, stream."""
_SETTING = struct.Struct(">HI")
_REMEMBERED = 1024


class ProtocolError(Exception):
    """The peer sent what HTTP/2 does not allow; the connection cannot be used any more."""


@dataclass(frozen=True)
class Head:
    """The relevant fields of a response's headers or trailers; None for a missing one."""

    http_status: str | None
    grpc_status: int | None
    grpc_message: str


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def settings(values: Mapping[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    if len(payload) % _SETTING.size:
        raise ProtocolError(f"SETTINGS of {len(payload)} bytes; expected a multiple of {_SETTING.size}")
    return dict(_SETTING.iter_unpack(payload))


def uint31(payload: bytes, at: int) -> int:
    """The 31 bits at a place of a control frame's payload."""
    if len(payload) < at + 4:
        raise ProtocolError(f"a control frame of {len(payload)} bytes; expected at least {at + 4}")
    return int.from_bytes(payload[at : at + 4], "big") & 0x7FFFFFFF


def error_name(code: int) -> str:
    return ERRORS[code] if code < len(ERRORS) else f"error {code}"


def without_padding(flags: int, payload: bytes) -> bytes:
    """A DATA or HEADERS frame's payload without padding and priority."""
    front = back = 0
    if flags & PADDED:
        front, back = 1, payload[0] if payload else 1
    if flags & WITH_PRIORITY:
        front += 5
    if front + back > len(payload):
        raise ProtocolError(f"a frame of {len(payload)} bytes with {front + back} bytes of padding and priority")
    return payload[front : len(payload) - back]


def request_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Request headers as one block that leaves no trace in the peer's table, so that it can be sent with any request."""
    return bytes(hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*pair) for pair in headers], huffman=False))


class HeaderBlocks:
    """Reads response headers. The peer keeps no table (HEADER_TABLE_SIZE 0): equal blocks mean equal headers, so repeated ones are decoded once.
    `well_begun`, `well_ended`: blocks without an error, before an answer and after it."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder()
        self._decoder.max_allowed_table_size = self._decoder.header_table_size = 0
        self._seen: dict[bytes, Head] = {}
        self.well_begun: set[bytes] = set()
        self.well_ended: set[bytes] = set()

    def read(self, block: bytes) -> Head:
        """The head in a complete header block; ProtocolError if it is none."""
        known = self._seen.get(block)
        if known is not None:
            return known
        try:
            headers = {_text(name): _text(value) for name, value in self._decoder.decode(block)}
        except (hpack.HPACKError, UnicodeDecodeError) as error:
            raise ProtocolError(f"unreadable headers: {error}") from error
        status = headers.get("grpc-status")
        if status is not None and not status.isdecimal():
            raise ProtocolError(f"grpc-status is {status!r}; expected a number")
        head = Head(headers.get(":status"), None if status is None else int(status), headers.get("grpc-message", ""))
        if len(self._seen) < _REMEMBERED:
            self._seen[bytes(block)] = head
            if head.http_status == "200" and head.grpc_status is None:
                self.well_begun.add(bytes(block))
            elif head.http_status in (None, "200") and head.grpc_status == 0:
                self.well_ended.add(bytes(block))
        return head


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


_DATA_END = bytes((DATA, END_STREAM))
_PLAIN = b"\x00"
"""Before each message: it is not compressed."""


class _BlockedMessage:
    __slots__ = ("message", "stream", "window")

    def __init__(self, stream: int, message: bytes, window: int) -> None:
        self.stream, self.message, self.window = stream, memoryview(message), window


class Outbox:
    """The outgoing bytes of one connection. All that one turn of the loop writes leaves with one system call: at thousands of requests a second
    those calls are most of a client's cost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, block: bytes) -> None:
        self._loop, self._transport, self._block = loop, transport, block
        self._before = len(block).to_bytes(3, "big") + bytes((HEADERS, END_HEADERS))
        # Between a request's stream and its message stands the same for all messages of one length; `_alike`: of which these are.
        self._alike, self._middle, self._prefix = -1, b"", b""
        self._ready: list[bytes] = []
        self._held: deque[_BlockedMessage] = deque()
        self._window = self._initial = DEFAULT_WINDOW
        self._largest_frame = DEFAULT_FRAME

    @property
    def blocked(self) -> bool:
        """Whether something waits for the peer's credit."""
        return bool(self._held)

    def write(self, frames: bytes) -> None:
        if not self._ready:
            self._loop.call_soon(self._flush)
        self._ready.append(frames)

    def request(self, stream: int, body: bytes) -> None:
        """Send a request's headers and what flow control allows of its message."""
        name, length = stream.to_bytes(4, "big"), len(body)
        size = length + 5
        if size <= self._window and size <= self._initial and size <= self._largest_frame and not self._held:
            self._window -= size
            if length != self._alike:
                self._alike = length
                self._middle = self._block + size.to_bytes(3, "big") + _DATA_END
                self._prefix = _PLAIN + length.to_bytes(4, "big")
            if not self._ready:
                self._loop.call_soon(self._flush)
            self._ready += (self._before, name, self._middle, name, self._prefix, body)
        else:
            self.write(self._before + name + self._block)
            self._held.append(_BlockedMessage(stream, _PLAIN + length.to_bytes(4, "big") + body, self._initial))
            self._pump()

    def forget(self, stream: int) -> bool:
        """Send nothing more of this stream; returns whether something was left to send."""
        waiting = next((waiting for waiting in self._held if waiting.stream == stream), None)
        if waiting is not None:
            self._held.remove(waiting)
        return waiting is not None

    def settings(self, values: Mapping[int, int]) -> None:
        """The peer's settings for what it takes."""
        self._largest_frame = values.get(MAX_FRAME_SIZE, self._largest_frame)
        initial = values.get(INITIAL_WINDOW_SIZE, self._initial)
        for waiting in self._held:
            waiting.window += initial - self._initial
        self._initial = initial
        self._pump()

    def credit(self, stream: int, more: int) -> None:
        """The peer takes `more` bytes on a stream; 0: on the connection."""
        if not stream:
            self._window += more
        for waiting in self._held:
            if waiting.stream == stream:
                waiting.window += more
        self._pump()

    def clear(self) -> None:
        self._ready.clear()
        self._held.clear()

    def flush(self) -> None:
        if self._ready:
            self._flush()

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        if ready:
            self._transport.write(b"".join(ready))

    def _pump(self) -> None:
        while self._held and self._window > 0:
            waiting = next((waiting for waiting in self._held if waiting.window > 0), None)
            if waiting is None:
                return
            size = min(len(waiting.message), self._window, waiting.window, self._largest_frame)
            piece, waiting.message = waiting.message[:size], waiting.message[size:]
            self._window -= size
            waiting.window -= size
            self.write(frame(DATA, 0 if waiting.message else END_STREAM, waiting.stream, bytes(piece)))
            if not waiting.message:
                self._held.remove(waiting)


_STATUSES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED"),
    *("RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
_CLASSES: dict[str, ErrorClass] = {
    "CANCELLED": "cancelled",
    "DEADLINE_EXCEEDED": "timeout",
    "UNAVAILABLE": "unreachable",
    "CANCEL": "cancelled",
    "REFUSED_STREAM": "unreachable",
}


def grpc_error(code: int, message: str) -> tuple[ErrorClass, str]:
    name = _STATUSES[code] if code < len(_STATUSES) else f"status {code}"
    return _CLASSES.get(name, "server_error"), f"{name}: {message}"


def reset_error(code: int) -> tuple[ErrorClass, str]:
    name = error_name(code)
    return _CLASSES.get(name, "server_error"), f"the server reset the stream: {name}"


def http_error(status: str) -> tuple[ErrorClass, str]:
    """The error of an HTTP status other than 200: the server does not speak gRPC here."""
    return status_class(int(status)) if status.isdigit() else "server_error", f"HTTP status {status} where gRPC was expected"
