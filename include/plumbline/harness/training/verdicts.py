"""Whether a training trial's numbers may be believed, by what the training itself shows."""

from __future__ import annotations

import math

import numpy as np

from plumbline.declarations import ValidityLimits
from plumbline.declarations.training import LossCheck, TrainingWorkload
from plumbline.harness.measurement import Judgement
from plumbline.harness.training import recovery
from plumbline.harness.training.records import Records
from plumbline.harness.training.steady import trend
from plumbline.harness.training.steplog import Step
from plumbline.results import Reason

_SHOWN = 5


def judge(workload: TrainingWorkload, limits: ValidityLimits, records: Records) -> list[Judgement]:
    """Everything that makes the trial less than valid, in the order: speed, loss, checkpoints, restarts."""
    steady = records.steady(workload.steps)
    run = records.undisturbed
    found = [*unsteady([step.step_s for step in steady], limits), *drifting([step.step_s for step in steady])]
    found += wrong_loss(run.steps if run else [], workload.loss)
    if run is not None and run.restored_exactly is False:
        found.append(
            _judged("invalid", "checkpoint_not_restored", "the last checkpoint, loaded again, differs from the state that was saved")
        )
    rejected = [reason for record in records.runs.values() for reason in record.rejected]
    if rejected:
        found.append(_judged("degraded", "checkpoint_damaged", f"passed over when resuming: {'; '.join(rejected)}"))
    return [*found, *diverged(records.diverged(recovery.tolerance(workload))), *recovery.unplanned(records)]


def unsteady(times: list[float], limits: ValidityLimits) -> list[Judgement]:
    """Steady step times (seconds) that vary more than the limits allow."""
    if len(times) < 2:
        return []
    cv = float(np.std(times, ddof=1) / np.mean(times))
    for level, limit in (("invalid", limits.step_time_cv_invalid), ("degraded", limits.step_time_cv_degraded)):
        if cv > limit:
            detail = f"the coefficient of variation of {len(times)} steady step times is {cv:.1%}; {level} above {limit:.0%}"
            return [Judgement("invalid" if level == "invalid" else "degraded", Reason(code="step_time_unsteady", detail=detail))]
    return []


def drifting(times: list[float]) -> list[Judgement]:
    """Steady steps that clearly became slower or faster while they were measured: throttling, or a warm-up that was too short."""
    change = trend(times)
    if change is None:
        return []
    detail = f"the last third of the steady steps took {change:+.1%} compared with the first third; the state was not steady"
    return [_judged("degraded", "step_time_trend", detail)]


def wrong_loss(steps: list[Step], check: LossCheck | None) -> list[Judgement]:
    """A loss that is no number at any step, or outside the declared range at the last one: speed without learning counts for nothing."""
    broken = [step.step for step in steps if not math.isfinite(step.loss)]
    if broken:
        return [_judged("invalid", "loss_out_of_range", f"the loss is not a finite number from step {broken[0]} on ({len(broken)} steps)")]
    if check is not None and steps and not check.low <= steps[-1].loss <= check.high:
        detail = f"the loss of the last step is {steps[-1].loss:.4g}; expected {check.low:g} to {check.high:g}"
        return [_judged("invalid", "loss_out_of_range", detail)]
    return []


def diverged(steps: list[int] | None) -> list[Judgement]:
    """Steps done again after a resume whose loss is not bit for bit what it was: the state did not come back whole."""
    if not steps:
        return []
    shown = ", ".join(map(str, steps[:_SHOWN])) + (" …" if len(steps) > _SHOWN else "")
    return [_judged("degraded", "losses_diverge_after_resume", f"{len(steps)} resumed steps differ from the undisturbed run: {shown}")]


def _judged(level: str, code: str, detail: str) -> Judgement:
    return Judgement("invalid" if level == "invalid" else "degraded", Reason(code=code, detail=detail))
