"""A timer that wakes an event loop at an absolute moment, exact to tens of microseconds.

Event loops round their timers to whole milliseconds, and a loop that spins until the moment takes the core that the server needs.
A kernel timer that the loop watches like a socket does neither.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
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
    """A context manager around one timer, on the clock of `time.monotonic()`; `due()` is called on `loop` when the moment has come."""

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
