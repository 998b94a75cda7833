"""What is particular to a script's measurement: where its numbers come from, and whether they agree."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from statistics import median

from plumbline.declarations import Trial
from plumbline.declarations.workloads.script import FolderFiles, GitFiles, ReporterReport, ScriptWorkload, TensorBoardReport
from plumbline.harness.measurement import TrialJudgement, degraded, invalid
from plumbline.harness.training.analysis.performance import Peaks
from plumbline.harness.training.analysis.records import UndisturbedRun
from plumbline.harness.training.worker_protocol import RunRecord, ScriptReports, Step
from plumbline.kinds.arithmetic.flops import script_flops
from plumbline.kinds.arithmetic.peak_flops import published_peak
from plumbline.metrics.formatting import format_count
from plumbline.results import MetricRow, Scalar

_DISAGREEMENT, _RARE_DISAGREEMENT = 0.02, 0.1
_BETWEEN_STEPS_S = 1e-3
"""A report is written between two steps and is seen when its reader runs: a fraction of a millisecond on an idle machine."""
_SHOWN = 3
_FEW_REPORTS = 3
_MISCOUNT = 0.1


def facts(workload: ScriptWorkload, run: RunRecord) -> dict[str, Scalar]:
    """What was run, and of each kind of number whether the script reported it or the harness saw it."""
    task, files = workload.task, workload.task.files
    where = (
        f"{files.url} at {files.commit}"
        if isinstance(files, GitFiles)
        else f"scripts/{files.path}"
        if isinstance(files, FolderFiles)
        else task.folder
    )
    found: dict[str, Scalar] = {
        **run.facts,
        "script.command": shlex.join(task.command),
        "script.files": where,
        "script.report": task.report.format,
        "script.times": "reported" if isinstance(task.report, ReporterReport | TensorBoardReport) else "seen",
        "training.world_size": workload.parallelism.world,
        "training.nodes": workload.parallelism.nodes,
        "training.processes": workload.parallelism.processes,
    }
    if task.resume_arguments is not None:
        found["script.resume_arguments"] = shlex.join(task.resume_arguments)
    if isinstance(files, GitFiles):
        found["script.git_commit"] = files.commit
    if task.image is not None:
        found["script.image"] = task.image
    if workload.work_per_step[1] is not None:
        found["script.work"] = "declared"
    elif any(step.work is not None for step in run.steps):
        found["script.work"] = "reported"
    if script_flops(workload) is not None:
        found["script.flops"] = "declared" if workload.work.shape is None else "counted"
    if any(step.loss is not None for step in run.steps):
        found["script.loss"] = "reported"
    if run.saves:
        found["script.checkpoints"] = "reported" if run.saves_reported else "seen"
    return found | {f"script.environment.{name}": value for name, value in sorted(task.environment.items())}


def device_peaks(trial: Trial, probed: Sequence[MetricRow]) -> Peaks | None:
    """What a script's operations are compared with; None of our own loop, which measures it. On a CPU the probe's rate is of a whole node."""
    workload = trial.workload
    if not isinstance(workload, ScriptWorkload) or workload.precision is None:
        return None
    devices = workload.nodes if workload.needs.accelerator == "cpu" else workload.parallelism.world
    best = next((row.value for row in probed if row.metric == f"matmul_tflops_{workload.precision}"), None)
    published = published_peak(trial.provider.accelerator.product, workload.precision)
    return Peaks(best and best * devices, published and published * devices)


def judgements(workload: ScriptWorkload, run: UndisturbedRun) -> list[TrialJudgement]:
    """Reports that cannot be relied on as they are."""
    found = disagreement(run.steady, reported_first=isinstance(workload.task.report, ReporterReport))
    if run.record.silent and isinstance(workload.task.report, ReporterReport) and not workload.task.launches_ranks:
        ranks = ", ".join(map(str, run.record.silent))
        found.append(
            degraded(
                "rank_without_reports",
                f"rank {ranks} of {workload.parallelism.world} reported no step while others did; expected the reporter's calls on every rank",
            )
        )
    found += [*counted(run.record.reports, workload.task.report.every), *in_bursts(run.record.reports)]
    return [*found, *left_outside(run.record, private=workload.task.private)]


def counted(reports: ScriptReports, every: int) -> list[TrialJudgement]:
    """Reports without a number are counted, `every` steps each; only a progress bar beside them shows whether that is right."""
    number = reports.get("counted", 0)
    if number < _FEW_REPORTS:
        return []
    first, last = reports.get("bar", (None, None))
    taken = (number - 1) * every
    if first is None or last is None:
        detail = (
            f"{number} reports have no step number, and each is taken for {format_count(every, 'step')} (report.every); expected a number in "
            "each, or a progress bar beside them"
        )
        return [degraded("steps_counted", detail)]
    if abs(last - first - taken) <= max(2 * every, _MISCOUNT * taken):
        return []
    detail = (
        f"{number} reports without a step number are taken for {taken} steps (report.every: {every}), and the progress bar went from {first} "
        f"to {last}; expected report.every: {max(round((last - first) / (number - 1)), 1)}, or a number in each report"
    )
    return [invalid("steps_miscounted", detail)]


def in_bursts(reports: ScriptReports) -> list[TrialJudgement]:
    """A program that buffers its output says when it wrote a block, and not when a step ended."""
    many = reports.get("in_bursts", 0)
    if many <= reports.get("all", 0) / 2:
        return []
    detail = (
        f"{many} of {reports['all']} reports came together with others, and long after those before: the program buffers its output; expected "
        "each line as it is printed, by flush=True, python -u, stdbuf -oL or grep --line-buffered"
    )
    return [degraded("output_buffered", detail)]


def left_outside(run: RunRecord, *, private: bool) -> list[TrialJudgement]:
    """Files that a command wrote where they outlast the trial; of a `private` one how many."""
    if not run.outside:
        return []
    names = "" if private else f": {', '.join(run.outside[:_SHOWN])}{', …' if len(run.outside) > _SHOWN else ''}"
    where = f"{format_count(len(run.outside), 'file')} outside of its folder, which the trial leaves there{names}"
    return [degraded("files_left_outside", f"the command wrote {where}; expected its own folder or TMPDIR")]


def disagreement(steps: Sequence[Step], *, reported_first: bool) -> list[TrialJudgement]:
    """Steps whose times, reported and seen, differ by more than 2 % and a millisecond in the median, or by more than 10 % and a millisecond a
    step in sum: a busy machine delays single reports and their reader by milliseconds. `reported_first`: which of both is the step's own."""
    both = [(step.step_s, step.other_s) for step in steps if step.other_s is not None]
    if not both:
        return []
    own, other = sum(step_s for step_s, _ in both), sum(other_s for _, other_s in both)
    reported, seen = (own, other) if reported_first else (other, own)
    typical = abs(median(other_s - step_s for step_s, other_s in both))
    often = typical > max(_DISAGREEMENT * seen / len(both), _BETWEEN_STEPS_S)
    much = abs(reported - seen) > max(_RARE_DISAGREEMENT * seen, _BETWEEN_STEPS_S * len(both))
    if not (often or much):
        return []
    detail = (
        f"{len(both)} steady steps took {reported:.4g} s as the script reports them and {seen:.4g} s of wall time; expected at most 2 % "
        "between both in the median step, and 10 % in all"
    )
    return [degraded("reported_times_disagree", detail)]
