"""The connections to a server: opened before the load, replaced when they are lost, each used in its turn."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from plumbline.loadclient.transport import Connection, Sink, Transport

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
        self.down = ""
        self._closed = False

    async def first(self, within_s: float, go_on: Callable[[], bool]) -> str:
        """Open what a phase begins with; returns why that did not succeed, empty if it did."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                for _ in range(self._transport.first - len(self._open)):
                    self._add(await self._attempt(deadline - time.monotonic()))
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

    def full(self, connection: Connection) -> None:
        if connection in self._roomy:
            self._roomy.remove(connection)

    def roomy(self, connection: Connection) -> None:
        if connection in self._open and connection not in self._roomy:
            self._roomy.append(connection)

    def lost(self, connection: Connection) -> None:
        """It takes no more requests, and another one is opened; where it was the last one, that is tried until it succeeds."""
        if connection not in self._open:
            return
        self._open.discard(connection)
        self.full(connection)
        if len(self._open) + len(self._opening) < self._transport.first:
            self._open_another()

    def drop_stale(self) -> None:
        """Drop connections that the server may be closing: a request that one of them refused must not meet the next."""
        for connection in [each for each in self._roomy if each.stale]:
            self.lost(connection)
            connection.close()

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
                if self._open:
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

    async def _attempt(self, within_s: float) -> Connection:
        try:
            connection = await asyncio.wait_for(self._transport.connect(self._loop, self._sink), max(within_s, 0.001))
        except asyncio.TimeoutError:
            raise OSError(f"no answer to a connection within {within_s:.3g}s") from None
        if not connection.usable:
            raise ConnectionError("the connection was lost as soon as it was made")
        return connection
