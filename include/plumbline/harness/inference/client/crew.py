"""Sends a phase's load from several processes that begin at the same moment, and sees that all of them end."""

from __future__ import annotations

import os
import pickle
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import IO

import numpy as np
from numpy.typing import NDArray

from plumbline.harness.inference import guarded
from plumbline.harness.inference.arrivals import PhaseLoad
from plumbline.harness.inference.client.columns import Columns
from plumbline.harness.inference.client.engine import LOOK_S, Order
from plumbline.harness.inference.client.job import READY, Job, Outcome, portable
from plumbline.harness.inference.client.target import Bodies, Settings, Target
from plumbline.harness.inference.requestlog import RequestLog

_LEAD_S = 0.02
"""From the order to begin to the beginning: every process must have seen it by then."""
_MODULE = "plumbline.harness.inference.client.worker"


class _Worker:
    """One process and its share of the requests."""

    def __init__(self, mine: NDArray[np.int64], fd: int, errors: IO[bytes]) -> None:
        self.mine, self._errors = mine, errors
        self._told = b""
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-I", "-S", guarded.__file__, str(os.getpid()), sys.executable, "-m", _MODULE],
            # A session of its own: an interrupt from the keyboard is the parent's to answer.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=(fd,),
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.open = True

    def give(self, job: Job) -> None:
        # One that has died already is noticed by its silence.
        with suppress(BrokenPipeError):
            pickle.dump(job, self.stdin)
            self.stdin.close()

    def hear(self) -> None:
        """Read what it said; `open` is False once it has said everything."""
        said = os.read(self.stdout.fileno(), 1 << 20)
        self._told += said
        self.open = bool(said)

    @property
    def ready(self) -> bool:
        return self._told.startswith(READY) or not self.open

    def outcome(self) -> Outcome | str:
        """What it brought home, or in words why it brought nothing."""
        code = self.process.wait()
        if code == 0:
            outcome: Outcome = pickle.loads(self._told.removeprefix(READY))
            return outcome
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"the client's process {self.process.pid} {how}: {last[0]}"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.stdin, self.stdout):
            with suppress(BrokenPipeError):
                pipe.close()


def send_together(
    load: PhaseLoad,
    shares: Sequence[NDArray[np.int64]],
    bodies: Bodies,
    target: Target,
    settings: Settings,
    *,
    timeout_s: float,
    looking: Callable[[RequestLog], Callable[[], Order]],
) -> RequestLog:
    """Send each share from a process of its own; returns the log of all of them.

    Share k goes to server k of the target's, counted around. `looking(log)` gives what is asked about every tenth of a second for the order to all processes.
    """
    columns = Columns(load, target.wire.stages)
    log = columns.log
    with ExitStack() as stack:
        stack.callback(columns.close)
        workers = []
        for mine in shares:
            worker = _Worker(mine, columns.fd, stack.enter_context(tempfile.TemporaryFile()))
            stack.callback(worker.end)
            workers.append(worker)
        cap = -(-settings.in_flight_cap // len(workers))
        for k, worker in enumerate(workers):
            cpu = settings.cpus[k % len(settings.cpus)] if settings.cpus else None
            given = {number: bodies[number] for number in worker.mine.tolist()}
            share = replace(settings, in_flight_cap=cap)
            worker.give(Job(columns.fd, load, worker.mine, given, portable(target, k), share, timeout_s, cpu))
        _follow(workers, columns, looking(log))
        outcomes = [worker.outcome() for worker in workers]
    for worker, outcome in zip(workers, outcomes, strict=True):
        if isinstance(outcome, Outcome):
            log.details |= outcome.details
            log.capped += outcome.capped
            log.cpu_s = (*log.cpu_s, outcome.cpu_s)
        else:
            _never(log, worker.mine, outcome)
    return log


def _follow(workers: Sequence[_Worker], columns: Columns, look: Callable[[], Order]) -> None:
    """Give the word to begin once everybody is ready, pass on the orders, and return when all have ended."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.stdout, selectors.EVENT_READ, worker)
        looked = -np.inf
        while any(worker.open for worker in workers):
            for key, _ in selector.select(LOOK_S):
                key.data.hear()
                if not key.data.open:
                    selector.unregister(key.fileobj)
            if np.isnan(columns.began) and all(worker.ready for worker in workers):
                columns.log.began = columns.began = time.monotonic() + _LEAD_S
            if time.monotonic() - looked >= LOOK_S:
                looked = time.monotonic()
                if (order := look()) != "go_on":
                    columns.order = order


def _never(log: RequestLog, mine: NDArray[np.int64], why: str) -> None:
    """Whoever was to send these has died: what it had sent is lost with it, the rest was never sent."""
    for number in mine[log.due[mine] & np.isnan(log.ended[mine])].tolist():
        log.fail(number, "not_sent" if np.isnan(log.dispatched[number]) else "cancelled", why)
