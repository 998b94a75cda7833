"""One trial of a container: its command on every node, and what it wrote on node 0."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.declarations import Trial
from plumbline.declarations.workloads.container import ContainerTask, ContainerWorkload
from plumbline.formats import COMMAND_OUTPUTS, Output, UnreadableOutput
from plumbline.harness.environment.cpu import cpu_limit, usable_cores
from plumbline.harness.gang.topology import InvalidTopology, topology_of
from plumbline.harness.launcher_protocol import Progress
from plumbline.harness.measurement import EvidenceFile, Measurement, TrialFailed, TrialJudgement, invalid
from plumbline.harness.training.analysis.script import left_outside
from plumbline.harness.training.job.coordinator import Coordinator
from plumbline.harness.training.job.inputs import ContainerInputs
from plumbline.harness.training.job.job import Job, JobContext, rendezvous
from plumbline.harness.training.job.supervisor import RunAborted
from plumbline.harness.training.plan import share_cores
from plumbline.harness.training.worker_protocol import RunRecord
from plumbline.results import Event, MetricRow, metric_row

if TYPE_CHECKING:
    from plumbline.harness.contention_monitor import ContentionMonitor

_FILE_BYTES = 32 << 20
_REPORT_EVERY_S = 0.5
_SHOWN_LINES, _SHOWN_CHARACTERS = 20, 300


def measure(trial: Trial, workdir: Path, progress: Progress, monitor: ContentionMonitor, _probed: Sequence[MetricRow] = ()) -> Measurement:
    """Run the command once on each node, below `workdir` (must exist), and read its results.

    TrialFailed with a failure class when it cannot be measured; no process of the trial outlives the call."""
    workload = trial.workload
    assert isinstance(workload, ContainerWorkload)
    started_s = time.monotonic()
    try:
        record = _run(trial, workload, workdir, progress, monitor)
    except TrialFailed as failure:
        if (refuted := _refuted(workload, workdir, failure)) is not None:
            refuted.metrics += [
                metric_row("command_time", time.monotonic() - started_s, 1),
                *monitor.gpu_rows(),
                *monitor.gpus.memory_rows(),
            ]
            return refuted
        raise TrialFailed(failure.failure_class, failure.detail, _measurement(workload, workdir)) from failure
    except InvalidTopology as error:
        raise TrialFailed("harness_error", str(error)) from error
    measured = _measurement(workload, workdir)
    began, ended = record.launched_s, record.at["ended"]
    measured.metrics.append(metric_row("command_time", ended - began, 1))
    measured.metrics += [*monitor.gpu_rows(), *monitor.gpus.memory_rows()]
    now, monotonic = datetime.now(timezone.utc), time.monotonic()
    moments = {"command_started": began, "command_ended": ended}
    measured.events = [Event(name=name, utc=now + timedelta(seconds=at - monotonic), monotonic_s=at) for name, at in moments.items()]
    try:
        found = COMMAND_OUTPUTS[workload.task.results.format].output(_text(workload.task, workdir), workload.task.declared_numbers)
    except UnreadableOutput as error:
        raise TrialFailed("bad_declaration", _described(workload.task, workdir, str(error)), measured) from error
    _add(measured, found, workload)
    measured.judgements += left_outside(record, private=workload.task.private)
    return measured


def _add(measured: Measurement, found: Output, workload: ContainerWorkload) -> None:
    measured.metrics += found.rows
    measured.curves += found.curves
    measured.judgements += [TrialJudgement("invalid", reason) for reason in found.invalid]
    expected = workload.nodes * workload.needs.count
    if found.ranks is not None and found.ranks != expected and all(reason.code != "ranks_missing" for reason in found.invalid):
        sizes = f"{found.ranks} ranks took part; expected {expected}: {workload.nodes} nodes with {workload.needs.count} each"
        measured.judgements.append(invalid("ranks_missing", sizes))


def _refuted(workload: ContainerWorkload, folder: Path, failure: TrialFailed) -> Measurement | None:
    """What was measured by a command that ended with a status of its own because its result is wrong, as nccl-tests does; None else."""
    if failure.failure_class != "harness_error":
        return None
    try:
        found = COMMAND_OUTPUTS[workload.task.results.format].output(_text(workload.task, folder), workload.task.declared_numbers)
    except (UnreadableOutput, OSError):
        return None
    if not found.invalid:
        return None
    measured = _measurement(workload, folder)
    _add(measured, found, workload)
    return measured


def _run(trial: Trial, workload: ContainerWorkload, folder: Path, progress: Progress, monitor: ContentionMonitor) -> RunRecord:
    topology, limit_s = topology_of(trial, os.environ), workload.task.expected or trial.provider.launcher.trial_limit_s
    inputs = ContainerInputs(workload, trial.provider, folder)
    shares = share_cores(usable_cores(), cpu_limit(os.environ), 1, binds=False)
    reported_s, began_s = 0.0, time.monotonic()

    def report(note: str) -> None:
        nonlocal reported_s
        if (now := time.monotonic()) - reported_s >= _REPORT_EVERY_S:
            reported_s = now
            progress("steady", 1 - 1 / (1 + (now - began_s) / limit_s), note)

    with ExitStack() as stack:
        coordinator = Coordinator(trial, topology) if topology.nodes > 1 else None
        if coordinator is not None:
            stack.callback(lambda: monitor.gpus.add_nodes(coordinator.gpus))  # after its end, with which nodes send their readings
            stack.enter_context(coordinator)
            monitor.gpus.announce = coordinator.enter
            coordinator.gather(trial.provider.launcher.gang_assembly_s, inputs.sha256, report)
        context = stack.enter_context(rendezvous(JobContext(folder, topology, shares, coordinator=coordinator)))
        try:
            with monitor.phase("steady"), Job("run", inputs.spec("run", resume=False), context) as job:
                for _ in job.lines(lambda: report("waiting for other nodes to stop")):
                    report("the command runs")
        except RunAborted as broken:
            raise TrialFailed(broken.cause.failure_class, broken.cause.detail) from broken
    return job.record


def _measurement(workload: ContainerWorkload, folder: Path) -> Measurement:
    """What is known without the results."""
    task, log = workload.task, folder / "run.worker.log"
    facts = {
        "container.command": shlex.join(task.command),
        "container.image": task.image,
        "container.nodes": task.nodes,
        "container.results": "reported",
        "container.times": "seen",
        **{f"container.environment.{name}": value for name, value in sorted(task.environment.items())},
    }
    files = [log, *([ContainerInputs.start_folder(folder) / task.results.file] if task.results.file else [])]
    kept = [EvidenceFile("log", file) for file in files if not task.private and file.is_file() and 0 < file.stat().st_size <= _FILE_BYTES]
    return Measurement(facts={name: fact for name, fact in facts.items() if fact is not None}, evidence=kept)


def _text(task: ContainerTask, folder: Path) -> str:
    if task.results.file is None:
        return (folder / "run.worker.log").read_text(errors="replace")
    file = ContainerInputs.start_folder(folder) / task.results.file
    if not file.is_file():
        raise UnreadableOutput(f"the command wrote no file {task.results.file}; expected results.file below the folder in which it starts")
    if (size := file.stat().st_size) > _FILE_BYTES:
        raise UnreadableOutput(f"{task.results.file} has {size} bytes; expected at most {_FILE_BYTES}")
    return file.read_text(errors="replace")


def _described(task: ContainerTask, folder: Path, problem: str) -> str:
    sentence = f"the results are not of the format {task.results.format}: {problem}"
    if task.private:
        return sentence
    last = (folder / "run.worker.log").read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
    return f"{sentence}. The last lines of its output:\n" + "\n".join(line[:_SHOWN_CHARACTERS] for line in last)
