"""How the client reaches a server: the target, the protocols of transports and connections, and the connection pool."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from plumbline.harness.inference.load.request_log import ErrorClass, Remark, RequestLog
from plumbline.harness.inference.load.wire import Wire

Tick = Callable[[int, int], None]
"""`tick(ended, due)`: progress, about once a second."""
Stop = Callable[[RequestLog], bool]
"""Whether the phase shall end early, asked about every tenth of a second."""
Bodies = Sequence[bytes] | Mapping[int, bytes]
"""Requests, serialised, by number."""


@dataclass(frozen=True)
class Target:
    """Where the load goes.

    address   "host:port"
    running   whether the server lives or will again: once it says no, the phase ends
    protocol  how it is spoken to
    tls       over TLS, the server's certificate checked against the system's authorities
    headers   sent with each request, such as a key: never logged, never shown
    secret    of the headers' values the key, which is not repeated where a server quotes it
    path      over HTTP: what stands before the protocol's own path, such as /v1
    query     over HTTP: the query of every request, without its question mark
    waits     over HTTP: a request that the server refuses with a time to wait (429, 503) is sent again then, within its timeout
    limit     of OpenAI's protocol the field that holds the number of output tokens
    exact     over HTTP: an answer of fewer tokens than were asked for is wrong
    replicas  addresses of further servers of the same model: requests, or chains of them, are dealt out to all in turn
    """

    address: str
    wire: Wire
    running: Callable[[], bool]
    protocol: str = "kserve_grpc"
    tls: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret: str | None = field(default=None, repr=False)
    path: str = ""
    query: str = ""
    waits: bool = False
    limit: str = "max_tokens"
    exact: bool = True
    replicas: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all servers."""
        return (self.address, *self.replicas)

    def url(self, path: str) -> str:
        """The path and query of a request to `path`, which follows the server's own."""
        return f"{self.path}{path}{'?' if self.query else ''}{self.query}"

    def quoted(self, text: str) -> str:
        """A server's own words on one line, without the key, which some repeat."""
        line = " ".join(text.split())
        return line.replace(self.secret, "***") if self.secret else line


@dataclass(frozen=True)
class Settings:
    """How the client works.

    processes       that send the load; None: as many as its rate needs and the cores allow
    cpus            cores to keep to; None: any
    in_flight_cap   most unanswered requests; further ones are sent late, and the log counts them
    slow_share      share of the requests between `slow_from_s` and `slow_until_s` of the phase whose answers are not read until the latter"""

    processes: int | None = None
    cpus: tuple[int, ...] | None = None
    in_flight_cap: int = 20_000
    slow_share: float = 0.0
    slow_from_s: float = 0.0
    slow_until_s: float = 0.0

    def slow(self, number: int, scheduled_s: float) -> bool:
        """Whether this request's answer is read slowly; such requests are spread evenly over the phase's."""
        share = self.slow_share
        return bool(share) and self.slow_from_s <= scheduled_s < self.slow_until_s and int((number + 1) * share) > int(number * share)


# The seam between the load and the wire: the engine says which request goes out when, a connection says what came back.
#
# All calls are made on the event loop. Moments (`at`) are monotonic seconds, read as soon as bytes have come, before they are looked at.


class Sink(Protocol):
    def token(self, number: int, at: float) -> None:
        """A response (a token) of request `number` has come."""

    def server_times(self, number: int, seconds: tuple[float, ...]) -> None:
        """The server's own account of a request, by the wire's stages."""

    def usage(self, number: int, counts: tuple[int, ...]) -> None:
        """The server's own count of a request's tokens, as USAGE names them; -1: not reported."""

    def remark(self, number: int, remark: Remark) -> None:
        """What is unusual in an answer."""

    def fail(self, number: int, error: ErrorClass, detail: str) -> None:
        """A request failed; only the first failure is kept. It may go on; `ended` follows in any case."""

    def ended(self, number: int, at: float) -> None:
        """The request is over: called exactly once for each that was sent and not cancelled."""

    def turned_away(self, numbers: Sequence[int], why: str, at: float) -> None:
        """The server has not answered these requests and never will on their connection, which is lost by now: send them once more."""

    def told_to_wait(self, number: int, wait_s: float, error: ErrorClass, why: str, at: float) -> None:
        """The server refused this request and asks for it again after `wait_s`; in place of `fail` and `ended`."""

    def room(self, connection: Connection) -> None:
        """The full connection has room again."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection takes no further request; called at most once. What is still under way on it ends as usual."""


class Connection(Protocol):
    """One connection, from the moment on at which requests can be sent. `usable`: it has not been lost."""

    @property
    def usable(self) -> bool: ...

    @property
    def stale(self) -> bool:
        """It is idle for so long that the server may be closing it; False where the protocol says what a close has left out."""
        ...

    def send(self, number: int) -> bool:
        """Write a request; only while there is room. Returns whether there is room for another one, now."""

    def cancel(self, number: int) -> None:
        """Give a request up and cancel it on the server; it is not reported any more."""

    def resume_reading(self) -> None:
        """Begin to take answers in on a connection that was opened stalled."""

    def close(self) -> None:
        """Close at once, without further reports."""


class Transport(Protocol):
    """A way to reach the server. `most`: connections that it makes sense to have at once; `first`: those to open before the load."""

    first: int
    most: int

    async def connect(self, loop: asyncio.AbstractEventLoop, sink: Sink, *, stalled: bool = False) -> Connection:
        """Open a connection; OSError, in words, if that does not succeed. `stalled`: the server may not send answers for now."""


_ATTEMPT_S = 2.0
_BACKOFF_S = (0.02, 0.2)


class ConnectionPool:
    """Keeps connections to a server. `connected()` is called when there is room again, `refused()` when the address refuses.

    `down`: why there is no connection; empty while there is one or one is being opened."""

    def __init__(
        self,
        transport: Transport,
        sink: Sink,
        loop: asyncio.AbstractEventLoop,
        connected: Callable[[], None],
        refused: Callable[[], None],
    ) -> None:
        self._transport, self._sink, self._loop = transport, sink, loop
        self._connected, self._refused = connected, refused
        self._open: set[Connection] = set()
        self._roomy: deque[Connection] = deque()
        self._opening: set[asyncio.Task[None]] = set()
        self._slow: Connection | None = None
        self._slow_has_room = False
        self.down = ""
        self._closed = False

    async def first(self, within_s: float, go_on: Callable[[], bool], *, slow: bool) -> str:
        """Open what a phase begins with; returns why that did not succeed, empty if it did."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                for _ in range(self._transport.first - len(self._open)):
                    self._add(await self._attempt(deadline - time.monotonic()))
                if slow:
                    self._slow = await self._attempt(deadline - time.monotonic(), stalled=True)
                    self._open.add(self._slow)
                    self._slow_has_room = True
                return ""
            except OSError as error:
                if time.monotonic() + _BACKOFF_S[1] >= deadline or not go_on():
                    return str(error)
                await asyncio.sleep(_BACKOFF_S[1])

    def next(self) -> Connection | None:
        """A connection with room, each in its turn; None if there is none, and then another one is being opened if that makes sense."""
        roomy = self._roomy
        if not roomy:
            if len(self._open) + len(self._opening) < self._transport.most and not self.down:
                self._open_another()
            return None
        if len(roomy) > 1:
            roomy.rotate(-1)
        return roomy[0]

    def next_slow(self) -> Connection | None:
        """The connection whose answers are not read for now; None if it has no room, or was lost."""
        return self._slow if self._slow_has_room else None

    def full(self, connection: Connection) -> None:
        if connection is self._slow:
            self._slow_has_room = False
        if connection in self._roomy:
            self._roomy.remove(connection)

    def roomy(self, connection: Connection) -> None:
        if connection is self._slow:
            self._slow_has_room = True
        elif connection in self._open and connection not in self._roomy:
            self._roomy.append(connection)

    def lost(self, connection: Connection) -> None:
        """It takes no more requests, and another one is opened; where it was the last one, that is tried until it succeeds."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        self.full(connection)
        if connection is self._slow:
            self._slow, self._slow_has_room = None, False
        elif len(self._regular) + len(self._opening) < self._transport.first:
            self._open_another()

    def drop_stale(self) -> None:
        """Let go of connections that the server may be closing: what was turned away by one of them must not meet the next."""
        for connection in [each for each in self._roomy if each.stale]:
            self.lost(connection)
            connection.close()

    def resume_reading(self) -> None:
        if self._slow is not None:
            self._slow.resume_reading()

    def close(self) -> None:
        self._closed = True
        for task in self._opening:
            task.cancel()
        for connection in list(self._open):
            connection.close()
        self._open.clear()
        self._roomy.clear()

    def _open_another(self) -> None:
        if not self._closed:
            task = self._loop.create_task(self._until_open())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _until_open(self) -> None:
        wait = _BACKOFF_S[0]
        while True:
            try:
                connection = await self._attempt(_ATTEMPT_S)
            except OSError as error:
                if self._regular:
                    return  # the others have to do
                self.down = str(error)
                self._refused()
                await asyncio.sleep(wait)
                wait = min(2 * wait, _BACKOFF_S[1])
            else:
                self.down = ""
                self._add(connection)
                self._connected()
                return

    def _add(self, connection: Connection) -> None:
        self._open.add(connection)
        self._roomy.append(connection)

    @property
    def _regular(self) -> set[Connection]:
        return {connection for connection in self._open if connection is not self._slow}

    async def _attempt(self, within_s: float, *, stalled: bool = False) -> Connection:
        try:
            opening = self._transport.connect(self._loop, self._sink, stalled=stalled)
            connection = await asyncio.wait_for(opening, max(within_s, 0.001))
        except asyncio.TimeoutError:
            raise OSError(f"no answer to a connection within {within_s:.3g}s") from None
        if not connection.usable:
            raise ConnectionError("the connection was lost as soon as it was made")
        return connection
