"""The requests of a load in the order in which they are due, and the timer that says when to send them."""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import scalar_view

GRID_S = 0.25e-3
"""Where requests are dense, those of one cell leave together at its end, because each sending system call costs as much as the client's rest. A
request is late by less than a cell; its latency and dispatch delay contain that."""
_DENSE = 2_000.0
"""Requests a second, within `_AROUND_S` before and after, that count as dense."""
_VERY_DENSE = 8_000.0
"""From here on cells are twice as long: a cheaper client is on time at rates at which short cells would delay it more."""
_AROUND_S = 5e-3


class ScheduleCursor:
    """The requests `mine` of a load in order of their moments, in seconds of the phase."""

    def __init__(self, load: PhaseLoad, mine: NDArray[np.int64]) -> None:
        timed = mine[load.after[mine] < 0]
        self._order: list[int] = timed[np.argsort(load.arrivals_s[timed], kind="stable")].tolist()
        self._moments: list[float] = load.arrivals_s[self._order].tolist()
        self._wakes: list[float] = wake_times(load.arrivals_s[self._order]).tolist()
        self._moments.append(math.inf)
        self._wakes.append(math.inf)
        self._position = 0
        self._followers: dict[int, list[int]] = {}
        for number in mine[load.after[mine] >= 0].tolist():
            self._followers.setdefault(int(load.after[number]), []).append(number)
        self._waits, self._duration_s = scalar_view(load.arrivals_s), load.duration_s
        self._soon: list[tuple[float, int]] = []
        self.timed = len(self._order)

    def moment(self) -> float:
        timed = self._moments[self._position]
        return min(timed, self._soon[0][0]) if self._soon else timed

    def wake(self) -> float:
        """When to see what is due next: at `moment()`, or less than a cell later where others can leave with it."""
        timed = self._wakes[self._position]
        return min(timed, self._soon[0][0]) if self._soon else timed

    def due(self, now: float, most: int) -> list[int]:
        if self._soon:
            numbers: list[int] = []
            while len(numbers) < most and self.moment() <= now:
                numbers.append(self.take())
            return numbers
        begin = self._position
        self._position = bisect_right(self._moments, now, begin, min(begin + most, self.timed))
        return self._order[begin : self._position]

    def take(self) -> int:
        """The next one; only while `moment()` is finite."""
        if self._soon and self._soon[0][0] < self._moments[self._position]:
            return heapq.heappop(self._soon)[1]
        number = self._order[self._position]
        self._position += 1
        return number

    def follow(self, number: int, ended_s: float) -> list[tuple[float, int]]:
        """Request `number` has ended: moments and numbers of its followers; those after the phase's end are never due."""
        followers = self._followers.get(number) if self._followers else None
        if followers is None:
            return []
        due = [(ended_s + self._waits[follower], follower) for follower in followers]
        due = [pair for pair in due if pair[0] < self._duration_s]
        for pair in due:
            heapq.heappush(self._soon, pair)
        return due

    def rest(self) -> Iterator[int]:
        """The requests that are due and not taken."""
        yield from self._order[self._position :]
        yield from (number for _, number in self._soon)
        self._position = len(self._order)
        self._soon.clear()
        self._followers.clear()


def wake_times(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """When each of these requests is to be sent, float64 [n]: `moments` (rising) or, where they are dense, the next corner of the grid."""
    around = np.searchsorted(moments, moments + _AROUND_S) - np.searchsorted(moments, moments - _AROUND_S)
    rate = around / (2 * _AROUND_S)
    cell = np.where(rate >= _VERY_DENSE, 2 * GRID_S, GRID_S)
    return np.asarray(np.where(rate >= _DENSE, np.ceil(moments / cell) * cell, moments))


_CLOCK_MONOTONIC, _NONBLOCK, _CLOEXEC, _ABSOLUTE = 1, os.O_NONBLOCK, os.O_CLOEXEC, 1
_NANOSECONDS = 1_000_000_000


class _Itimerspec(ctypes.Structure):
    """struct itimerspec: an interval (unused) and the moment of expiry."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class Pacer:
    """A context manager around one timer, on the clock of `time.monotonic()`; `due()` is called on `loop` when the moment has come.

    Exact to tens of microseconds. Event loops round their timers to whole milliseconds, and a loop that spins until the moment takes the core
    that the server needs. A kernel timer that the loop watches like a socket does neither.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], None]) -> None:
        # os.timerfd_create exists only from Python 3.13 on.
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._loop, self._due = loop, due
        self._spec = _Itimerspec(0, 0, 0, 0)
        self._pointer = ctypes.byref(self._spec)
        self._fd = -1
        self._set = False

    def __enter__(self) -> Pacer:
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK | _CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), f"timerfd_create: {os.strerror(ctypes.get_errno())}")
        self._loop.add_reader(self._fd, self._expired)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def set(self, moment: float) -> None:
        """Call `due()` once at `moment` (monotonic seconds); at once, but not from within this call, if it has passed. Another moment
        that was set before is forgotten."""
        self._spec.value_s, self._spec.value_ns = divmod(max(1, round(moment * _NANOSECONDS)), _NANOSECONDS)
        self._set = True
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, self._pointer, None):
            raise OSError(ctypes.get_errno(), f"timerfd_settime: {os.strerror(ctypes.get_errno())}")

    def _expired(self) -> None:
        self._set = False
        self._due()
        # Setting the timer again also takes the expiry back; only where that did not happen it must be read, or it would be called for ever.
        if not self._set:
            with suppress(BlockingIOError):
                os.read(self._fd, 8)
