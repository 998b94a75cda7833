"""The clocks that the harness measures by, against others of this machine."""

from __future__ import annotations

import ctypes
import ctypes.util
import time
from collections.abc import Callable
from datetime import datetime

from plumbline.results import CheckLine

_SPIN_S = 0.2
_SPIN_SHARE = 0.002
"""NTP steers CLOCK_MONOTONIC by at most 0.05 %; the rest is what reading two clocks one after the other can differ by."""
_READINGS = 9
_OFFSET_S = 0.1
_STORE_RESOLUTION_S, _STORE_OFFSET_S = 1.0, 1.0
_STEP_S = 0.01
"""An event's wall clock serves people and the order of events on several machines; durations come from the monotonic clock."""
_UNSYNCHRONISED = 5
"""TIME_ERROR of adjtimex(2)."""
_NANOSECONDS = 0x2000


def event_timer(timer_ns: Callable[[], int] = time.monotonic_ns) -> list[CheckLine]:
    """The clock of CPU steps and of requests, over a spin whose length the raw hardware clock knows."""
    begun = _read_both(timer_ns)
    while time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - begun[0] < _SPIN_S * 1e9:
        pass
    ended = _read_both(timer_ns)
    expected, measured = ((after - before) / 1e9 for before, after in zip(begun, ended, strict=True))
    reason = "a spin by CLOCK_MONOTONIC, expected by CLOCK_MONOTONIC_RAW"
    return [CheckLine.compared("event_timer", measured, expected, _SPIN_SHARE * expected, "s", reason, of="cpu")]


def _read_both(timer_ns: Callable[[], int]) -> tuple[int, int]:
    """(raw, timer) at one moment: the tightest of several readings."""
    offsets = []
    for _ in range(_READINGS):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        read = timer_ns()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        offsets.append((after - before, (before + after) // 2, read))
    return min(offsets)[1:]


class WallClock:
    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._began = (wall(), time.monotonic())

    def line(self) -> CheckLine:
        elapsed, expected = self._wall() - self._began[0], time.monotonic() - self._began[1]
        reason = "time passed by the wall clock during the selfcheck, expected by CLOCK_MONOTONIC"
        return CheckLine.compared("clock_offset", elapsed, expected, _STEP_S + 0.001 * expected, "s", reason, of="wall clock")


class _Timeval(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_usec", ctypes.c_long))


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", _Timeval),
        ("tick", ctypes.c_long),
        ("room", ctypes.c_byte * 128),
    )


def adjtimex() -> tuple[int, float, float] | None:
    """(state, remaining offset in s, maximum error in s) as the kernel keeps them; None if unavailable."""
    try:
        call = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    timex = _Timex()  # modes 0: read only, which needs no right
    state = int(call(ctypes.byref(timex)))
    if state < 0:
        return None
    return state, timex.offset / (1e9 if timex.status & _NANOSECONDS else 1e6), timex.maxerror / 1e6


def time_server_offset(kernel: Callable[[], tuple[int, float, float] | None] = adjtimex) -> CheckLine:
    """The wall clock against its time server, as far as the kernel knows."""
    known = kernel()
    if known is None:
        return CheckLine.not_applicable("clock_offset", "the kernel's clock discipline cannot be read (adjtimex)", of="time server")
    state, offset, greatest = known
    if state == _UNSYNCHRONISED:
        return CheckLine.not_applicable("clock_offset", "the kernel reports an unsynchronised clock (adjtimex)", of="time server")
    reason = f"offset from the time server by adjtimex; its maximum error is {greatest:.3g} s"
    return CheckLine.compared("clock_offset", offset, 0.0, _OFFSET_S, "s", reason, of="time server")


def store_clock_offset(
    write: Callable[[], None], modified: Callable[[], datetime | None], wall: Callable[[], float] = time.time
) -> CheckLine:
    """The wall clock against the store's time of the object that `write` writes, which `modified` returns.

    Raises what `write` raises. Stores have a resolution of a second, so offsets within it or within the write do not count."""
    began = wall()
    write()
    ended = wall()
    try:
        there = modified()
    except (OSError, ValueError, TypeError) as error:
        return CheckLine.not_applicable(
            "clock_offset", f"the result store does not say when it wrote an object ({type(error).__name__})", of="result store"
        )
    if there is None or there.tzinfo is None:
        return CheckLine.not_applicable("clock_offset", "the result store does not say when it wrote an object", of="result store")
    at = there.timestamp()
    offset = max(began - _STORE_RESOLUTION_S - at, 0.0) + min(ended - at, 0.0)
    reason = f"this clock less the result store's, by an object whose writing took {ended - began:.3g} s; the store's resolution is 1 s"
    return CheckLine.compared("clock_offset", offset, 0.0, _STORE_OFFSET_S, "s", reason, of="result store")
