"""Judge the validity of a training trial by its steps, losses, checkpoints and restarts."""

from __future__ import annotations

import math

import numpy as np

from plumbline.declarations import ValidityLimits
from plumbline.declarations.workloads.training import LossCheck, TrainingWorkload
from plumbline.harness.measurement import Judgement, degraded, invalid
from plumbline.harness.training.analysis import recovery
from plumbline.harness.training.analysis.records import TrainingRecords, clear_trend, median_interval
from plumbline.harness.training.worker_protocol import Step

_MAX_SHOWN = 5
_MIN_STEPS = 6
"""Values of which both extremes enclose the median with 95 %."""


def judge_training(workload: TrainingWorkload, limits: ValidityLimits, records: TrainingRecords) -> list[Judgement]:
    """Everything that makes the trial less than valid, in the order: speed, loss, checkpoints, restarts."""
    run = records.undisturbed
    measured, times = ([step.step_s for step in steps] for steps in (records.measured(workload.steps), records.steady(workload.steps)))
    found = [*too_few_steps(times), *late_steady_state(len(times), workload.steps.measure, limits), *unsteady_step_time(times, limits)]
    found += measured_trend(measured) or steady_trend(times)
    found += loss_out_of_range(run.steps if run else [], workload.loss)
    if run is not None and run.restored_exactly is False:
        found.append(invalid("checkpoint_not_restored", "the last checkpoint, loaded again, differs from the state that was saved"))
    rejected = [reason for record in records.runs.values() for reason in record.rejected]
    if rejected:
        found.append(degraded("checkpoint_damaged", f"skipped when resuming: {'; '.join(rejected)}"))
    return [*found, *diverged_losses(records.diverged(recovery.loss_tolerance(workload))), *recovery.unplanned_restarts(records)]


def too_few_steps(times: list[float]) -> list[Judgement]:
    """Too few steady steps (seconds): invalid without any, degraded without an interval of their median."""
    if not times:
        return [invalid("too_few_steps", "no step was found to be steady; expected more steps.measure, or a machine at rest")]
    if median_interval(times) is not None:
        return []
    detail = f"{len(times)} steady steps give no 95 % interval of their median; expected {_MIN_STEPS} at least: more steps.measure"
    return [degraded("too_few_steps", detail)]


def unsteady_step_time(times: list[float], limits: ValidityLimits) -> list[Judgement]:
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


def late_steady_state(steady: int, declared: int, limits: ValidityLimits) -> list[Judgement]:
    """Too few of the declared steps were steady."""
    share, what = steady / declared, f"{steady} of {declared} measured steps were steady; expected more steps.discard and steps.measure"
    if 0 < share < limits.steady_steps_invalid:
        return [invalid("not_steady", f"{what}; invalid below {limits.steady_steps_invalid:.0%}")]
    if 0 < share < limits.steady_steps_degraded:
        return [degraded("not_steady", f"{what}; degraded below {limits.steady_steps_degraded:.0%}")]
    return []


def measured_trend(times: list[float]) -> list[Judgement]:
    """Measured steps that clearly became slower: no warm-up ends like this, although a new steady state may follow."""
    change = clear_trend(times)
    if change is None or change < 0:
        return []
    return [degraded("step_time_trend", f"the last third of the measured steps took {change:+.1%} compared with the first third")]


def steady_trend(times: list[float]) -> list[Judgement]:
    """Steady steps that clearly became slower or faster while they were measured: throttling, or a warm-up that was too short."""
    change = clear_trend(times)
    if change is None:
        return []
    detail = f"the last third of the steady steps took {change:+.1%} compared with the first third; the state was not steady"
    return [degraded("step_time_trend", detail)]


def loss_out_of_range(steps: list[Step], check: LossCheck | None) -> list[Judgement]:
    """A loss that is not finite at any step, or outside the declared range at its step."""
    broken = [step.step for step in steps if not math.isfinite(step.loss)]
    if broken:
        return [invalid("loss_not_finite", f"the loss is not a finite number from step {broken[0]} on ({len(broken)} steps)")]
    if check is None or not steps:
        return []
    judged = steps[-1] if check.at_step is None else next((step for step in steps if step.step == check.at_step), None)
    if judged is None:
        return [invalid("loss_out_of_range", f"step {check.at_step}, whose loss is declared, was not done")]
    if not check.low <= judged.loss <= check.high:
        which = "the last step" if check.at_step is None else f"step {check.at_step}"
        detail = f"the loss of {which} is {judged.loss:.4g}; expected {check.low:g} to {check.high:g}"
        return [invalid("loss_out_of_range", detail)]
    return []


def diverged_losses(steps: list[int] | None) -> list[Judgement]:
    """Steps done again after a resume whose loss is not bit for bit what it was: the state did not come back whole."""
    if not steps:
        return []
    shown = ", ".join(map(str, steps[:_MAX_SHOWN])) + (" …" if len(steps) > _MAX_SHOWN else "")
    return [degraded("losses_diverge_after_resume", f"{len(steps)} resumed steps differ from the undisturbed run: {shown}")]
