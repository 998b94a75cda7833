"""A trial as a process on this machine: pinned, limited, watched, and gone without a trace afterwards. What `local` and `endpoint` share."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

from plumbline.declarations import EndpointLauncher, Trial, places
from plumbline.declarations.storage import scratch_of
from plumbline.harness.progress import ProgressLine, parse
from plumbline.launch import orphans, stores
from plumbline.launch.base import OnProgress
from plumbline.launch.environment import trial_environment
from plumbline.launch.machine_lock import LockRefused, MachineBusy, machine_lock
from plumbline.launch.outcome import STORE_FAILED, outcome
from plumbline.launch.process import Limits, Output, supervised
from plumbline.launch.stores import next_attempt
from plumbline.results import Event, FailureClass, LaunchRecord, ResultStore, Scalar, full_disk, log_block

_log = logging.getLogger(__name__)

HARNESS = (sys.executable, "-m", "plumbline.harness")
GRACE_S = 10.0
PATIENCE_S = 3600.0
_ROOM = 256 * 2.0**20
"""Bytes that every trial needs free for its log, its evidence and its document, beside what its model and data take."""


@dataclass(frozen=True)
class Place:
    """Where a trial's process runs and what it may use.

    `cpus`: cores it is pinned to; None for all that this process may use. `memory` bytes of the whole process tree. `secrets`: further
    environment variables of the process; they are written nowhere.
    """

    launcher: Literal["local", "endpoint"]
    machine: str
    cpus: tuple[int, ...] | None
    memory: float
    timeout_s: float
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Refused:
    """A trial that cannot be started at all: its failure class and why."""

    launcher: Literal["local", "endpoint"]
    failure_class: FailureClass
    detail: str


@dataclass(frozen=True)
class ThisMachine:
    """Runs `<command> run --trial <file> --out <store>` here.

    `grace_s` lies between SIGTERM and SIGKILL; `patience_s` is how long a trial waits for the machine before it fails with
    launch_timeout.
    """

    command: Sequence[str] = HARNESS
    grace_s: float = GRACE_S
    patience_s: float = PATIENCE_S

    def launch(self, trial: Trial, store: ResultStore, place: Place | Refused, on_progress: OnProgress | None) -> LaunchRecord:
        """See Launcher.launch. OSError if the store cannot be written; a trial that was running is ended all the same."""
        attempt = _Attempt(tuple(self.command), self.grace_s, store, on_progress, place.launcher)
        work = places().work
        work.mkdir(parents=True, exist_ok=True)
        orphans.sweep(work)
        attempt.happened("queued")
        if isinstance(place, Refused):
            return attempt.not_started(trial, place.failure_class, place.detail)

        def waiting(note: str) -> None:
            if on_progress is not None:
                on_progress(ProgressLine(trial.trial_id, "queued", 0.0, note))

        if (why := _no_room(trial, store, work)) is not None:
            return attempt.not_started(trial, "insufficient_capacity", why)
        try:
            with machine_lock(place.machine, trial.trial_id, work, self.patience_s, waiting) as hold:
                return attempt.run(next_attempt(trial, store), place, work, hold)
        except LockRefused as error:
            return attempt.not_started(trial, "harness_error", str(error))
        except MachineBusy as error:
            return attempt.not_started(trial, "launch_timeout", str(error))


class _Attempt:
    """One attempt, from its first event to its record."""

    def __init__(
        self,
        command: tuple[str, ...],
        grace_s: float,
        store: ResultStore,
        on_progress: OnProgress | None,
        launcher: Literal["local", "endpoint"],
    ) -> None:
        self._command, self._grace_s, self._store, self._on_progress, self._launcher = command, grace_s, store, on_progress, launcher
        self._events: list[Event] = []
        self._node: dict[str, Scalar] = {"host.name": socket.gethostname()}
        self._exit_code: int | None = None
        self._log_tail = ""

    def happened(self, name: str) -> None:
        """Note a moment."""
        now = datetime.now(timezone.utc)
        self._events.append(Event(name=name, utc=now, monotonic_s=time.monotonic(), clock="launcher"))

    def not_started(self, trial: Trial, failure_class: FailureClass, detail: str) -> LaunchRecord:
        """Record an attempt that no process was started for."""
        trial = next_attempt(trial, self._store)
        self._store.put_trial(trial)
        return self.close(trial, failure_class, detail)

    def run(self, trial: Trial, place: Place, work: Path, hold: int) -> LaunchRecord:
        """Run it on the machine that is now ours."""
        self.happened("requested")
        self._store.put_trial(trial)
        usable = sorted(os.sched_getaffinity(0))
        wanted = usable if place.cpus is None else place.cpus
        cpus = [cpu for cpu in wanted if cpu in usable]
        self._node |= {"cpus.declared": _listed(wanted), "cpus.used": _listed(cpus)}
        if not cpus:
            nothing = f"none of the declared cores {_listed(wanted)} may be used here; usable: {_listed(usable)}"
            return self.close(trial, "wrong_hardware", nothing)
        with contextlib.ExitStack() as stack:
            name = f"{trial.trial_id}.a{trial.attempt}"
            folder = _folder(stack, work / f"{name}.launch")
            # A short path of its own: names of Unix sockets in it must stay below 108 bytes.
            scratch = _folder(stack, Path(tempfile.mkdtemp(prefix="plumbline-")))
            try:
                failure_class, detail = self._supervise(trial, place, cpus, hold, folder, scratch, work / f"{name}.pid")
            except BaseException as stop:
                self.close(trial, "interrupted", f"the launcher was stopped while the trial ran: {stop!r}", folder)
                raise
            return self.close(trial, failure_class, detail, folder)

    def _supervise(
        self, trial: Trial, place: Place, cpus: list[int], hold: int, folder: Path, scratch: Path, pidfile: Path
    ) -> tuple[FailureClass | None, str | None]:
        specification = folder / "trial.json"
        specification.write_text(trial.model_dump_json(indent=1), encoding="utf-8")
        token = secrets.token_hex(16)
        with (folder / "launch.log").open("wb") as log:
            output = Output(log, self._on_line(trial.trial_id))
            try:
                with supervised(
                    [*self._command, "run", "--trial", str(specification), "--out", self._store.url],
                    cpus=cpus,
                    environment={**trial_environment(os.environ, self._store.url, token, scratch), **place.secrets},
                    token=token,
                    folder=folder,
                    hold=hold,
                    limits=Limits(place.timeout_s, place.memory, self._grace_s),
                    output=output,
                ) as process:
                    self.happened("process_started")
                    launcher, launcher_start = orphans.me()
                    running = orphans.Running(
                        trial.trial_id, token, launcher, launcher_start, process.pid, process.start, (str(folder), str(scratch))
                    )
                    with orphans.recorded(pidfile, running):
                        ended = process.wait()
            finally:
                self.happened("finished")
                self._log_tail = output.tail
        self._exit_code = ended.code
        if ended.code == STORE_FAILED:
            self._bring_home(trial, folder / "launch.log")
        return outcome(ended, self._store, self._store.folder(trial), self._log_tail)

    def _bring_home(self, trial: Trial, log: Path) -> None:
        """Take the result that the harness printed because the store was away; `collect` tries again if the store still is."""
        try:
            stores.from_log(trial, log.read_bytes(), self._store)
        except (OSError, log_block.BadBlock) as error:
            _log.warning("No result came home by the log of %s: %s", trial.trial_id, error)

    def _on_line(self, trial_id: str) -> Callable[[str], bool]:
        def tell(line: str) -> bool:
            if log_block.is_line(line):
                return True
            progress = parse(line)
            if progress is None or progress.trial_id != trial_id:
                return False
            if not any(event.name == "harness_ready" for event in self._events):
                self.happened("harness_ready")
            if self._on_progress is not None:
                self._on_progress(progress)
            return True

        return tell

    def close(self, trial: Trial, failure_class: FailureClass | None, detail: str | None, folder: Path | None = None) -> LaunchRecord:
        """Store the log, then the record: the last write of a launch."""
        if folder is not None and (folder / "launch.log").exists():
            self._store.put(f"{self._store.folder(trial)}/launch.log", (folder / "launch.log").read_bytes())
        record = LaunchRecord(
            launcher=self._launcher,
            events=tuple(self._events),
            exit_code=self._exit_code,
            failure_class=failure_class,
            failure_detail=detail,
            node=self._node,
            log_tail=self._log_tail,
        )
        self._store.put_launch(trial, record)
        return record


def _no_room(trial: Trial, store: ResultStore, work: Path) -> str | None:
    """Why the trial's files do not fit on this machine's disks; None if they do. An endpoint's model is elsewhere."""
    scratch = None if isinstance(trial.provider.launcher, EndpointLauncher) else scratch_of(trial.workload)
    needed = _ROOM + (0.0 if scratch is None else scratch.checkpoints + scratch.data + scratch.weights)
    folders = [(work, needed), (Path(tempfile.gettempdir()), _ROOM)]
    if store.url.startswith("file:"):
        folders.append((Path(url2pathname(urlsplit(store.url).path)), _ROOM))
    return next((why for folder, room in folders if (why := full_disk.lacking(folder, room)) is not None), None)


def _folder(stack: contextlib.ExitStack, path: Path) -> Path:
    """A folder that is there, and gone when the stack unwinds."""
    path.mkdir(parents=True, exist_ok=True)
    stack.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def _listed(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) or "none"
