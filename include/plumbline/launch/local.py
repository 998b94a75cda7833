"""The local launcher: a trial as a process on this machine, pinned, limited, watched, and gone without a trace afterwards."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from plumbline.declarations import LocalLauncher as Declared
from plumbline.declarations import Trial, places
from plumbline.harness.progress import ProgressLine, parse
from plumbline.launch import orphans
from plumbline.launch.base import OnProgress
from plumbline.launch.environment import trial_environment
from plumbline.launch.machine_lock import MachineBusy, machine_lock
from plumbline.launch.outcome import outcome
from plumbline.launch.process import Limits, Output, supervised
from plumbline.launch.stores import next_attempt
from plumbline.results import Event, FailureClass, LaunchRecord, ResultStore, Scalar

HARNESS = (sys.executable, "-m", "plumbline.harness")
GRACE_S = 10.0
PATIENCE_S = 3600.0


class LocalLauncher:
    """Runs `<command> run --trial <file> --out <store>` on the provider's cores.

    `grace_s` lies between SIGTERM and SIGKILL; `patience_s` is how long a trial waits for the machine before it fails with
    launch_timeout.
    """

    def __init__(self, command: Sequence[str] = HARNESS, *, grace_s: float = GRACE_S, patience_s: float = PATIENCE_S) -> None:
        self._command, self._grace_s, self._patience_s = tuple(command), grace_s, patience_s

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        """See Launcher.launch. OSError if the store cannot be written; a trial that was running is ended all the same."""
        attempt = _Attempt(self._command, self._grace_s, store, on_progress)
        declared = trial.provider.launcher
        assert isinstance(declared, Declared)
        work = places().work
        work.mkdir(parents=True, exist_ok=True)
        orphans.sweep(work)
        attempt.happened("queued")

        def waiting(note: str) -> None:
            if on_progress is not None:
                on_progress(ProgressLine(trial.trial_id, "queued", 0.0, note))

        try:
            with machine_lock(declared.machine, trial.trial_id, work, self._patience_s, waiting) as hold:
                return attempt.run(next_attempt(trial, store), declared, work, hold)
        except MachineBusy as error:
            trial = next_attempt(trial, store)
            store.put_trial(trial)
            return attempt.close(trial, "launch_timeout", str(error))


class _Attempt:
    """One attempt, from its first event to its record."""

    def __init__(self, command: tuple[str, ...], grace_s: float, store: ResultStore, on_progress: OnProgress | None) -> None:
        self._command, self._grace_s, self._store, self._on_progress = command, grace_s, store, on_progress
        self._events: list[Event] = []
        self._node: dict[str, Scalar] = {"host.name": socket.gethostname()}
        self._exit_code: int | None = None
        self._log_tail = ""

    def happened(self, name: str) -> None:
        """Note a moment."""
        now = datetime.now(timezone.utc)
        self._events.append(Event(name=name, utc=now, monotonic_s=time.monotonic(), clock="launcher"))

    def run(self, trial: Trial, declared: Declared, work: Path, hold: int) -> LaunchRecord:
        """Run it on the machine that is now ours."""
        self.happened("requested")
        self._store.put_trial(trial)
        usable = os.sched_getaffinity(0)
        cpus = [cpu for cpu in declared.cpus if cpu in usable]
        self._node |= {"cpus.declared": _listed(declared.cpus), "cpus.used": _listed(cpus)}
        if not cpus:
            nothing = f"none of the declared cores {_listed(declared.cpus)} may be used here; usable: {_listed(sorted(usable))}"
            return self.close(trial, "wrong_hardware", nothing)
        with contextlib.ExitStack() as stack:
            name = f"{trial.trial_id}.a{trial.attempt}"
            folder = _folder(stack, work / f"{name}.launch")
            # A short path of its own: names of Unix sockets in it must stay below 108 bytes.
            scratch = _folder(stack, Path(tempfile.mkdtemp(prefix="plumbline-")))
            try:
                failure_class, detail = self._supervise(trial, declared, cpus, hold, folder, scratch, work / f"{name}.pid")
            except BaseException as stop:
                self.close(trial, "interrupted", f"the launcher was stopped while the trial ran: {stop!r}", folder)
                raise
            return self.close(trial, failure_class, detail, folder)

    def _supervise(
        self, trial: Trial, declared: Declared, cpus: list[int], hold: int, folder: Path, scratch: Path, pidfile: Path
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
                    environment=trial_environment(os.environ, self._store.url, token, scratch),
                    token=token,
                    folder=folder,
                    hold=hold,
                    limits=Limits(declared.timeout, declared.memory, self._grace_s),
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
        return outcome(ended, self._store, self._store.folder(trial), self._log_tail)

    def _on_line(self, trial_id: str) -> Callable[[str], bool]:
        def tell(line: str) -> bool:
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
            launcher="local",
            events=tuple(self._events),
            exit_code=self._exit_code,
            failure_class=failure_class,
            failure_detail=detail,
            node=self._node,
            log_tail=self._log_tail,
        )
        self._store.put_launch(trial, record)
        return record


def _folder(stack: contextlib.ExitStack, path: Path) -> Path:
    """A folder that is there, and gone when the stack unwinds."""
    path.mkdir(parents=True, exist_ok=True)
    stack.callback(shutil.rmtree, path, ignore_errors=True)
    return path


def _listed(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) or "none"
