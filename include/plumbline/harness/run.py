"""One trial from its specification to its result document: collect facts, measure, judge, store the evidence, then the document.

A quick probe is the same without a trial."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from plumbline.declarations import Trial, installation
from plumbline.harness import environment, hardware_faults, measurement, probes, selfcheck
from plumbline.harness.contention_monitor import ContentionMonitor, ResumedContentionMonitor
from plumbline.harness.delivery import StoreUnreachable, UnusableStore, deliver, evidence_entries, open_store
from plumbline.harness.environment.cpu import allotted_cores, usable_cores
from plumbline.harness.gpu_monitor import GpuPhaseMonitor
from plumbline.harness.image_requirements import unsupported_torch
from plumbline.harness.interruption import Interrupted, Interruption, end_descendants, interruptible
from plumbline.harness.launcher_protocol import Progress, progress_printer
from plumbline.harness.measurement import EvidenceFile, Measurement, TrialFailed, TrialJudgement, scratch_folder
from plumbline.harness.persistent_state import PersistentState, StartState, environment_changes, load_monitor, persistent_state_of
from plumbline.harness.selfcheck import clocks
from plumbline.kinds import kind_of
from plumbline.results import (
    CheckLine,
    Environment,
    Event,
    Evidence,
    FailureClass,
    GpuCounter,
    MetricRow,
    Reason,
    Reproducibility,
    ResultDocument,
    ResultStore,
    Scalar,
    Telemetry,
    Validity,
    signing,
)
from plumbline.results.document import OtherProgram
from plumbline.results.probe_document import PROBE_LIMIT_S, ProbeDocument
from plumbline.results.signing import KeyPair
from plumbline.whole_file import write_whole

Measure = Callable[[Trial, Path, Progress, ContentionMonitor, Sequence[MetricRow]], Measurement]
"""The last argument: rows of the hardware probes."""
Probe = Callable[[Sequence[int], Path, Literal["cpu", "cuda"], int, float], list[MetricRow]]
"""The last two arguments: ranks of a job on this node, and the time limit of their all-reduce in seconds."""

_PROGRESS_BEFORE, _PROGRESS_AFTER = 0.04, 0.98
"""The parts of the progress bar before and after the measurement itself."""


def run(
    trial: Trial, out_url: str, measures: Mapping[str, Measure] | None = None, probe: Probe = probes.run, key: KeyPair | None = None
) -> ResultDocument:
    """Run a trial and store its document below `out_url` (any fsspec URL), the evidence first. Returns the document.

    `key` signs the document. `measures` by kind of workload and `probe` replace the real ones.

    There is always a document: a failure, an exception and a request to stop (SIGTERM, SIGINT) become `failed(class)` with the measurement so
    far. Raises UnusableStore if the store cannot be written to at the start, StoreUnreachable if it does not answer then, and DeliveryFailed
    if it stays away at the end; the log then holds the document. No child process and no working folder is left."""
    with interruptible() as interruption:
        return _Run(trial, interruption, measures, probe, key).execute(open_store(out_url))


class _Run:
    def __init__(
        self, trial: Trial, interruption: Interruption, measures: Mapping[str, Measure] | None, probe: Probe, key: KeyPair | None
    ) -> None:
        self._trial, self._interruption, self._measures, self._probe, self._key = trial, interruption, measures, probe, key
        self._progress = progress_printer(trial.trial_id)
        self._events: list[Event] = []
        self._facts: dict[str, Scalar] = {}
        self._probed: list[MetricRow] = []
        self._network: list[MetricRow] = []
        self._telemetry: list[Telemetry] = []
        self._others: list[OtherProgram] = []
        self._contention: list[TrialJudgement] = []
        self._gpu_health: tuple[GpuCounter, ...] = ()
        self._gpu_serials: tuple[str, ...] = ()
        self._gpu_errors: list[TrialJudgement] = []
        self._selfcheck: list[CheckLine] = []
        self._measurement = Measurement()
        self._state: PersistentState | None = None
        self._began = time.monotonic()
        self._record_event("harness_started")

    def execute(self, store: ResultStore) -> ResultDocument:
        with tempfile.TemporaryDirectory(prefix="trial-", dir=scratch_folder(), ignore_cleanup_errors=True) as folder:
            workdir = Path(folder)
            try:
                verdict = self._verdict(store, workdir)
                # A store that is away changes no verdict. Nothing of the trial uses the accelerator any more.
                return self._deliver(store, verdict)
            finally:
                if self._state is not None:
                    self._state.discard()

    def _verdict(self, store: ResultStore, workdir: Path) -> Validity:
        try:
            self._announce(store)
            self._state = persistent_state_of(self._trial, os.environ)
            self._measure(workdir)
            self._interruption.disarm()
            judgements = [*self._measurement.judgements, *self._contention, *self._gpu_errors, *selfcheck.judgements(self._selfcheck)]
            verdict = measurement.verdict(judgements)
            self._sealed(verdict, [item for item, _ in evidence_entries(self._measurement.evidence)])
            return verdict
        except (UnusableStore, StoreUnreachable):
            raise
        except TrialFailed as failure:
            self._measurement = failure.partial
            return self._failed(workdir, failure, failure.failure_class, failure.detail)
        except Interrupted as stop:
            return self._failed(workdir, stop, "interrupted", f"the harness was asked to stop by {stop.signal}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the trial is recorded
            kind: FailureClass = "out_of_memory" if _is_out_of_memory(error) else "harness_error"
            return self._failed(workdir, error, kind, installation.full_disk_message(error) or f"{type(error).__name__}: {error}")

    def _announce(self, store: ResultStore) -> None:
        trial = self._trial
        try:
            if trial.selfcheck and not store.url.startswith("file:"):
                specification = f"{store.folder(trial)}/trial.json"
                self._selfcheck = [clocks.store_clock_offset(lambda: store.put_trial(trial), lambda: store.modified(specification))]
            else:  # a folder of this machine has this machine's clock
                store.put_trial(trial)
        except Exception as error:
            what = f"{store.url} cannot be written to: {type(error).__name__}: {error}"
            # A disk that fails does not come back, and who is refused stays so; a store elsewhere does.
            lasting = store.url.startswith("file:") or isinstance(error, PermissionError | FileNotFoundError)
            if isinstance(error, OSError) and not lasting:
                raise StoreUnreachable(what) from error
            raise UnusableStore(what) from error

    def _measure(self, workdir: Path) -> None:
        trial, cpus = self._trial, usable_cores()
        # What can be seen here is not what a hosted model runs on.
        hosted = trial.hosted
        if self._state is not None:
            self._state.open()
            workdir = self._state.folder
        earlier = None
        if self._state is not None and self._state.deletions:
            start, earlier = StartState.load(self._state), load_monitor(self._state)
            self._facts, self._probed, self._events = start.facts, start.probed, [*start.events, *self._events]
        else:
            self._progress("environment", 0.0, "collecting environment facts")
            self._facts = {f"{'client.' if hosted else ''}{name}": value for name, value in environment.collect_facts().items()}
            self._record_event("environment_probed")
            if not hosted:
                self._check_torch(self._facts)
                environment.require_driver(self._facts)
                self._check_locked_memory(self._facts)
                environment.check_accelerators(trial.provider, trial.workload.gpus, self._facts)
            if trial.selfcheck:
                self._progress("environment", 0.005, "running self-checks")
                self._selfcheck = [*selfcheck.run_for_trial(trial), *self._selfcheck]
                self._record_event("instrument_checked")
        gpus = None if hosted else GpuPhaseMonitor()
        if gpus is not None:
            gpus.before = environment.hardware_judgements(self._facts)
            self._gpu_serials = environment.serial_numbers()
        with (
            ContentionMonitor(cpus, allotted_cores(), gpus=gpus)
            if earlier is None
            else ResumedContentionMonitor(cpus, allotted_cores(), gpus, earlier) as monitor
        ):
            try:
                if not hosted and earlier is None:
                    self._progress("environment", 0.01, "probing the hardware")
                    device: Literal["cpu", "cuda"] = "cpu" if trial.provider.accelerator.kind == "cpu" else "cuda"
                    ranks = trial.workload.collective_ranks
                    with monitor.phase("environment"):
                        self._probed = self._probe(cpus[: allotted_cores()], workdir, device, ranks, trial.provider.launcher.collective_s)
                self._record_event("measurement_started" if earlier is None else "measurement_continued")
                if self._state is not None:
                    StartState(self._facts, self._probed, self._events).save(self._state)
                # Imported on demand: each has heavy dependencies.
                module = kind_of(trial.workload).measured_by
                measure: Measure = self._measures[trial.workload.kind] if self._measures else import_module(module).measure
                self._measurement = measure(trial, workdir, self._report_part, monitor, self._probed)
                self._record_event("measurement_finished")
            finally:
                self._end_leftovers()
                self._telemetry, self._others, self._network = monitor.telemetry(), monitor.other_programs(), monitor.network_rows()
                # Also of a trial that fails: an error of the GPU is what can have made it fail.
                self._gpu_errors, self._gpu_health = monitor.gpus.new_errors(), monitor.gpus.health()
            self._contention = monitor.judgements(trial.validity)
        if earlier is not None:  # not before: looking around would count as the time that the recovery takes
            facts = environment.collect_facts()
            environment.check_accelerators(trial.provider, trial.workload.gpus, facts)
            self._contention += environment_changes(self._facts, facts)

    def _check_torch(self, facts: Mapping[str, Scalar]) -> None:
        installed = facts.get("torch.version")
        if installed is None and self._trial.workload.kind == "inference":
            return  # an engine of its own may compute without it; only probes need it, and each says so
        wrong = unsupported_torch(None if installed is None else str(installed))
        if wrong is not None:
            raise TrialFailed("image_error", wrong)

    def _check_locked_memory(self, facts: Mapping[str, Scalar]) -> None:
        short = environment.locked_memory_shortage(self._trial.provider.launcher.remote_memory, facts)
        if short is not None and self._trial.workload.nodes > 1:
            raise TrialFailed("bad_declaration", short)

    def _report_part(self, phase: str, fraction: float, note: str = "") -> None:
        self._progress(phase, _PROGRESS_BEFORE + (_PROGRESS_AFTER - _PROGRESS_BEFORE) * min(max(fraction, 0.0), 1.0), note)

    def _failed(self, workdir: Path, error: BaseException, kind: FailureClass, detail: str) -> Validity:
        self._interruption.disarm()
        self._record_event("trial_failed")
        measured = self._measurement
        # The failure may have come before a file was written, or be about these very files.
        existing = {item.path.name: item for item in measured.evidence if item.path.exists()}
        if kind == "harness_error":
            report = workdir / "traceback.txt"
            try:
                report.write_text("".join(traceback.format_exception(type(error), error, error.__traceback__)), encoding="utf-8")
                existing[report.name] = EvidenceFile("traceback", report)
            except OSError as unwritten:  # on a full disk the class and its sentence are what there is
                sys.stderr.write(f"the traceback could not be written: {unwritten}\n")
        measured.evidence = list(existing.values())
        # Errors of a GPU explain a worker or server that ended, not an exception of the harness itself.
        counters = self._gpu_health if isinstance(error, TrialFailed) else ()
        if kind in ("harness_error", "server_error") and (why := hardware_faults.explain_failure(detail, counters)) is not None:
            kind, detail = "provider_fault", f"{why}: {detail}"
        return measurement.failed_validity(kind, detail, [*measured.judgements, *self._gpu_errors])

    def _deliver(self, store: ResultStore, verdict: Validity) -> ResultDocument:
        trial = self._trial
        self._progress("cooldown", _PROGRESS_AFTER, "storing the evidence")

        def seal(evidence: Sequence[Evidence], reasons: Sequence[Reason]) -> ResultDocument:
            stored = _event_now("evidence_stored")
            return self._sealed(verdict.model_copy(update={"reasons": (*verdict.reasons, *reasons)}), evidence, stored)

        left_s = trial.provider.launcher.trial_limit_s - (time.monotonic() - self._began)
        document = deliver(store, trial, evidence_entries(self._measurement.evidence), seal, self._interruption, left_s)
        self._progress("cooldown", 1.0, verdict.status)
        return document

    def _sealed(self, verdict: Validity, evidence: Sequence[Evidence], *more: Event) -> ResultDocument:
        trial, measured = self._trial, self._measurement
        facts = {**self._facts, **measured.facts}
        recorded = {(row.phase, row.signal) for row in measured.telemetry}
        document = ResultDocument.sealed(
            trial=trial,
            harness_version=version("plumbline"),
            environment=Environment.of(facts) if self._facts else None,
            reproducibility=Reproducibility(
                seeds=dict(sorted(measured.seeds.items())),
                hashes=dict(sorted(measured.hashes.items())),
                replay_command=f"plumbline replay {trial.trial_id}",
                guarantees=tuple(measured.guarantees),
            ),
            timeline=tuple(sorted([*self._events, *measured.events, *more], key=lambda event: event.utc)),
            validity=verdict,
            metrics=(*self._probed, *measured.metrics, *self._network),
            curves=tuple(measured.curves),
            limits=tuple(measured.limits),
            stages=tuple(measured.stages),
            telemetry=(*measured.telemetry, *(row for row in self._telemetry if (row.phase, row.signal) not in recorded)),
            other_programs=tuple(self._others),
            usage=tuple(measured.usage),
            gpu_health=self._gpu_health,
            gpu_serials=self._gpu_serials,
            selfcheck=tuple(self._selfcheck),
            evidence=tuple(evidence),
        )
        return document if self._key is None else signing.sign(document, self._key)

    def _end_leftovers(self) -> None:
        if names := end_descendants():
            sys.stderr.write(f"ended what the measurement left running: {', '.join(names)}\n")

    def _record_event(self, name: str) -> None:
        self._events.append(_event_now(name))


def _event_now(name: str) -> Event:
    return Event(name=name, utc=datetime.now(timezone.utc), monotonic_s=time.monotonic())


def _is_out_of_memory(error: Exception) -> bool:
    # PyTorch raises a class of its own for GPUs and a bare RuntimeError for main memory; it is not imported to find out.
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


_PROBES: tuple[probes.ProbeName, ...] = ("matmul", "memory", "copy")


def quick_probe(folder: Path, limit_s: float = PROBE_LIMIT_S, names: Sequence[probes.ProbeName] = _PROBES) -> ProbeDocument:
    """Probe once, for at most `limit_s` seconds (the facts alone take a few). `folder`: scratch space."""
    began = time.monotonic()
    facts = Environment.of(environment.collect_facts())
    cuda = bool(facts.facts.get("gpu.count"))
    rows: list[MetricRow] = []
    left_out: dict[str, str] = {}
    with ContentionMonitor(usable_cores()) as monitor, monitor.phase("environment"):
        for name in names:
            if name == "copy" and not cuda:
                continue
            left_s = limit_s - (time.monotonic() - began)
            if left_s <= 0:
                left_out[name] = f"not started: the time limit of {limit_s:g} s had passed"
                continue
            measured = probes.run(usable_cores(), folder, "cuda" if cuda else "cpu", only=(name,), limit_s=left_s, gpus=1)
            rows += measured
            if measured and all(row.value is None for row in measured):
                left_out[name] = next((row.reason for row in measured if row.reason), "not measured")
    foreign = next((row.mean for row in monitor.telemetry() if row.signal == "foreign_cpu"), None)
    return ProbeDocument(
        harness_version=version("plumbline"),
        taken_at=datetime.now(timezone.utc),
        seconds=round(time.monotonic() - began, 3),
        environment=facts,
        metrics=tuple(rows),
        foreign_cpu=None if cuda or foreign is None else min(foreign, 1.0),
        left_out=left_out,
    )


def store_probe(document: ProbeDocument, out: str) -> None:
    """Store atomically at an fsspec URL or as a file. OSError if that fails; UnusableStore for an invalid URL."""
    text = document.model_dump_json(indent=1).encode()
    if "://" in out:
        home, _, name = out.rpartition("/")
        open_store(home).put(name, text)
        return
    write_whole(Path(out), text)
