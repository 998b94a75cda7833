"""Build the measurement from the workers' records (metric rows, curves, stages, events, evidence), and judge its validity."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa

from plumbline.declarations import ValidityLimits
from plumbline.declarations.workloads.loss_check import LossCheck
from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import TrainingJob, TrainingWorkload
from plumbline.harness.measurement import EvidenceFile, Measurement, TrialJudgement, degraded, invalid
from plumbline.harness.training.analysis import performance, recovery, script
from plumbline.harness.training.analysis.records import TrainingRecords, UndisturbedRun, clear_trend, median_interval
from plumbline.harness.training.worker_protocol import STAGES, RunRecord, Step, run_kind
from plumbline.results import Event, Stage, metric_row

VARIABLES_FILE = "variables.txt"
"""Names of the variables that a script saw."""


def build_measurement(workload: TrainingJob, records: TrainingRecords, folder: Path, peaks: performance.Peaks | None = None) -> Measurement:
    """The measurement; of a failed trial, its available part. Writes the evidence into `folder`. `peaks`: for a script's utilization."""
    undisturbed = records.undisturbed(workload.steps)
    run = undisturbed.record
    measured = Measurement(
        metrics=[*performance.performance_rows(workload, undisturbed, peaks), *recovery.recovery_rows(records)],
        curves=performance.build_curves(workload, undisturbed),
        stages=_stages(workload, undisturbed),
        events=_events(undisturbed, records),
        evidence=_evidence(workload, undisturbed, records, folder),
        facts=script.facts(workload, run) if isinstance(workload, ScriptWorkload) else dict(run.facts),
        seeds=_seeds(workload),
        guarantees=_guarantees(workload, run, records),
    )
    if records.data_sha256:
        measured.hashes["script_files" if isinstance(workload, ScriptWorkload) else "data"] = records.data_sha256
    if (placed := records.placed) is not None:
        measured.metrics += [metric_row(name, value, 1, phase="cold_start") for name, value in placed.values.items()]
        measured.facts |= placed.facts
        measured.hashes |= {"data": placed.sha256} if placed.sha256 else {}
    if run.weights_sha256:
        measured.hashes["initial_weights"] = run.weights_sha256
    if len(run.steps) == workload.steps.total and all(step.loss is not None for step in run.steps):
        measured.hashes["losses"] = performance.losses_sha256(run.steps)
    return measured


def _seeds(workload: TrainingJob) -> dict[str, int]:
    if not isinstance(workload, TrainingWorkload):
        return {}
    drawn = {} if workload.data.source == "file" else {"data": workload.data.seed}
    return {"model": workload.model.seed, **drawn, "training": workload.seed}


def _stages(workload: TrainingJob, run: UndisturbedRun) -> list[Stage]:
    steps = run.steady
    if not steps:
        return []
    totals = {name: sum(step.stages.get(name, 0.0) for step in steps) for name in STAGES if any(name in step.stages for step in steps)}
    stages = [Stage(phase="steady", stage=name, total_s=total, n=len(steps)) for name, total in totals.items()]
    saves = performance.steady_saves(workload, run.record)
    return [*stages, Stage(phase="steady", stage="checkpoint", total_s=sum(save.blocking_s for save in saves), n=len(saves))]


def _events(run: UndisturbedRun, records: TrainingRecords) -> list[Event]:
    """Moments of the trial in their order; wall clock times follow from the monotonic ones by one common offset."""
    moments: dict[str, float] = {}
    if not math.isnan(run.record.launched_s):
        moments["training_launched"] = run.record.launched_s
    if run.record.steps:
        moments["first_step_done"] = run.record.steps[0].end_s
    if run.steady:
        moments |= {"steady_begun": run.steady[0].start_s, "steady_ended": run.steady[-1].end_s}
    happened = [*moments.items(), *recovery.recovery_moments(records)]
    now, monotonic = datetime.now(timezone.utc), time.monotonic()
    return [
        Event(name=name, utc=now + timedelta(seconds=at - monotonic), monotonic_s=at)
        for name, at in sorted(happened, key=lambda item: item[1])
    ]


def _evidence(workload: TrainingJob, undisturbed: UndisturbedRun, records: TrainingRecords, folder: Path) -> list[EvidenceFile]:
    files: list[EvidenceFile] = []
    flat = [line for name, run in records.runs.items() for line in _steps_of(name, run, undisturbed)]
    if flat:
        files.append(EvidenceFile.of_table("steps", pa.Table.from_pylist(flat, schema=_STEPS_SCHEMA), folder))
    files += recovery.attempts_evidence(records, folder)
    for name in () if workload.private else records.runs:
        logs = [folder / f"{name}.worker.log", *sorted(folder.glob(f"{name}.rank*.worker.log"))]
        files += [EvidenceFile("log", log) for log in logs if log.is_file() and log.stat().st_size]
    if names := undisturbed.record.variables:
        path = folder / VARIABLES_FILE
        path.write_text("\n".join(names) + "\n", encoding="utf-8")
        files.append(EvidenceFile("variables", path, len(names)))
    return files


_STEP_TIMES = ("start_s", "step_s", *(f"{stage}_s" for stage in STAGES), "checkpoint_s", "checksum_s")
_STEPS_SCHEMA = pa.schema(
    {
        "run": pa.string(),
        "phase": pa.string(),
        "step": pa.int64(),
        "rank": pa.int64(),
        **dict.fromkeys(_STEP_TIMES, pa.float64()),
        "loss": pa.float64(),
    }
)


def _steps_of(name: str, run: RunRecord, undisturbed: UndisturbedRun) -> list[dict[str, object]]:
    """Rows of steps.parquet, one a step and rank: `start_s` on the monotonic clock of the rank's node, `checkpoint_s` and
    `checksum_s` (what training then stood still for, and what of that was for the checkpoint's checksum) null where none followed."""
    after = {save.step - 1: save for save in run.saves if not save.closing}
    kind = run_kind(name)
    return [
        {
            "run": name,
            "phase": undisturbed.phase_of(step.step) if kind == "run" else kind,
            "step": step.step,
            "rank": rank,
            "start_s": step.start_s,
            "step_s": step.step_s,
            **{f"{stage}_s": step.stages.get(stage) for stage in STAGES},
            "checkpoint_s": after[step.step].blocking_s if rank == 0 and step.step in after else None,
            "checksum_s": after[step.step].checksum_s if rank == 0 and step.step in after else None,
            "loss": step.loss,
        }
        for rank, steps in (run.by_rank or {0: run.steps}).items()
        for step in steps
    ]


def _guarantees(workload: TrainingJob, run: RunRecord, records: TrainingRecords) -> list[str]:
    # torch refuses an operation without a deterministic kernel, so a run that got to its end had none.
    deterministic = run.facts.get("torch.deterministic_algorithms") is True and len(run.steps) == workload.steps.total
    return [
        *(["deterministic_algorithms"] if workload.deterministic and deterministic else []),
        *(["checkpoint_restored_exactly"] if run.restored_exactly else []),
        *recovery.loss_guarantees(workload, records),
    ]


_MAX_SHOWN = 5
_MIN_STEPS = 6
"""Values of which both extremes enclose the median with 95 %."""


def judge_training(workload: TrainingJob, limits: ValidityLimits, records: TrainingRecords) -> list[TrialJudgement]:
    """Everything that makes the trial less than valid, in the order: speed, loss, checkpoints, restarts."""
    run = records.undisturbed(workload.steps)
    measured, times = ([step.step_s for step in steps] for steps in (run.measured, run.steady))
    judgements = [
        *too_few_steps(times, sum(not step.timed for step in run.record.steps)),
        *late_steady_state(len(times), workload.steps.measure, limits),
        *unsteady_step_time(times, limits),
    ]
    judgements += measured_trend(measured) or steady_trend(times)
    if isinstance(workload, ScriptWorkload):
        judgements += script.judgements(workload, run)
    judgements += loss_out_of_range(run.record.steps, workload.loss)
    if run.record.restored_exactly is False:
        judgements.append(invalid("checkpoint_not_restored", "the last checkpoint, loaded again, differs from the state that was saved"))
    rejected = [reason for record in records.runs.values() for reason in record.rejected]
    if rejected:
        judgements.append(degraded("checkpoint_damaged", f"skipped when resuming: {'; '.join(rejected)}"))
    return [*judgements, *diverged_losses(records.diverged(recovery.loss_tolerance(workload))), *recovery.unplanned_restarts(records)]


def too_few_steps(times: list[float], untimed: int = 0) -> list[TrialJudgement]:
    """Too few steady steps (seconds): invalid without any, degraded without an interval of their median. `untimed`: steps of the run
    that have no times."""
    if not times and untimed:
        together = f"the first {untimed} steps were reported at once, and no steady step after them"
        return [invalid("too_few_steps", f"{together}; expected a report when a step ends, or more steps.measure")]
    if not times:
        return [invalid("too_few_steps", "no step was found to be steady; expected more steps.measure, or a machine at rest")]
    if median_interval(times) is not None:
        return []
    detail = f"{len(times)} steady steps give no 95 % interval of their median; expected {_MIN_STEPS} at least: more steps.measure"
    return [degraded("too_few_steps", detail)]


def unsteady_step_time(times: list[float], limits: ValidityLimits) -> list[TrialJudgement]:
    """Steady step times (seconds) that vary more than the limits allow."""
    if len(times) < 2:
        return []
    cv = float(np.std(times, ddof=1) / np.mean(times))
    what = f"the coefficient of variation of {len(times)} steady step times is {cv:.1%}"
    if cv > limits.step_time_cv_invalid:
        return [invalid("step_time_unsteady", f"{what}; invalid above {limits.step_time_cv_invalid:.0%}")]
    if cv > limits.step_time_cv_degraded:
        return [degraded("step_time_unsteady", f"{what}; degraded above {limits.step_time_cv_degraded:.0%}")]
    return []


def late_steady_state(steady: int, declared: int, limits: ValidityLimits) -> list[TrialJudgement]:
    """Too few of the declared steps were steady."""
    share, what = steady / declared, f"{steady} of {declared} measured steps were steady; expected more steps.discard and steps.measure"
    if 0 < share < limits.steady_steps_invalid:
        return [invalid("not_steady", f"{what}; invalid below {limits.steady_steps_invalid:.0%}")]
    if 0 < share < limits.steady_steps_degraded:
        return [degraded("not_steady", f"{what}; degraded below {limits.steady_steps_degraded:.0%}")]
    return []


def measured_trend(times: list[float]) -> list[TrialJudgement]:
    """Measured steps that clearly became slower: no warm-up ends like this, although a new steady state may follow."""
    change = clear_trend(times)
    if change is None or change < 0:
        return []
    return [degraded("step_time_trend", f"the last third of the measured steps took {change:+.1%} compared with the first third")]


def steady_trend(times: list[float]) -> list[TrialJudgement]:
    """Steady steps that clearly became slower or faster while they were measured: throttling, or a warm-up that was too short."""
    change = clear_trend(times)
    if change is None:
        return []
    detail = f"the last third of the steady steps took {change:+.1%} compared with the first third; the state was not steady"
    return [degraded("step_time_trend", detail)]


def loss_out_of_range(steps: list[Step], check: LossCheck | None) -> list[TrialJudgement]:
    """A loss that is not finite at any step, or outside the declared range at its step."""
    broken = [step.step for step in steps if step.loss is not None and not math.isfinite(step.loss)]
    if broken:
        return [invalid("loss_not_finite", f"the loss is not a finite number from step {broken[0]} on ({len(broken)} steps)")]
    if check is None or not steps:
        return []
    judged = steps[-1] if check.at_step is None else next((step for step in steps if step.step == check.at_step), None)
    if judged is None:
        return [invalid("loss_out_of_range", f"step {check.at_step}, whose loss is declared, was not done")]
    if judged.loss is None:
        return [invalid("loss_out_of_range", "the script reports no loss, whose range is declared; expected report.loss, or no loss")]
    if not check.low <= judged.loss <= check.high:
        which = "the last step" if check.at_step is None else f"step {check.at_step}"
        detail = f"the loss of {which} is {judged.loss:.4g}; expected {check.low:g} to {check.high:g}"
        return [invalid("loss_out_of_range", detail)]
    return []


def diverged_losses(steps: list[int] | None) -> list[TrialJudgement]:
    """Steps done again after a resume whose loss is not bit for bit what it was: the state did not come back whole."""
    if not steps:
        return []
    first_steps = ", ".join(map(str, steps[:_MAX_SHOWN])) + (" …" if len(steps) > _MAX_SHOWN else "")
    return [degraded("losses_diverge_after_resume", f"{len(steps)} resumed steps differ from the undisturbed run: {first_steps}")]
