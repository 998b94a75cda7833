"""`drive`: send the load of one phase, from this process or from several, and return its request log."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plumbline.loadclient import kserve_grpc
from plumbline.loadclient.engine import Engine, LoadCommand
from plumbline.loadclient.multi_process import send_from_processes
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Bodies, Settings, Stop, Target, Tick, Transport

_TICK_S = 1.0
_RATE_A_PROCESS = 4_000.0
"""Requests a second for one process: well below its capacity, so that it is never late."""


def drive(
    load: PhaseLoad,
    bodies: Sequence[bytes],
    target: Target,
    *,
    timeout_s: float,
    tick: Tick | None = None,
    settings: Settings = Settings(),  # noqa: B008 - frozen
    stop: Stop | None = None,
) -> RequestLog:
    """Send one phase's load, wait for every answer or its timeout, and return the log.

    `bodies[i]` is request i, serialised (see `Wire`). `timeout_s` counts from a request's scheduled time. `tick(ended, due)` is called about
    once a second. `stop(log)` is asked about every 0.1 s; once true, unsent requests are not due any more and sent ones may still end. Never
    raises for the server's behaviour, which the log holds."""
    if len(bodies) != load.n:
        raise ValueError(f"{len(bodies)} bodies for a load of {load.n} requests; expected one for each")

    def looking(log: RequestLog) -> Callable[[], LoadCommand]:
        return _status_poll(log, target, tick, stop)

    servers = len(target.addresses)
    # Each process speaks to one server: of the shares dealt to k × servers processes, every server-th is one server's.
    processes = -(-processes_for(load, settings) // servers) * servers
    if processes > 1 or settings.memory is not None:
        dealt = shares(load, processes)
        log = send_from_processes(load, dealt, bodies, target, settings, timeout_s=timeout_s, looking=looking)
        if servers > 1:
            log.replica = np.zeros(load.n, np.int32)
            for k, mine in enumerate(dealt):
                log.replica[mine] = k % servers
        return log
    log = RequestLog.of(load, stages=target.wire.stages)
    with _pinned(settings.cpus):
        spent = send_share(log, np.arange(load.n), bodies, target, settings, timeout_s=timeout_s, look=looking(log))
    log.cpu_s = (spent,)
    return log


def processes_for(load: PhaseLoad, settings: Settings = Settings()) -> int:  # noqa: B008 - frozen
    if settings.processes is not None:
        return settings.processes
    # One of the shared cores stays for other processes, above all the server; the client's declared cores are its own.
    most = len(settings.cpus) if settings.cpus else len(os.sched_getaffinity(0)) - 1
    needed = 1 if load.closed or not load.duration_s else int(np.ceil(load.n / load.duration_s / _RATE_A_PROCESS))
    return max(1, min(needed, most))


def shares(load: PhaseLoad, processes: int) -> list[NDArray[np.int64]]:
    """Requests of each process: chains stay together, others are dealt out in turn."""
    root = np.where(load.after < 0, np.arange(load.n), load.after)
    while True:
        further = root[root]
        if np.array_equal(further, root):
            break
        root = further
    turn = np.cumsum(load.after < 0) - 1
    return [np.flatnonzero(turn[root] % processes == k) for k in range(processes)]


def _status_poll(log: RequestLog, target: Target, tick: Tick | None, stop: Stop | None) -> Callable[[], LoadCommand]:
    reported_s = time.monotonic()

    def look() -> LoadCommand:
        nonlocal reported_s
        if not target.running():
            return "server_ended"
        if np.isnan(log.began):
            return "go_on"
        if tick is not None and time.monotonic() - reported_s >= _TICK_S:
            reported_s = time.monotonic()
            tick(int(np.isfinite(log.ended).sum()), log.n)
        return "stop" if stop is not None and stop(log) else "go_on"

    return look


@contextmanager
def _pinned(cpus: tuple[int, ...] | None) -> Iterator[None]:
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


try:
    import uvloop

    LOOP = f"uvloop {uvloop.__version__}"
    _new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:  # not on every platform; asyncio's own loop is slower and does the same
    LOOP, _new_loop = "asyncio", asyncio.new_event_loop

_SERVER_ENDED = "the server ended before it had answered"
_STOPPED_BY_SIGNAL = "the load was stopped by a signal"
_NEVER_SENT = "the server had ended before it was due"


def send_share(
    log: RequestLog,
    mine: NDArray[np.int64],
    bodies: Bodies,
    target: Target,
    settings: Settings,
    *,
    timeout_s: float,
    look: Callable[[], LoadCommand],
    begin: Callable[[], float] = time.monotonic,
) -> float:
    """Send the requests `mine` and wait for their ends; returns the CPU seconds that this took.

    `begin()` is called once the server is connected to, and says when the phase begins, in monotonic seconds.
    """

    async def share() -> None:
        transport = transport_of(target, log.load, bodies)
        engine = Engine(log, mine, transport, settings, timeout_s, look)
        try:
            if why := await engine.connect(timeout_s, look):
                engine.abandon(f"no connection to {target.address} within {timeout_s:g}s: {why}", _SERVER_ENDED, "unreachable")
                return
            log.began = begin()
            await engine.run(log.began)
            engine.abandon(_NEVER_SENT, _SERVER_ENDED, "unreachable")
        finally:
            engine.close()
            log.response_bytes = transport.received
            # A signal whose own handler does not raise ends the load here: what was not sent, or not answered, must not look as if it had been.
            engine.abandon(_STOPPED_BY_SIGNAL, _STOPPED_BY_SIGNAL, "cancelled")

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
    """A signal to stop still ends what was started on the loop."""
    loop = _new_loop()
    task = loop.create_task(main)
    errors: list[BaseException] = []

    def failed(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # An error in a callback is the client's own, not the server's: it must not end as a request without an answer.
        errors.append(context.get("exception") or RuntimeError(context["message"]))
        task.cancel()

    loop.set_exception_handler(failed)
    with _signals_deferred(lambda: loop.call_soon_threadsafe(task.cancel)):
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
def _signals_deferred(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop()` on SIGINT and SIGTERM; pass them to the previous handlers after the block.

    A handler's exception inside an event loop's own callbacks can get lost."""
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


def transport_of(target: Target, load: PhaseLoad, bodies: Bodies) -> Transport:
    """ValueError for an unknown protocol."""
    if target.protocol == "kserve_grpc":
        return kserve_grpc.GrpcTransport(target, load, bodies)
    if target.protocol in ("kserve_http", "openai", "openai_chat"):
        from plumbline.loadclient.http_transport import http_transport  # only endpoints are spoken to over HTTP

        return http_transport(target, load, bodies)
    raise ValueError(f"target.protocol is {target.protocol!r}; expected kserve_grpc, kserve_http, openai or openai_chat")
