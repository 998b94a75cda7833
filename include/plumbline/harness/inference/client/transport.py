"""The seam between the load and the wire: the engine says which request goes out when, a connection says what came back.

All calls are made on the event loop. Moments (`at`) are monotonic seconds, read as soon as bytes have come, before they are looked at.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from plumbline.harness.inference.requestlog import ErrorClass


class Sink(Protocol):
    """What a connection reports to."""

    def token(self, number: int, at: float) -> None:
        """A response (a token) of request `number` has come."""

    def server_times(self, number: int, seconds: tuple[float, ...]) -> None:
        """The server's own account of a request, by the wire's stages."""

    def fail(self, number: int, error: ErrorClass, detail: str) -> None:
        """Something is wrong with a request; only the first is kept. It may go on; `ended` follows in any case."""

    def ended(self, number: int, at: float) -> None:
        """Nothing more will come for this request: called exactly once for each that was sent and not cancelled."""

    def room(self, connection: Connection) -> None:
        """The connection, which had no place left, has one again."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection takes no further request; called at most once. What is still under way on it ends as usual."""


class Connection(Protocol):
    """One connection, from the moment on at which requests can be sent. `usable`: it has not been lost."""

    @property
    def usable(self) -> bool: ...

    def send(self, number: int) -> bool:
        """Write a request; only while there is room. Returns whether there is room for another one, now."""

    def cancel(self, number: int) -> None:
        """Give a request up that has not ended, and tell the server. Nothing is reported of it any more."""

    def read_on(self) -> None:
        """Begin to take answers in on a connection that was opened `stalled`."""

    def close(self) -> None:
        """Close at once, whatever is under way; nothing is reported of it."""


class Transport(Protocol):
    """A way to reach the server. `most`: connections that it makes sense to have at once; `first`: those to open before the load."""

    first: int
    most: int

    async def connect(self, loop: asyncio.AbstractEventLoop, sink: Sink, *, stalled: bool = False) -> Connection:
        """Open a connection; OSError, in words, if that does not succeed. `stalled`: the server may not send answers for now."""
