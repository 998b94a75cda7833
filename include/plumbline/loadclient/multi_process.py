"""Send the load of a phase from several processes that start at the same moment and share the columns of one log."""

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
from dataclasses import dataclass, replace
from typing import IO

import numpy as np
from numpy.typing import NDArray

from plumbline.loadclient.engine import POLL_INTERVAL_S, LoadCommand
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.shared_columns import SharedColumns
from plumbline.loadclient.transport import Bodies, Settings, Target

_LEAD_S = 0.02
"""From the order to begin to the beginning: every process must have seen it by then."""
_MODULE = "plumbline.loadclient.worker"
LOST_SENDER = "the client's process"
"""Begins the reason of a request whose sender ended."""


class _Worker:
    def __init__(self, mine: NDArray[np.int64], fd: int, errors: IO[bytes]) -> None:
        self.mine, self._errors = mine, errors
        self._told = b""
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(os.getpid())],
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

    def give(self, job: SendingJob) -> None:
        # One that has died already is noticed by its silence.
        with suppress(BrokenPipeError):
            pickle.dump(job, self.stdin)
            self.stdin.close()

    def receive(self) -> None:
        """Read its output; `open` is False at its end."""
        received = os.read(self.stdout.fileno(), 1 << 20)
        self._told += received
        self.open = bool(received)

    @property
    def ready(self) -> bool:
        return self._told.startswith(READY) or not self.open

    def outcome(self) -> WorkerResult | str:
        """Its result, or why there is none."""
        code = self.process.wait()
        if code == 0:
            outcome: WorkerResult = pickle.loads(self._told.removeprefix(READY))
            return outcome
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{LOST_SENDER} {self.process.pid} {how}: {(errors.strip().splitlines() or ['no output'])[-1]}"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.stdin, self.stdout):
            with suppress(BrokenPipeError):
                pipe.close()


def send_from_processes(
    load: PhaseLoad,
    shares: Sequence[NDArray[np.int64]],
    bodies: Bodies,
    target: Target,
    settings: Settings,
    *,
    timeout_s: float,
    looking: Callable[[RequestLog], Callable[[], LoadCommand]],
) -> RequestLog:
    """Send each share from a separate process; returns the joint log.

    Share k goes to server k, counted around. `looking(log)` gives the check, called about every 0.1 s, for the order to all processes."""
    columns = SharedColumns(load, target.wire.stages)
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
            own_bodies = {number: bodies[number] for number in worker.mine.tolist()}
            share = replace(settings, in_flight_cap=cap)
            worker.give(SendingJob(columns.fd, load, worker.mine, own_bodies, target_of_share(target, k), share, timeout_s, cpu))
        _coordinate(workers, columns, looking(log), settings.limit_s)
        outcomes = [worker.outcome() for worker in workers]
    for worker, outcome in zip(workers, outcomes, strict=True):
        if isinstance(outcome, WorkerResult):
            log.details |= outcome.details
            log.capped += outcome.capped
            log.response_bytes += outcome.response_bytes
            log.cpu_s = (*log.cpu_s, outcome.cpu_s)
        else:
            _mark_lost(log, worker.mine, outcome)
    return log


def _coordinate(workers: Sequence[_Worker], columns: SharedColumns, look: Callable[[], LoadCommand], limit_s: float | None) -> None:
    ends = np.inf if limit_s is None else time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.stdout, selectors.EVENT_READ, worker)
        checked_at = -np.inf
        while any(worker.open for worker in workers):
            if time.monotonic() > ends:
                for worker in workers:
                    worker.process.kill()
            for key, _ in selector.select(POLL_INTERVAL_S):
                key.data.receive()
                if not key.data.open:
                    selector.unregister(key.fileobj)
            if np.isnan(columns.began) and all(worker.ready for worker in workers):
                columns.log.began = columns.began = time.monotonic() + _LEAD_S
            if time.monotonic() - checked_at >= POLL_INTERVAL_S:
                checked_at = time.monotonic()
                if (order := look()) != "go_on":
                    columns.order = order


def _mark_lost(log: RequestLog, mine: NDArray[np.int64], why: str) -> None:
    """The sender of these has died: what it sent is lost, the rest was never sent."""
    for number in mine[log.due[mine] & np.isnan(log.ended[mine])].tolist():
        log.fail(number, "not_sent" if np.isnan(log.dispatched[number]) else "cancelled", why)


READY = b"ready\n"


@dataclass(frozen=True)
class SendingJob:
    """A share of the load: the requests `mine` with their bodies; `fd` is the columns' file, `cpu` the core to keep to."""

    fd: int
    load: PhaseLoad
    mine: NDArray[np.int64]
    bodies: dict[int, bytes]
    target: Target
    settings: Settings
    timeout_s: float
    cpu: int | None


@dataclass(frozen=True)
class WorkerResult:
    """The result without the columns."""

    details: dict[int, str]
    capped: int
    cpu_s: float
    response_bytes: int


def always_running() -> bool:
    """The parent checks the server and announces its end in the columns."""
    return True


def target_of_share(target: Target, k: int) -> Target:
    """The target as it can be given to the process that sends share `k`: one server, the same for each request of the share."""
    address = target.addresses[k % len(target.addresses)]
    return replace(target, address=address, replicas=(), headers=dict(target.headers), running=always_running)
