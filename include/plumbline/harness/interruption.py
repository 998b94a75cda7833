"""A request to stop (SIGTERM, SIGINT) as an exception in the main thread, so that a measurement unwinds and ends its children."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil

from plumbline.harness.process_tree import end_processes, is_live

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_GRACE_S = 3.0
STOP_BUDGET_S = 7.0
"""Seconds that `time_limit` leaves after a request to stop: a kubelet sends SIGKILL after 30 s, the local launcher after 10 s."""


class Interrupted(KeyboardInterrupt):
    """A request to stop. Event loops let a KeyboardInterrupt through and swallow most other exceptions."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number).name
        super().__init__(self.signal)


class Interruption:
    """Raises Interrupted once; later requests, and those after `disarm`, are ignored: the trial is being recorded."""

    def __init__(self) -> None:
        self._armed, self._limited = True, False
        self._asked_at: float | None = None

    def disarm(self) -> None:
        """Ignore further requests: a finished measurement must not become an interrupted one while it is stored."""
        self._armed = False

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Raise Interrupted in the block after `seconds`; a request to stop, before it or during it, leaves STOP_BUDGET_S seconds.

        Outside the main thread there are no timers, and the block ends by itself."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if self._asked_at is not None:
            seconds = min(seconds, self._asked_at + STOP_BUDGET_S - time.monotonic())
        before = signal.signal(signal.SIGALRM, self._on_alarm)
        self._limited = True
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
        try:
            yield
        finally:
            self._limited = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)

    def _on_alarm(self, number: int, _frame: FrameType | None) -> None:
        if self._limited:
            self._limited = False
            raise Interrupted(number)

    def _received(self, number: int, _frame: FrameType | None) -> None:
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            if self._limited:
                left = signal.getitimer(signal.ITIMER_REAL)[0]
                signal.setitimer(signal.ITIMER_REAL, min(left, STOP_BUDGET_S) or STOP_BUDGET_S)
        if self._armed:
            self._armed = False
            raise Interrupted(number)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Listen while the block runs; outside the main thread Python allows no handlers."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.signal(number, interruption._received) for number in _SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_descendants() -> list[str]:
    """End all descendants: SIGTERM, the grace time, SIGKILL. Returns their names."""

    def find() -> list[psutil.Process]:
        return [process for process in psutil.Process().children(recursive=True) if is_live(process)]

    started = psutil.Process().children(recursive=True)
    names = [_process_name(process) for process in started]
    with suppress(RuntimeError):
        end_processes(find, _GRACE_S, _GRACE_S)
    psutil.wait_procs(started, timeout=0)  # reaps those that are ours
    return names


def _process_name(process: psutil.Process) -> str:
    try:
        return f"{process.name()} ({process.pid})"
    except psutil.Error:
        return f"process {process.pid}"
