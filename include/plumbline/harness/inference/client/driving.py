"""`drive`: one phase's load, from this process or from several."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client.alone import send_share
from plumbline.harness.inference.client.crew import send_together
from plumbline.harness.inference.client.engine import Order
from plumbline.harness.inference.client.target import Settings, Stop, Target, Tick
from plumbline.harness.inference.requestlog import RequestLog

_TICK_S = 1.0
_RATE_A_PROCESS = 4_000.0
"""Requests a second that one process is trusted with: well below what it can do, so that it is never late."""


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
    """Send one phase's load, wait for every answer or its timeout, and return what happened to each request.

    `bodies[i]` is request i, serialised (see `Wire`). `timeout_s` counts from a request's scheduled time. `tick(ended, due)` is called about
    once a second. `stop(log)` is asked about every 0.1 s; once it says yes, what was not sent is not due any more, and what was sent may
    still end. Never raises for what the server does: that stands in the log.
    """
    if len(bodies) != load.n:
        raise ValueError(f"{len(bodies)} bodies for a load of {load.n} requests; expected one for each")

    def looking(log: RequestLog) -> Callable[[], Order]:
        return _looking(log, target, tick, stop)

    servers = len(target.addresses)
    # Each process speaks to one server: of the shares dealt to k × servers processes, every server-th is one server's.
    processes = -(-processes_for(load, settings) // servers) * servers
    if processes > 1:
        dealt = shares(load, processes)
        log = send_together(load, dealt, bodies, target, settings, timeout_s=timeout_s, looking=looking)
        if servers > 1:
            log.replica = np.zeros(load.n, np.int32)
            for k, mine in enumerate(dealt):
                log.replica[mine] = k % servers
        return log
    log = RequestLog.of(load, stages=target.wire.stages)
    with _kept_to(settings.cpus):
        spent = send_share(log, np.arange(load.n), bodies, target, settings, timeout_s=timeout_s, look=looking(log))
    log.cpu_s = (spent,)
    return log


def processes_for(load: PhaseLoad, settings: Settings = Settings()) -> int:  # noqa: B008 - frozen
    """How many processes send this load."""
    if settings.processes is not None:
        return settings.processes
    # Of the cores that everybody uses one stays for whoever else is there, the server above all; those of the client are its own.
    most = len(settings.cpus) if settings.cpus else len(os.sched_getaffinity(0)) - 1
    needed = 1 if load.closed or not load.duration_s else int(np.ceil(load.n / load.duration_s / _RATE_A_PROCESS))
    return max(1, min(needed, most))


def shares(load: PhaseLoad, processes: int) -> list[NDArray[np.int64]]:
    """The numbers that each process sends: requests that follow one another stay together, the others are dealt out in turn."""
    root = np.where(load.after < 0, np.arange(load.n), load.after)
    while True:
        further = root[root]
        if np.array_equal(further, root):
            break
        root = further
    turn = np.cumsum(load.after < 0) - 1
    return [np.flatnonzero(turn[root] % processes == k) for k in range(processes)]


def _looking(log: RequestLog, target: Target, tick: Tick | None, stop: Stop | None) -> Callable[[], Order]:
    told = time.monotonic()

    def look() -> Order:
        nonlocal told
        if not target.running():
            return "server_ended"
        if np.isnan(log.began):
            return "go_on"
        if tick is not None and time.monotonic() - told >= _TICK_S:
            told = time.monotonic()
            tick(int(np.isfinite(log.ended).sum()), log.n)
        return "stop" if stop is not None and stop(log) else "go_on"

    return look


@contextmanager
def _kept_to(cpus: tuple[int, ...] | None) -> Iterator[None]:
    """Keep the calling thread, and no other one of this process, to these cores."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
