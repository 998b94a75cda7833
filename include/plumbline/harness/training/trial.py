"""The runs of one training trial, in their order."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.declarations import Trial, places
from plumbline.declarations.phases import Phase
from plumbline.declarations.training import TrainingWorkload
from plumbline.harness.environment.cpu import cpu_limit, usable
from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.harness.progress import Progress
from plumbline.harness.training import checkpoint, dataset, plan, summary, verdicts
from plumbline.harness.training.job import Job, Setting, meeting
from plumbline.harness.training.place import BadPlace, patience_s, place_of, shares
from plumbline.harness.training.records import Records, Restart
from plumbline.harness.training.team import Team

if TYPE_CHECKING:
    from plumbline.harness.watch import Watch

_REPORT_EVERY_S = 0.5
_LAUNCH_SHARE = 0.15
"""Of a run's share of the progress bar: what importing torch and building the model is worth."""


def measure_training(trial: Trial, workdir: Path, progress: Progress, watch: Watch) -> Measurement:
    """See `plumbline.harness.training.measure`."""
    workload = trial.workload
    if not isinstance(workload, TrainingWorkload):
        raise TypeError(f"{workload.name} is an {workload.kind} workload; expected a training workload")
    session = _Session(trial, workload, workdir, progress, watch)
    try:
        session.run()
    except TrialFailed as failure:
        raise TrialFailed(failure.failure_class, failure.detail, summary.measurement(workload, session.records, workdir)) from failure
    except BadPlace as error:
        raise TrialFailed("harness_error", str(error)) from error
    except OSError as error:
        partial = summary.measurement(workload, session.records, workdir)
        raise TrialFailed("harness_error", f"{error.filename or workdir}: {error.strerror or error}", partial) from error
    finally:
        session.clear()
    measured = summary.measurement(workload, session.records, workdir)
    measured.judgements += verdicts.judge(workload, trial.validity, session.records)
    return measured


class _Session:
    """One trial under way: its records so far, the phase it is in, and the part of the progress bar that a run fills."""

    def __init__(self, trial: Trial, workload: TrainingWorkload, workdir: Path, progress: Progress, watch: Watch) -> None:
        self._trial, self._workload, self._folder = trial, workload, workdir
        self._progress, self._watch = progress, watch
        self.records = Records(plan.fault_plan(workload))
        self._phase: Phase = "cold_start"
        self._reported_s = 0.0
        self._fraction = 0.0

    def run(self) -> None:
        workload = self._workload
        place = place_of(self._trial, os.environ)
        with contextlib.ExitStack() as stack:
            team = stack.enter_context(Team(self._trial, place)) if place.nodes > 1 else None
            self._report("preparing data", force=True)
            data = dataset.prepare(workload, places().cache)
            self.records.data_sha256 = data.sha256
            device = "cpu" if workload.needs.accelerator == "cpu" else "cuda"
            parts = shares(usable(), cpu_limit(os.environ), place.processes, device)
            if team is not None:
                team.gather(patience_s(self._trial.provider), data.sha256, self._report)
            setting = stack.enter_context(meeting(Setting(self._folder, place, parts, team=team)))
            self._runs(setting, plan.undisturbed(workload, data, self._folder, device=device))

    def _runs(self, setting: Setting, first: plan.WorkerSpec) -> None:
        fault = self.records.fault
        self._undisturbed(setting, first, end=0.6 if fault else 1.0)
        if fault is not None:
            pinned = Path(first.checkpoint_folder) / checkpoint.name_of(fault.resume_from)
            apart = self._folder / "fault-checkpoints"
            apart.mkdir()
            pinned.rename(apart / pinned.name)
            kill = self._fault(setting, plan.resumed(first, fault, self._folder, "fault"), end=0.75)
            self._recover(setting, plan.resumed(first, fault, self._folder, "recovery"), fault, kill)

    def clear(self) -> None:
        """Delete the checkpoints: they can be large and nobody needs them after the trial."""
        for name in ("checkpoints", "fault-checkpoints"):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def _undisturbed(self, setting: Setting, spec: plan.WorkerSpec, *, end: float) -> None:
        discard = self._workload.steps.discard
        with self._in_phases() as switch, Job("run", spec, setting) as job:
            self.records.runs["run"] = job.record
            switch("cold_start")
            for line in job.lines():
                done = len(job.record.steps)
                wanted: Phase = "cold_start" if done == 0 else "warmup" if done < discard else "steady" if done < spec.until else "cooldown"
                if line is None and wanted != self._phase:
                    switch(wanted)
                self._fraction = end * _share(done, 0, spec.until)
                self._report(f"{done} of {spec.until} steps" if done < spec.until else "verifying the checkpoint")

    def _fault(self, setting: Setting, spec: plan.WorkerSpec, *, end: float) -> tuple[float, float]:
        start, first = self._fraction, self.records.fault.resume_from if self.records.fault else 0
        with self._in_phases() as switch, Job("fault", spec, setting) as job:
            self.records.runs["fault"] = job.record
            switch("fault")
            for line in job.lines():
                if line is not None and line["event"] == "holding":
                    return job.kill(lambda: self._report("waiting for the killed process to be gone"))
                self._fraction = start + (end - start) * _share(len(job.record.steps), first, spec.until)
                self._report(f"to be killed in step {spec.hold.step}" if spec.hold else "")
        raise TrialFailed("harness_error", f"the fault worker ended without reaching step {spec.hold.step if spec.hold else None}")

    def _recover(self, setting: Setting, spec: plan.WorkerSpec, fault: plan.FaultPlan, kill: tuple[float, float]) -> None:
        start = self._fraction
        with self._in_phases() as switch, Job("recovery", spec, setting) as job:
            self.records.runs["recovery"] = job.record
            self.records.restart = Restart(*kill)
            switch("recovery")
            for _ in job.lines():
                done = len(job.record.steps)
                self._fraction = start + (1.0 - start) * _share(done, 0, fault.until - fault.resume_from)
                self._report(f"{done} of {fault.until - fault.resume_from} steps since the checkpoint")

    @contextlib.contextmanager
    def _in_phases(self) -> Iterator[_Switch]:
        """Attributes the watch's samples to one phase after the other; the last one ends with the block."""
        with contextlib.ExitStack() as stack:
            yield _Switch(self, stack)

    def _report(self, note: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._reported_s >= _REPORT_EVERY_S:
            self._reported_s = now
            self._progress(self._phase, self._fraction, note)

    def enter(self, phase: Phase) -> contextlib.AbstractContextManager[object]:
        """Make `phase` the current one; the context attributes the watch's samples to it."""
        self._phase = phase
        return self._watch.phase(phase)


class _Switch:
    """Leaves the current phase of the watch and enters the next."""

    def __init__(self, session: _Session, stack: contextlib.ExitStack) -> None:
        self._session, self._stack = session, stack

    def __call__(self, phase: Phase) -> None:
        self._stack.close()
        self._stack.enter_context(self._session.enter(phase))


def _share(done: int, first: int, until: int) -> float:
    """Part of a run that is done, its launch included: 0…1."""
    return _LAUNCH_SHARE + (1.0 - _LAUNCH_SHARE) * done / max(until - first, 1) if done else _LAUNCH_SHARE / 2
