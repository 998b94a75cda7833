"""Let a stopped task clean up: Airflow ends a task with SIGTERM, which Python code would not notice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Inside, SIGTERM raises Interrupted in the main thread, so that launchers end what they started."""
    from plumbline.launch.failures import Interrupted

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted("the task was stopped")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
