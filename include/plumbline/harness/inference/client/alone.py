"""Runs a share of a phase's load on an event loop of its own, in the process that calls."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.harness.inference.client.engine import Engine, Order
from plumbline.harness.inference.client.opening import transport_of
from plumbline.harness.inference.client.target import Bodies, Settings, Target
from plumbline.harness.inference.requestlog import RequestLog

try:
    import uvloop

    LOOP = f"uvloop {uvloop.__version__}"
    _new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:  # not on every platform; asyncio's own loop is slower and does the same
    LOOP, _new_loop = "asyncio", asyncio.new_event_loop

_UNDER_WAY = "the server ended before it had answered"
_STOPPED = "the load was stopped by a signal"
_DUE_LATER = "the server had ended before it was due"


def send_share(
    log: RequestLog,
    mine: NDArray[np.int64],
    bodies: Bodies,
    target: Target,
    settings: Settings,
    *,
    timeout_s: float,
    look: Callable[[], Order],
    begin: Callable[[], float] = time.monotonic,
) -> float:
    """Send the requests `mine` and wait for their ends; returns the CPU seconds that this took.

    `begin()` is called once the server is connected to, and says when the phase begins, in monotonic seconds.
    """

    async def share() -> None:
        engine = Engine(log, mine, transport_of(target, log.load, bodies), settings, timeout_s, look)
        try:
            if why := await engine.connect(timeout_s, look):
                engine.abandon(f"no connection to {target.address} within {timeout_s:g}s: {why}", _UNDER_WAY, "unreachable")
                return
            log.began = begin()
            await engine.run(log.began)
            engine.abandon(_DUE_LATER, _UNDER_WAY, "unreachable")
        finally:
            engine.close()
            # A signal whose own handler does not raise ends the load here: what was not sent, or not answered, must not look as if it had been.
            engine.abandon(_STOPPED, _STOPPED, "cancelled")

    # What was built until here lives through the phase: the collector need not walk over it in the middle of a measurement.
    gc.collect()
    gc.freeze()
    used = time.thread_time()
    try:
        _run(share())
    finally:
        gc.unfreeze()
    return time.thread_time() - used


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run on a loop of our own; a signal to stop still ends what was started on it."""
    loop = _new_loop()
    task = loop.create_task(main)
    errors: list[BaseException] = []

    def failed(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # An error in a callback is the client's own, not the server's: it must not end as a request without an answer.
        errors.append(context.get("exception") or RuntimeError(context["message"]))
        task.cancel()

    loop.set_exception_handler(failed)
    with _signals_kept(lambda: loop.call_soon_threadsafe(task.cancel)):
        try:
            loop.run_until_complete(asyncio.wait({task}))
            loop.run_until_complete(asyncio.sleep(0))  # closed connections are gone only after another turn
        finally:
            loop.close()
        if errors:
            raise errors[0]
        if not task.cancelled():
            task.result()


@contextmanager
def _signals_kept(stop: Callable[[], object]) -> Iterator[None]:
    """Answer SIGINT and SIGTERM by `stop()`, and give them to whoever listened before once the block has ended.

    A handler that raises does so in whatever runs at that moment; inside an event loop's own callbacks the exception can get lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def keep(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        stop()

    before = {int(number): handler for number in (signal.SIGINT, signal.SIGTERM) if callable(handler := signal.getsignal(number))}
    for number in before:
        signal.signal(number, keep)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in caught[:1]:
            before[number](number, None)
