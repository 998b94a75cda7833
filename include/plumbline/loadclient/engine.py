"""The open loop: sends each request at its scheduled time on any connection with room, and ends each at its answer or its timeout."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plumbline.loadclient.connection_pool import ConnectionPool
from plumbline.loadclient.request_log import WAITED, ErrorClass, Recorder, RequestLog
from plumbline.loadclient.schedule_cursor import Pacer, ScheduleCursor
from plumbline.loadclient.transport import Connection, Settings, Transport

LoadCommand = Literal["go_on", "stop", "server_ended"]
POLL_INTERVAL_S = 0.1
_BEHIND = 32
"""Requests that a late client sends at once, before it reads answers again."""
_GRACE_S = 0.2
_monotonic = time.monotonic
_AHEAD, _WAITING, _OUT, _DONE = range(4)


class Engine(Recorder):
    """Sends the requests `mine` of a phase; it is the sink of its connections.

    `look` is asked every LOOK_S whether to go on, to let what was not sent go ("stop": it is then not due), or to end because the server
    has ("server_ended": it is then not sent).
    """

    def __init__(
        self,
        log: RequestLog,
        mine: NDArray[np.int64],
        transport: Transport,
        settings: Settings,
        timeout_s: float,
        look: Callable[[], LoadCommand],
    ) -> None:
        super().__init__(log)
        self._upcoming = ScheduleCursor(log.load, mine)
        self._settings, self._timeout_s, self._look = settings, timeout_s, look
        self._mine = mine
        self._state = bytearray(log.load.n)
        self._parked: deque[int] = deque()
        self._sent_again: set[int] = set()
        self._turned_away: set[int] = set()
        self._deadlines: deque[int] = deque()
        self._where: dict[int, Connection] = {}
        self._left = self._upcoming.timed
        self._loop = asyncio.get_running_loop()
        self._connections = ConnectionPool(transport, self, self._loop, self._connected, self._refused)
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._expiry: asyncio.TimerHandle | None = None
        self._pacer = Pacer(self._loop, self._due)
        self._stopped = self._coming = False

    async def connect(self, within_s: float, look: Callable[[], LoadCommand]) -> str:
        """Open the first connections; returns why there is none, empty if there is one."""
        return await self._connections.first(within_s, lambda: look() == "go_on")

    async def run(self, began: float) -> None:
        """The phase, from monotonic second `began` on until every request has ended."""
        self.began = began
        looking = asyncio.ensure_future(self._watch())
        try:
            with self._pacer:
                if self._left:
                    self._pacer.set(began + self._upcoming.wake())
                    await asyncio.wait({self._over, looking}, return_when=asyncio.FIRST_COMPLETED)
                if looking.done():
                    looking.result()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            self.close()

    def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._connections.close()

    def abandon(self, unsent: str, under_way: str, error: ErrorClass) -> None:
        """Record every unfinished request as abandoned."""
        at = _monotonic()
        lost = self._log.due[self._mine] & np.isnan(self._log.ended[self._mine])
        for number in self._mine[lost].tolist():
            if self._state[number] == _OUT or number in self._sent_again:
                self.fail(number, error, under_way)
                self.note_ended(number, at)
            else:
                self.fail(number, "not_sent", unsent)
            self._state[number] = _DONE

    # Sending.

    def _due(self) -> None:
        self._coming = False
        if self._stopped:
            return
        began, scheduled, timeout_s = self.began, self.scheduled, self._timeout_s
        now = _monotonic() - began
        numbers = self._upcoming.due(now, _BEHIND)
        for number in numbers:
            if (late := now - scheduled[number]) >= timeout_s:
                # Sent now it would be given up at once, and the server blamed for it.
                self.fail(number, "not_sent", f"the client itself was {late:.3g}s late, beyond the timeout of {timeout_s:g}s")
                self._done(number, began + now)
            else:
                self._start(number)
                self._deadlines.append(number)
        if self._expiry is None and self._deadlines:
            self._expire()
        if len(numbers) == _BEHIND:
            self._call_soon()
        elif (wake := self._upcoming.wake()) != math.inf:
            self._pacer.set(began + wake)

    def _start(self, number: int) -> None:
        if len(self._where) >= self._settings.in_flight_cap:
            self.note_capped()
        elif not self._parked and (connection := self._connections.next()) is not None:
            self._send(number, connection)
            return
        elif self._connections.down:
            # Nobody is there: a user who came now would be turned away now, not kept waiting.
            self._turn_away(number)
            return
        self._state[number] = _WAITING
        self._parked.append(number)

    def _send(self, number: int, connection: Connection) -> None:
        self._state[number] = _OUT
        self._where[number] = connection
        self._dispatched[number] = _monotonic() - self.began
        if not connection.send(number):
            self._connections.full(connection)

    def _unpark(self) -> None:
        now = _monotonic()
        while self._parked and len(self._where) < self._settings.in_flight_cap:
            number = self._parked[0]
            if self._state[number] == _WAITING:
                if now - self.began - self.scheduled[number] >= self._timeout_s:
                    # Answers are read before timers are looked at: its own may have run out meanwhile.
                    self._give_up(number, now)
                elif (connection := self._connections.next()) is None:
                    return
                else:
                    first = self._dispatched[number]
                    self._send(number, connection)
                    if not math.isnan(first):
                        self._dispatched[number] = first  # it was sent then; that it went to another connection is the server's doing
            self._parked.popleft()

    def _turn_away(self, number: int) -> None:
        at = _monotonic()
        if number not in self._sent_again:
            self.note_dispatched(number, at)
        self.fail(number, "unreachable", self._connections.down)
        self._done(number, at)

    # What connections report.

    def ended(self, number: int, at: float) -> None:
        del self._where[number]
        self._done(number, at)
        if self._parked:
            self._unpark()

    def turned_away(self, numbers: Sequence[int], why: str, at: float) -> None:
        """Send them once more, before those that came later; time counts from their scheduled moments as before. Once, as other gRPC clients do."""
        for number in reversed(numbers):
            if number in self._turned_away:
                self.fail(number, "unreachable", f"{why}, for the second time")
                self.ended(number, at)
                continue
            self._turned_away.add(number)
            self._set_aside(number, f"sent again: {why}")
            self._parked.appendleft(number)
        self._connections.drop_stale()
        self._unpark()

    def told_to_wait(self, number: int, wait_s: float, error: ErrorClass, why: str, at: float) -> None:
        """Send it again then, unless its time is over by then."""
        if self._stopped or at + wait_s >= self.began + self.scheduled[number] + self._timeout_s:
            self.fail(number, error, why)
            self.ended(number, at)
            return
        self._set_aside(number, f"{WAITED}{why}")
        self._loop.call_later(wait_s, self._waited, number, error, why)
        self._unpark()

    def _set_aside(self, number: int, note: str) -> None:
        self._sent_again.add(number)
        del self._where[number]
        self._state[number] = _WAITING
        self._log.details[number] = note

    def _waited(self, number: int, error: ErrorClass, why: str) -> None:
        if self._state[number] != _WAITING:
            return
        if self._stopped:
            self.fail(number, error, why)
            self._done(number, _monotonic())
            return
        self._parked.append(number)
        self._unpark()

    def room(self, connection: Connection) -> None:
        self._connections.roomy(connection)
        self._unpark()

    def lost(self, connection: Connection, reason: str) -> None:
        self._connections.lost(connection)

    def _connected(self) -> None:
        self._unpark()

    def _refused(self) -> None:
        while self._parked:
            number = self._parked.popleft()
            if self._state[number] == _WAITING:
                self._turn_away(number)

    # Ends.

    def _done(self, number: int, at: float) -> None:
        moment = self.note_ended(number, at)
        self._state[number] = _DONE
        self._left -= 1
        if not self._stopped:
            for scheduled, follower in self._upcoming.follow(number, moment):
                self.note_due(follower, scheduled)
                self._left += 1
                self._call_soon()
        if not self._left and not self._over.done():
            self._over.set_result(None)

    def _call_soon(self) -> None:
        if not self._coming:
            self._coming = True
            self._loop.call_soon(self._due)

    def _expire(self) -> None:
        self._expiry = None
        now = _monotonic()
        while self._deadlines:
            number = self._deadlines[0]
            if self._state[number] != _DONE:
                at = self.began + self.scheduled[number] + self._timeout_s
                if at > now:
                    self._expiry = self._loop.call_later(at - now + 0.001, self._expire)
                    break
                self._give_up(number, now)
            self._deadlines.popleft()
        self._unpark()

    def _give_up(self, number: int, at: float) -> None:
        if self._state[number] == _OUT:
            self.fail(number, "timeout", f"{self._received[number]} of {self._tokens[number]} tokens within {self._timeout_s:g}s")
            self._where.pop(number).cancel(number)
        elif number in self._sent_again:
            self.fail(number, "timeout", f"no connection within {self._timeout_s:g}s; {self._log.details[number]}")
        else:
            self.fail(number, "not_sent", f"not sent within {self._timeout_s:g}s: too many requests in flight")
        self._done(number, at)

    async def _watch(self) -> None:
        """Return once the server has ended and its open streams have had the time to break by themselves."""
        while (order := self._look()) != "server_ended":
            if order == "stop" and not self._stopped:
                self._stop()
            await asyncio.sleep(POLL_INTERVAL_S)
        self._stopped = True
        await asyncio.sleep(_GRACE_S)

    def _stop(self) -> None:
        self._stopped = True
        for number in [*self._upcoming.rest(), *self._parked]:
            if self._state[number] in (_AHEAD, _WAITING):
                self.not_due(number)
                self._state[number] = _DONE
                self._left -= 1
        self._parked.clear()
        if not self._left and not self._over.done():
            self._over.set_result(None)
