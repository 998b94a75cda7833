"""Waiting for an absolute moment inside an event loop, exact to tens of microseconds and without spinning.

Event loops round their timers to whole milliseconds, and a loop that spins until the moment takes the core that the server needs.
A kernel timer that the loop watches like a socket does neither.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from types import TracebackType

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
    """A context manager around one timer, on the clock of `time.monotonic()`. One waiter at a time."""

    def __init__(self) -> None:
        # os.timerfd_create exists only from Python 3.13 on.
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._fd = -1

    def __enter__(self) -> Pacer:
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK | _CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), f"timerfd_create: {os.strerror(ctypes.get_errno())}")
        self._loop.add_reader(self._fd, self._expired)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    async def until(self, moment: float) -> None:
        """Return at `moment` (monotonic seconds), or as soon as other callbacks have run once if it has passed."""
        self._waiter = self._loop.create_future()
        seconds, nanoseconds = divmod(max(1, round(moment * _NANOSECONDS)), _NANOSECONDS)
        spec = _Itimerspec(0, 0, seconds, nanoseconds)
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(spec), None):
            raise OSError(ctypes.get_errno(), f"timerfd_settime: {os.strerror(ctypes.get_errno())}")
        await self._waiter

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # the timer was set again between its expiry and this callback
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
