"""HTTP/2's frames (RFC 9113), as far as a client of gRPC needs them, and its header blocks (RFC 7541)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import hpack

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
    """What matters of a response's headers or trailers; None: not among them."""

    http_status: str | None
    grpc_status: int | None
    grpc_message: str


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def settings(values: Mapping[int, int]) -> bytes:
    """A SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*pair) for pair in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    """The values of a SETTINGS frame's payload."""
    if len(payload) % _SETTING.size:
        raise ProtocolError(f"SETTINGS of {len(payload)} bytes; expected a multiple of {_SETTING.size}")
    return dict(_SETTING.iter_unpack(payload))


def number(payload: bytes, at: int) -> int:
    """The 31 bits at a place of a control frame's payload."""
    if len(payload) < at + 4:
        raise ProtocolError(f"a control frame of {len(payload)} bytes; expected at least {at + 4}")
    return int.from_bytes(payload[at : at + 4], "big") & 0x7FFFFFFF


def name_of(code: int) -> str:
    """An error code's name."""
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
    """Reads response headers. The peer was told to keep no table (HEADER_TABLE_SIZE 0): equal blocks mean equal headers, and the few
    that a server sends again and again are decoded once. `well_begun`, `well_ended`: those of them that tell of nothing wrong,
    before an answer and after it."""

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
            found = {_text(name): _text(value) for name, value in self._decoder.decode(block)}
        except (hpack.HPACKError, UnicodeDecodeError) as error:
            raise ProtocolError(f"unreadable headers: {error}") from error
        status = found.get("grpc-status")
        if status is not None and not status.isdecimal():
            raise ProtocolError(f"grpc-status is {status!r}; expected a number")
        head = Head(found.get(":status"), None if status is None else int(status), found.get("grpc-message", ""))
        if len(self._seen) < _REMEMBERED:
            self._seen[bytes(block)] = head
            if head.http_status == "200" and head.grpc_status is None:
                self.well_begun.add(bytes(block))
            elif head.http_status in (None, "200") and head.grpc_status == 0:
                self.well_ended.add(bytes(block))
        return head


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
