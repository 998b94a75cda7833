"""How the client reaches a server: the target, the protocols of transports and connections, and the connection pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from plumbline.loadclient.request_log import ErrorClass, Remark, RequestLog
from plumbline.loadclient.wire import Wire

Tick = Callable[[int, int], None]
"""`tick(ended, due)`: reports progress, about once a second."""
Stop = Callable[[RequestLog], bool]
"""Returns whether the phase shall end early; called about every 0.1 s."""
Bodies = Sequence[bytes] | Mapping[int, bytes]
"""Serialised requests by number."""


Outputs = dict[int, dict[str, list[bytes]]]
"""Received bytes of each response, by request and tensor."""


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
    outputs   over gRPC, from one process: where the outputs are kept; None: they are checked only
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
    outputs: Outputs | None = field(default=None, repr=False)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of all servers."""
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
    memory          bytes of each process beside its programs' own; with it also one process is apart from the caller's, which no answer can fill
    limit_s         seconds after which such processes are ended, whatever they wait for"""

    processes: int | None = None
    cpus: tuple[int, ...] | None = None
    in_flight_cap: int = 20_000
    memory: int | None = None
    limit_s: float | None = None


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
        """Note an unusual property of an answer."""

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

    def close(self) -> None:
        """Close at once, without further reports."""


class Transport(Protocol):
    """A way to reach the server. `most`: connections that it makes sense to have at once; `first`: those to open before the load."""

    first: int
    most: int

    @property
    def received(self) -> int:
        """Bytes that came over its connections, without TLS's and TCP's own."""
        ...

    async def connect(self, loop: asyncio.AbstractEventLoop, sink: Sink) -> Connection:
        """Open a connection; OSError, in words, if that does not succeed."""
