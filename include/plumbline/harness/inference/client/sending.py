"""The writing half of an HTTP/2 connection: frames leave together, and no faster than the peer's flow control allows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from plumbline.harness.inference.client import http2

_DATA_END = bytes((http2.DATA, http2.END_STREAM))
_PLAIN = b"\x00"
"""Before each message: it is not compressed."""


class _Held:
    """What flow control holds back of a request's message, and the stream's window."""

    __slots__ = ("message", "stream", "window")

    def __init__(self, stream: int, message: bytes, window: int) -> None:
        self.stream, self.message, self.window = stream, memoryview(message), window


class Outbox:
    """Everything that goes out on one connection. What is written in one turn of the loop leaves with one call of the system: at
    thousands of requests a second those calls are most of what a client costs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, block: bytes) -> None:
        self._loop, self._transport, self._block = loop, transport, block
        self._before = len(block).to_bytes(3, "big") + bytes((http2.HEADERS, http2.END_HEADERS))
        # Between a request's stream and its message stands the same for all messages of one length; `_alike`: of which these are.
        self._alike, self._middle, self._prefix = -1, b"", b""
        self._ready: list[bytes] = []
        self._held: deque[_Held] = deque()
        self._window = self._initial = http2.DEFAULT_WINDOW
        self._largest_frame = http2.DEFAULT_FRAME

    @property
    def blocked(self) -> bool:
        """Whether something waits for the peer's credit."""
        return bool(self._held)

    def write(self, frames: bytes) -> None:
        """Send these frames with the others of this turn."""
        if not self._ready:
            self._loop.call_soon(self._flush)
        self._ready.append(frames)

    def request(self, stream: int, body: bytes) -> None:
        """Send a request's headers and its message, as much of it as may be sent now."""
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
            self._held.append(_Held(stream, _PLAIN + length.to_bytes(4, "big") + body, self._initial))
            self._pump()

    def forget(self, stream: int) -> bool:
        """Send nothing more of this stream; returns whether something was left to send."""
        held = next((held for held in self._held if held.stream == stream), None)
        if held is not None:
            self._held.remove(held)
        return held is not None

    def settings(self, values: Mapping[int, int]) -> None:
        """The peer's settings for what it takes."""
        self._largest_frame = values.get(http2.MAX_FRAME_SIZE, self._largest_frame)
        initial = values.get(http2.INITIAL_WINDOW_SIZE, self._initial)
        for held in self._held:
            held.window += initial - self._initial
        self._initial = initial
        self._pump()

    def credit(self, stream: int, more: int) -> None:
        """The peer takes `more` bytes on a stream; 0: on the connection."""
        if not stream:
            self._window += more
        for held in self._held:
            if held.stream == stream:
                held.window += more
        self._pump()

    def clear(self) -> None:
        """Drop what was not sent."""
        self._ready.clear()
        self._held.clear()

    def flush(self) -> None:
        """Send what is written so far now."""
        if self._ready:
            self._flush()

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        if ready:
            self._transport.write(b"".join(ready))

    def _pump(self) -> None:
        """Send what flow control lets through of what is held, in order."""
        while self._held and self._window > 0:
            held = next((held for held in self._held if held.window > 0), None)
            if held is None:
                return
            size = min(len(held.message), self._window, held.window, self._largest_frame)
            piece, held.message = held.message[:size], held.message[size:]
            self._window -= size
            held.window -= size
            self.write(http2.frame(http2.DATA, 0 if held.message else http2.END_STREAM, held.stream, bytes(piece)))
            if not held.message:
                self._held.remove(held)
