"""Launcher for this machine: a trial is a pinned and limited process tree that leaves nothing behind."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from plumbline.declarations import Declarations, LocalLauncher, Provider, Trial, installation, installation_paths
from plumbline.declarations.addresses import local_path
from plumbline.declarations.compatibility import scratch_needed
from plumbline.declarations.data_places import address_of, data_of, fetched_source
from plumbline.harness.environment import collect_facts
from plumbline.harness.launcher_protocol import ProgressLine, parse_progress
from plumbline.launch import stores
from plumbline.launch.connections import model_secrets
from plumbline.launch.failures import STORE_FAILED, HarnessError, OutOfMemory, TrialTimeout, WrongHardware, trial_outcome
from plumbline.launch.launcher import DISCOVERY_PATIENCE_S, Launcher, OnProgress, ProbeSkipped, ProviderFacts, machine_facts
from plumbline.launch.local import loopback_nodes, machine_access
from plumbline.launch.local.machine_access import LockRefused, MachineBusy, machine_lock
from plumbline.launch.local.process import ProcessLimits, TrialOutput, supervised, trial_environment
from plumbline.launch.stores import next_attempt
from plumbline.results import Event, FailureClass, LaunchRecord, ResultStore, Scalar, log_transport
from plumbline.results.probe_document import InvalidProbe, ProbeDocument

_log = logging.getLogger(__name__)

HARNESS = (sys.executable, "-m", "plumbline.harness")
GRACE_S = 10.0
PATIENCE_S = 3600.0
_RESERVED_BYTES = 256 * 2.0**20
"""Free bytes that every trial needs for its log, its evidence and its document, beside its model and data."""


@dataclass(frozen=True)
class Allocation:
    """Limits and inputs of a trial's process. `cpus`: cores it is pinned to, None for all of this process. `memory`: bytes of the process tree.
    `secrets`: further environment variables, never written to disk. `reads`: URLs of stores that it reads with this process's credentials."""

    launcher: str
    machine: str
    cpus: tuple[int, ...] | None
    memory: float
    timeout_s: float
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class StartRefused:
    """Why a trial cannot be started."""

    launcher: str
    failure_class: FailureClass
    detail: str


@dataclass(frozen=True)
class ProcessRunner:
    """Runs `<command> run --trial <file> --out <store>` here.

    `grace_s`: between SIGTERM and SIGKILL. `patience_s`: how long a trial waits for the machine before it fails with launch_timeout.
    """

    command: Sequence[str] = HARNESS
    grace_s: float = GRACE_S
    patience_s: float = PATIENCE_S

    def launch(self, trial: Trial, store: ResultStore, place: Allocation | StartRefused, on_progress: OnProgress | None) -> LaunchRecord:
        """See Launcher.launch."""
        attempt = _LocalAttempt(tuple(self.command), self.grace_s, store, on_progress, place.launcher)
        work = installation_paths().work
        work.mkdir(parents=True, exist_ok=True)
        machine_access.end_abandoned(work)
        attempt.happened("queued")
        if isinstance(place, StartRefused):
            return attempt.not_started(trial, place.failure_class, place.detail)

        def waiting(note: str) -> None:
            if on_progress is not None:
                on_progress(ProgressLine(trial.trial_id, "queued", 0.0, note))

        if (why := _insufficient_disk(trial, store, work)) is not None:
            return attempt.not_started(trial, "quota_exceeded", why)
        try:
            with machine_lock(place.machine, trial.trial_id, work, self.patience_s, waiting) as hold:
                return attempt.run(next_attempt(trial, store), place, work, hold)
        except LockRefused as error:
            return attempt.not_started(trial, "harness_error", str(error))
        except MachineBusy as error:
            return attempt.not_started(trial, "launch_timeout", str(error))


@dataclass
class _LocalAttempt:
    """One attempt, from its first event to its record."""

    _command: tuple[str, ...]
    _grace_s: float
    _store: ResultStore
    _on_progress: OnProgress | None
    _launcher: str
    _events: list[Event] = field(default_factory=list)
    _node: dict[str, Scalar] = field(default_factory=lambda: {"host.name": socket.gethostname()})
    _exit_code: int | None = None
    _log_tail: str = ""

    def happened(self, name: str) -> None:
        now = datetime.now(timezone.utc)
        self._events.append(Event(name=name, utc=now, monotonic_s=time.monotonic(), clock="launcher"))

    def not_started(self, trial: Trial, failure_class: FailureClass, detail: str) -> LaunchRecord:
        trial = next_attempt(trial, self._store)
        self._store.put_trial(trial)
        return self.close(trial, failure_class, detail)

    def run(self, trial: Trial, place: Allocation, work: Path, hold: int) -> LaunchRecord:
        self.happened("requested")
        self._store.put_trial(trial)
        usable = sorted(os.sched_getaffinity(0))
        wanted = usable if place.cpus is None else place.cpus
        cpus = [cpu for cpu in wanted if cpu in usable]
        self._node |= {"cpus.declared": _join_cpus(wanted), "cpus.used": _join_cpus(cpus)}
        if not cpus:
            unusable = f"launcher.cpus {_join_cpus(wanted)}: none is usable here; expected cores among {_join_cpus(usable)}"
            return self.close(trial, "bad_declaration", unusable)
        with ExitStack() as stack:
            name = f"{trial.trial_id}.a{trial.attempt}"
            folder = work / f"{name}.launch"
            folder.mkdir(exist_ok=True)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            # A short path of its own: names of Unix sockets in it must stay below 108 bytes.
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plumbline-", ignore_cleanup_errors=True)))
            try:
                failure_class, detail = self._supervise(trial, place, cpus, hold, folder, scratch, work / f"{name}.pid")
            except BaseException as stop:
                self.close(trial, "interrupted", f"the launcher was stopped while the trial ran: {stop!r}", folder)
                raise
            return self.close(trial, failure_class, detail, folder)

    def _supervise(
        self, trial: Trial, place: Allocation, cpus: list[int], hold: int, folder: Path, scratch: Path, pidfile: Path
    ) -> tuple[FailureClass | None, str | None]:
        specification = folder / "trial.json"
        specification.write_text(trial.model_dump_json(indent=1), encoding="utf-8")
        token = secrets.token_hex(16)
        with (folder / "launch.log").open("wb") as log:
            output = TrialOutput(log, self._on_line(trial.trial_id))
            try:
                with supervised(
                    [*_as_nodes(trial), *self._command, "run", "--trial", str(specification), "--out", self._store.url],
                    cpus=cpus,
                    environment={
                        **trial_environment(os.environ, self._store.url, token, scratch, (*place.reads, *_prompt_urls(trial))),
                        **place.secrets,
                    },
                    token=token,
                    folder=folder,
                    hold=hold,
                    limits=ProcessLimits(place.timeout_s, place.memory, self._grace_s),
                    output=output,
                ) as process:
                    self.happened("process_started")
                    running = machine_access.LaunchPidfile.of(trial.trial_id, token, process.reaper, folder, scratch)
                    with machine_access.hold_pidfile(pidfile, running):
                        ended = process.wait()
            finally:
                self.happened("finished")
                self._log_tail = output.tail
        self._exit_code = ended.code
        if ended.code == STORE_FAILED:
            self._bring_home(trial, folder / "launch.log")
        return trial_outcome(ended, self._store, self._store.folder(trial), self._log_tail)

    def _bring_home(self, trial: Trial, log: Path) -> None:
        """Store the result that the harness printed because the store was unavailable; `collect` tries again."""
        try:
            stores.store_from_log(trial, log.read_bytes(), self._store)
        except (OSError, log_transport.InvalidBlock) as error:
            _log.warning("No result in the log of %s: %s", trial.trial_id, error)

    def _on_line(self, trial_id: str) -> Callable[[str], bool]:
        def handle(line: str) -> bool:
            if log_transport.is_block_line(line):
                return True
            progress = parse_progress(line)
            if progress is None or progress.trial_id != trial_id:
                return False
            if not any(event.name == "harness_ready" for event in self._events):
                self.happened("harness_ready")
            if self._on_progress is not None:
                self._on_progress(progress)
            return True

        return handle

    def close(self, trial: Trial, failure_class: FailureClass | None, detail: str | None, folder: Path | None = None) -> LaunchRecord:
        """Store the log, then the record, the last write of a launch."""
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


def _insufficient_disk(trial: Trial, store: ResultStore, work: Path) -> str | None:
    """Why the trial's files do not fit on this machine's disks, or None. An endpoint's model is elsewhere."""
    scratch = None if trial.provider.launcher.hosted else scratch_needed(trial.workload)
    needed = _RESERVED_BYTES + (0.0 if scratch is None else scratch.checkpoints + scratch.data + scratch.weights)
    folders = [(work, needed), (Path(tempfile.gettempdir()), _RESERVED_BYTES)]
    if (path := local_path(store.url)) is not None:
        folders.append((path, _RESERVED_BYTES))
    return next((why for folder, room in folders if (why := installation.insufficient_space(folder, room)) is not None), None)


def _as_nodes(trial: Trial) -> list[str]:
    """The start of the command of a trial on several nodes, all on this machine."""
    nodes = trial.workload.nodes
    return [] if nodes == 1 else [sys.executable, "-I", "-S", loopback_nodes.__file__, "--nodes", str(nodes), "--"]


def _join_cpus(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus)) or "none"


PROBE_START_S = 60.0
"""Seconds beyond a probe's own limit: for Python, the facts, and the document."""


def _probe_local(provider: Provider, launcher: LocalLauncher, limit_s: float, command: Sequence[str]) -> ProbeDocument | ProbeSkipped:
    work = installation_paths().work
    work.mkdir(parents=True, exist_ok=True)
    machine_access.end_abandoned(work)
    name = f"probe-{provider.name}-{secrets.token_hex(4)}"
    cpus = [cpu for cpu in launcher.cpus if cpu in os.sched_getaffinity(0)]
    if not cpus:
        raise WrongHardware(f"{provider.name}: launcher.cpus {_join_cpus(launcher.cpus)}: none is usable here")
    try:
        with machine_lock(launcher.machine, name, work, 0.0, lambda _: None) as hold:
            return _run_probe(name, launcher, cpus, hold, work, limit_s, command)
    except MachineBusy as busy:
        return ProbeSkipped(f"skipped while trials run: {busy}")


def _run_probe(
    name: str, launcher: LocalLauncher, cpus: list[int], hold: int, work: Path, limit_s: float, command: Sequence[str]
) -> ProbeDocument:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{name}.", dir=work, ignore_cleanup_errors=True)))
        out, token = folder / "probe.json", secrets.token_hex(16)
        output = TrialOutput(stack.enter_context((folder / "probe.log").open("wb")), lambda _: False)
        process = stack.enter_context(
            supervised(
                [*command, "probe", "--out", str(out), "--limit", f"{limit_s:g}"],
                cpus=cpus,
                environment=trial_environment(os.environ, "file:", token, folder),
                token=token,
                folder=folder,
                hold=hold,
                limits=ProcessLimits(limit_s + PROBE_START_S, launcher.memory, GRACE_S),
                output=output,
            )
        )
        running = machine_access.LaunchPidfile.of(name, token, process.reaper, folder)
        with machine_access.hold_pidfile(work / f"{name}.pid", running):
            ended = process.wait()
        if ended.stopped is not None:
            raise (OutOfMemory if ended.stopped == "memory" else TrialTimeout)(f"the probe was ended: {ended.detail}")
        if ended.code != 0:
            raise HarnessError(f"the probe ended with exit status {ended.code}: {output.tail}")
        return read_probe(out.read_bytes(), str(out))


def read_probe(text: bytes, where: str) -> ProbeDocument:
    """HarnessError unless the text is a valid probe document."""
    try:
        return ProbeDocument.read(text, where)
    except InvalidProbe as bad:
        raise HarnessError(f"{bad}; check that the image has this version of the harness") from bad


def _prompt_urls(trial: Trial) -> tuple[str, ...]:
    url = trial.workload.prompts_url
    return () if url is None else (url,)


def _allocation(trial: Trial, declared: LocalLauncher) -> Allocation | StartRefused:
    place = Allocation("local", declared.machine, declared.cpus, declared.memory, declared.timeout)
    data, source = data_of(trial.workload), fetched_source(trial.workload, trial.provider)
    if source is None:  # a script reads its data with this environment's credentials
        return place if data is None else replace(place, reads=(address_of(data, trial.provider),))
    try:
        secrets = model_secrets(source, declared, os.environ)
    except ValueError as error:
        return StartRefused("local", "bad_declaration", f"launcher.models_connection: {error}")
    urls = [url for url in (getattr(source, "url", None), declared.models_url) if url]
    return replace(place, secrets=secrets, reads=tuple(urls))


class ProcessLauncher(Launcher):
    """Runs trials on the provider's cores; see ProcessRunner for the arguments."""

    def __init__(self, command: Sequence[str] = HARNESS, *, grace_s: float = GRACE_S, patience_s: float = PATIENCE_S) -> None:
        self._machine = ProcessRunner(command, grace_s, patience_s)

    def launch(self, trial: Trial, store: ResultStore, on_progress: OnProgress | None = None) -> LaunchRecord:
        return self._machine.launch(trial, store, self.place(trial), on_progress)

    def refused(self, trial: Trial, store: ResultStore, why: StartRefused) -> LaunchRecord:
        """Record an attempt that cannot start."""
        return self._machine.launch(trial, store, why, None)

    def place(self, trial: Trial) -> Allocation | StartRefused:
        """Limits and inputs of the trial's process, or why it cannot start."""
        return _allocation(trial, trial.provider.launcher_as(LocalLauncher))

    def discover(self, provider: Provider, at: datetime, *, patience_s: float = DISCOVERY_PATIENCE_S) -> ProviderFacts:
        machine = provider.launcher_as(LocalLauncher).machine
        try:
            with machine_lock(machine, "discovery", installation_paths().work, 0.0, lambda _: None):
                facts = collect_facts()
        except MachineBusy as busy:
            return ProviderFacts((), {}, (f"not checked: {busy}",))
        unknown = facts.get("gpu.unknown_because")
        notes = (f"the GPUs cannot be observed: {unknown}",) if unknown else ()
        return ProviderFacts((machine_facts(facts),), {}, notes, (socket.gethostname(),))

    def probe(self, declared: Declarations, provider: Provider, now: datetime, limit_s: float) -> ProbeDocument | ProbeSkipped:
        return _probe_local(provider, provider.launcher_as(LocalLauncher), limit_s, self._machine.command)
