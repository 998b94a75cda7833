"""The runs of one training trial, in their order."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.declarations import Trial, installation_paths
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import TrainingJob
from plumbline.harness.environment.cpu import cpu_limit, usable_cores
from plumbline.harness.gang.topology import InvalidTopology, topology_of
from plumbline.harness.launcher_protocol import Progress
from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.harness.persistent_state import PersistentState, persistent_state_of
from plumbline.harness.probes import inter_node
from plumbline.harness.training import plan
from plumbline.harness.training.analysis import recovery
from plumbline.harness.training.analysis.measurement import build_measurement, judge_training
from plumbline.harness.training.analysis.performance import energy_rows
from plumbline.harness.training.analysis.records import UNPLANNED, TrainingIncident, TrainingRecords
from plumbline.harness.training.analysis.script import device_peaks
from plumbline.harness.training.analysis.step_limit import judge_step, step_evidence
from plumbline.harness.training.job.coordinator import Coordinator
from plumbline.harness.training.job.inputs import Inputs, ScriptInputs, prepare
from plumbline.harness.training.job.job import Job, JobContext, isolate_fault_checkpoint, rendezvous
from plumbline.harness.training.job.job_fault import HeldAttempt, HeldTrial, job_fault
from plumbline.harness.training.job.supervisor import RunAborted
from plumbline.harness.training.plan import share_cores
from plumbline.harness.training.worker_protocol import HoldPoint, RunKind, RunName, RunRecord, RunSpec, run_kind
from plumbline.metrics import Phase
from plumbline.results import MetricRow

if TYPE_CHECKING:
    from plumbline.harness.contention_monitor import ContentionMonitor

_REPORT_EVERY_S = 0.5
_LAUNCH_SHARE = 0.15
"""Share of a run's progress for importing torch and building the model."""
_FAULT_SHARE = 0.4
"""Share of the remaining progress for an attempt that a fault ends."""
_CHECKS_SHARE = 0.8
"""Share of the trial's time limit after which no check is repeated: the rest is for what came before the training and for the delivery."""
_MAX_SHOWN = 5


def measure(trial: Trial, workdir: Path, progress: Progress, monitor: ContentionMonitor, probed: Sequence[MetricRow] = ()) -> Measurement:
    """Run one training trial below `workdir` (must exist) and return the measurement with its judgements.

    TrialFailed with a failure class when it cannot be measured; no process of the trial outlives the call."""
    if (workload := trial.workload.job) is None:
        raise TypeError(f"{trial.workload.name} is an {trial.workload.kind} workload; expected a training workload")
    # What must outlive the pod lies where its successor finds it.
    state = persistent_state_of(trial, os.environ)
    folder = workdir if state is None else state.folder
    session = _TrialRun(trial, workload, folder, progress, monitor, state)
    try:
        session.run()
    except TrialFailed as failure:
        partial = build_measurement(workload, session.records, folder)
        partial.judgements += recovery.declared_failure(workload, session.records)
        raise TrialFailed(failure.failure_class, failure.detail, partial) from failure
    except InvalidTopology as error:
        raise TrialFailed("harness_error", str(error)) from error
    except OSError as error:
        partial = build_measurement(workload, session.records, folder)
        raise TrialFailed("harness_error", f"{error.filename or folder}: {error.strerror or error}", partial) from error
    finally:
        session.clear()
    measured = build_measurement(workload, session.records, folder, device_peaks(trial, probed))
    measured.metrics += [*session.network, *session.between.rows]
    accelerated = workload.needs.accelerator != "cpu"
    measured.metrics += energy_rows(measured.metrics, monitor.gpu_rows())
    if isinstance(workload, ScriptWorkload) and accelerated:
        measured.metrics += monitor.gpus.memory_rows()
    if any(row.phase == "steady" for row in measured.metrics):
        evidence = step_evidence(
            accelerated=accelerated,
            metrics=measured.metrics,
            stages=measured.stages,
            telemetry=monitor.telemetry(),
            probed_power=monitor.gpus.peak("environment", "power"),
        )
        measured.limits.append(judge_step(evidence))
    measured.curves += session.between.curves
    measured.facts |= session.between.facts
    measured.judgements += judge_training(workload, trial.validity, session.records)
    if workload.fault is not None:
        measured.judgements += job_fault(workload.fault.inject).judge(session.records, state)
    return measured


class _TrialRun:
    def __init__(
        self,
        trial: Trial,
        workload: TrainingJob,
        workdir: Path,
        progress: Progress,
        monitor: ContentionMonitor,
        state: PersistentState | None,
    ) -> None:
        self._state, self._began_s = state, time.monotonic()
        self._shifts_s: dict[RunName, float] = {}
        self._trial, self._workload, self._folder = trial, workload, workdir
        self._progress, self._monitor = progress, monitor
        self.records = TrainingRecords(plan.plan_fault(workload))
        self.network: list[MetricRow] = []
        self.between = inter_node.InterNodeResult()
        self._phase: Phase = "cold_start"
        self._reported_s = 0.0
        self._fraction = 0.0

    def run(self) -> None:
        workload = self._workload
        topology = topology_of(self._trial, os.environ)
        with contextlib.ExitStack() as stack:
            coordinator = Coordinator(self._trial, topology) if topology.nodes > 1 else None
            if coordinator is not None:
                stack.callback(
                    lambda: self._monitor.gpus.add_nodes(coordinator.gpus)
                )  # after the coordinator's end, with which nodes send their readings
                stack.enter_context(coordinator)
                self._monitor.gpus.announce = coordinator.enter
            self._resume(topology.processes)
            self._report("preparing data", force=True)
            device = "cpu" if workload.needs.accelerator == "cpu" else "cuda"
            # A new pod would otherwise make the data again, and the provider be charged for it.
            cache = installation_paths().cache if self._state is None else self._state.folder / "cache"
            inputs = prepare(self._trial, self._folder, cache, device, self._report)
            self.records.data_sha256 = inputs.sha256
            self.records.placed = inputs.data if isinstance(inputs, ScriptInputs) else None
            binds = device == "cpu" and not inputs.of_script
            parts = share_cores(usable_cores(), cpu_limit(os.environ), topology.processes, binds=binds)
            if coordinator is not None:
                coordinator.gather(self._trial.provider.launcher.gang_assembly_s, inputs.sha256, self._report)
                self._report("probing the network between the nodes", force=True)
                self.network = inter_node.peer_rows(coordinator.peers.values())
            context = stack.enter_context(rendezvous(JobContext(self._folder, topology, parts, coordinator=coordinator)))
            if coordinator is not None:
                self._probe_collectives(context, coordinator, device)
            self._runs(context, inputs)

    def _probe_collectives(self, context: JobContext, coordinator: Coordinator, device: str) -> None:
        topology, store = context.topology, context.store
        assert store is not None
        self._report("measuring collectives between the nodes", force=True)
        limit_s = self._trial.provider.launcher.collective_s
        orders = inter_node.CollectiveSpec(topology.nodes, topology.processes, device, store.host, store.port, limit_s)
        coordinator.probe(orders)
        ranks = inter_node.RankProcesses(orders, topology.node, context.shares[0].threads, self._folder, context.variables)
        self.between = inter_node.measure_collectives(ranks, coordinator.probe_failure)

    def _runs(self, context: JobContext, inputs: Inputs) -> None:
        fault = self.records.fault
        if self._state is None or not self._state.deletions:  # else an earlier pod did it
            self._run_until_done("run", context, inputs, end=0.6 if fault else 1.0)
            if fault is not None:
                isolate_fault_checkpoint(self._folder, fault)
        if fault is not None:
            self._run_until_done("recovery", context, inputs, end=1.0)

    def _run_until_done(self, goal: RunKind, context: JobContext, inputs: Inputs, *, end: float) -> None:
        """Make attempts until the run is done. TrialFailed after more aborted attempts than may be restarted."""
        mine = ("run",) if goal == "run" else ("fault", "recovery")
        ended = [incident for incident in self.records.incidents if run_kind(incident.run) in mine]  # of this pod and those before it
        fault, allowed = self.records.fault, self._workload.restarts
        while True:
            if len(ended) > allowed:
                raise _too_many_restarts(ended, allowed)
            struck = sum(incident.ending != UNPLANNED for incident in ended)
            kind = "fault" if goal == "recovery" and fault is not None and struck < fault.times else goal
            name = self.records.next_name(kind)
            spec = inputs.spec(name, resume=inputs.resumes(name))
            end_by_s = self._began_s + _CHECKS_SHARE * self._trial.provider.launcher.trial_limit_s
            incident = self._attempt(name, replace(spec, end_by_ns=int(end_by_s * 1e9)), context, end=end)
            if incident is None:
                return
            ended.append(incident)
            self.records.incidents.append(incident)

    def _attempt(self, name: RunName, spec: RunSpec, context: JobContext, *, end: float) -> TrainingIncident | None:
        began = self._fraction
        until = began + (end - began) * _FAULT_SHARE if spec.hold is not None else end
        record: RunRecord | None = None
        try:
            with self._in_phases() as switch, Job(name, spec, context) as job:
                record = self.records.runs[name] = job.record
                switch(_phase(name, record, spec, self._workload.steps.discard))
                for line in job.lines(lambda: self._report("waiting for other nodes to stop")):
                    if line is not None and line["event"] == "holding":
                        return self._inject(name, spec, job)
                    wanted = _phase(name, record, spec, self._workload.steps.discard)
                    if line is None and wanted != self._phase:
                        switch(wanted)
                    self._report_steps(name, spec, record, began, until)
        except RunAborted as broken:
            steps = record.steps if record is not None else []
            step = min(steps[-1].step + 1, spec.until - 1) if steps else None
            cause = broken.cause
            return TrainingIncident(
                name, UNPLANNED, broken.seen_s, broken.noticed_s, step, failure_class=cause.failure_class, detail=cause.detail
            )
        if spec.hold is not None:
            raise TrialFailed("harness_error", f"{name} ended without reaching {_describe_fault_point(spec.hold)}")
        return None

    def _inject(self, name: RunName, spec: RunSpec, job: Job) -> TrainingIncident:
        fault = self._workload.fault
        assert fault is not None and spec.hold is not None
        held = HeldTrial(
            self._trial,
            job,
            HeldAttempt(name, spec.hold.step),
            self.records,
            self._monitor,
            self._state,
            self._fraction,
            self._shifts_s,
            self._report,
        )
        began, noticed = job_fault(fault.inject).strike(held)
        return TrainingIncident(name, fault.inject, began, noticed, spec.hold.step, spec.hold.inside)

    def _report_steps(self, name: RunName, spec: RunSpec, record: RunRecord, began: float, end: float) -> None:
        fault = self.records.fault
        first = fault.resume_from if fault and run_kind(name) != "run" and spec.resume else 0
        done = record.steps[-1].step + 1 if record.steps else first
        self._fraction = max(self._fraction, began + (end - began) * _done_fraction(done - first, spec.until - first))
        note = f"{done} of {spec.until} steps" if done < spec.until else "verifying the checkpoint"
        if spec.hold is not None:
            note = _describe_fault_point(spec.hold)
        self._report(note if name == run_kind(name) else f"{name}: {note}")

    def _resume(self, ranks: int) -> None:
        fault = self._workload.fault
        if self._state is None or fault is None or self.records.fault is None:
            return
        script = isinstance(self._workload, ScriptWorkload)
        taken = job_fault(fault.inject).resume(self._state, self.records.fault, ranks, self._began_s, script=script)
        if taken is not None:
            self.records, self._fraction, self._shifts_s = taken.records, taken.fraction, taken.shifts_s

    def clear(self) -> None:
        for name in ("checkpoints", "fault-checkpoints", "files", "data", "script", "fault-script"):
            shutil.rmtree(self._folder / name, ignore_errors=True)

    @contextlib.contextmanager
    def _in_phases(self) -> Iterator[Callable[[Phase], None]]:
        """Yields a switch of the current phase; the last one ends with the block."""
        with contextlib.ExitStack() as stack:

            def switch(phase: Phase) -> None:
                stack.close()
                self._phase = phase
                stack.enter_context(self._monitor.phase(phase))

            yield switch

    def _report(self, note: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._reported_s >= _REPORT_EVERY_S:
            self._reported_s = now
            self._progress(self._phase, self._fraction, note)


def _phase(name: RunName, record: RunRecord, spec: RunSpec, discard: int) -> Phase:
    kind = run_kind(name)
    if kind != "run":
        return kind
    if not record.steps:
        return "cold_start" if name == kind else "recovery"
    done = record.steps[-1].step + 1
    return "warmup" if done < discard else "steady" if done < spec.until else "cooldown"


def _describe_fault_point(hold: HoldPoint) -> str:
    return f"the fault that is due in {'step' if hold.inside == 'step' else 'the checkpoint after step'} {hold.step}"


def _too_many_restarts(ended: Sequence[TrainingIncident], allowed: int) -> TrialFailed:
    endings = "; ".join(map(str, ended[-_MAX_SHOWN:]))
    which = "" if len(ended) <= _MAX_SHOWN else f"the last {_MAX_SHOWN}: "
    return TrialFailed(ended[-1].failure_class, f"{len(ended)} interruptions exceed restarts = {allowed}: {which}{endings}")


def _done_fraction(done: int, steps: int) -> float:
    return _LAUNCH_SHARE + (1.0 - _LAUNCH_SHARE) * done / max(steps, 1) if done else _LAUNCH_SHARE / 2
