"""Interruptions of a trial and what they cost: metric rows, events, evidence, judgements."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa

from plumbline.declarations.workloads.faults import BROKE_OFF
from plumbline.declarations.workloads.training import TrainingJob
from plumbline.harness.measurement import EvidenceFile, TrialJudgement, degraded, invalid
from plumbline.harness.training.analysis.records import COST_PARTS, UNPLANNED, RestartCost, TrainingRecords
from plumbline.harness.training.fault import FaultKind, fault_kind
from plumbline.results import FAILED_AS_DECLARED, MetricRow, metric_row


class _Unplanned(FaultKind):
    name, event = UNPLANNED, BROKE_OFF


_MAX_SHOWN = 5
_GPU_TOLERANCE = 0.01
"""A GPU's atomic additions come in any order, and what begins as a last digit grows with each step. A state that did not come back shows
at once, and that it comes back to the bit is verified after the last step."""


def recovery_rows(records: TrainingRecords) -> list[MetricRow]:
    """The faulted stretch in numbers: the penalty in its parts, goodput, and how often training was started again."""
    rows: list[MetricRow] = []
    parts, goodput = records.recovery(), records.goodput()
    if parts is not None:
        metrics = ("restart_detect_time", "restart_launch_time", "checkpoint_load_time", "restart_recompute_time")
        seconds = {"restart_penalty": sum(parts.values()), **dict(zip(metrics, parts.values(), strict=True))}
        # A script that begins again, or does not say when it loads, has no time of loading.
        known = {metric: value for metric, value in seconds.items() if value or metric != "checkpoint_load_time"}
        rows += [metric_row(metric, value, 1, phase="recovery") for metric, value in known.items()]
    if goodput is not None:
        rows.append(metric_row("training_goodput", goodput[0], goodput[1], phase="recovery"))
    if records.incidents:
        rows.append(metric_row("training_restarts", sum(cost.after is not None for cost in records.restarts()), 1, phase="recovery"))
    return rows


def recovery_moments(records: TrainingRecords) -> list[tuple[str, float]]:
    """(event, monotonic seconds) of each attempt that ended before it should, and of the one that followed."""
    moments: list[tuple[str, float]] = []
    for cost in records.restarts():
        incident = cost.incident
        kind = _Unplanned() if incident.ending == UNPLANNED else fault_kind(incident.ending)
        moments += [(kind.event, incident.began_s), (kind.detected, incident.noticed_s)]
        if cost.after is None:
            continue
        after = records.runs[cost.after]
        moments.append(("training_relaunched", after.launched_s))
        if "load_end" in after.at:
            moments.append(("state_loaded", after.at["load_end"]))
        if cost.complete:
            moments.append(("lost_step_done_again", cost.ended_s))
    last = next(reversed(records.runs), None)
    if records.incidents and last is not None and "done" in records.runs[last].at:
        moments.append(("training_done", records.runs[last].at["done"]))
    return moments


def attempts_evidence(records: TrainingRecords, folder: Path) -> list[EvidenceFile]:
    """attempts.parquet: a row for each attempt of a trial in which one broke off; times after its end belong to that end's cost."""
    if not records.incidents:
        return []
    costs = {cost.incident.run: cost for cost in records.restarts()}
    table = pa.Table.from_pylist([_attempt_row(records, name, costs.get(name)) for name in records.runs], schema=_ATTEMPTS_SCHEMA)
    return [EvidenceFile.of_table("attempts", table, folder)]


def loss_tolerance(workload: TrainingJob) -> float:
    """Allowed relative difference of a repeated step's loss: none where the same sums come in the same order."""
    if not workload.repeats_losses:
        return math.inf
    return 0.0 if workload.needs.accelerator == "cpu" or workload.deterministic else _GPU_TOLERANCE


def loss_guarantees(workload: TrainingJob, records: TrainingRecords) -> list[str]:
    """Guarantees of the losses after a restart: that they were the same to the bit, or, on a GPU, nearly so."""
    if not records.incidents:
        return []
    if records.diverged() == []:
        return ["losses_continue_exactly"]
    tolerance = loss_tolerance(workload)
    return ["losses_continue_closely"] if math.isfinite(tolerance) and records.diverged(tolerance) == [] else []


def unplanned_restarts(records: TrainingRecords) -> list[TrialJudgement]:
    """Unplanned ends of attempts: the numbers come from a restarted training."""
    restarts = [cost for cost in records.restarts() if cost.incident.ending == UNPLANNED]
    if not restarts:
        return []
    total = sum(cost.penalty_s for cost in restarts)
    costs = "; ".join(f"{cost.incident} ({_format_cost(cost)})" for cost in restarts[:_MAX_SHOWN]) + (
        " …" if len(restarts) > _MAX_SHOWN else ""
    )
    detail = f"{len(restarts)} unplanned interruptions cost {total:.3g} s: {costs}"
    return [degraded("unplanned_restart", detail)]


_TIME, _STEP, _TEXT = pa.float64(), pa.int64(), pa.string()
_ATTEMPTS_SCHEMA = pa.schema(
    {
        "run": _TEXT,
        "launched_s": _TIME,
        "first_step": _STEP,
        "last_step": _STEP,
        "ending": _TEXT,
        "detail": _TEXT,
        "lost_step": _STEP,
        "began_s": _TIME,
        **dict.fromkeys(COST_PARTS, _TIME),
        "checksum_s": _TIME,
        "made_up_for": pa.bool_(),
    }
)


def declared_failure(workload: TrainingJob, records: TrainingRecords) -> list[TrialJudgement]:
    """Whether a failed trial's declared fault alone exceeded the allowed restarts, as it would in another try."""
    planned = sum(incident.ending != UNPLANNED for incident in records.incidents)
    if planned <= workload.restarts:
        return []
    detail = f"the declared fault ended {planned} attempts, and restarts is {workload.restarts}: another try of the trial would end alike"
    return [invalid(FAILED_AS_DECLARED, detail)]


def _attempt_row(records: TrainingRecords, name: str, cost: RestartCost | None) -> dict[str, object]:
    run = records.runs[name]
    incident = cost.incident if cost else None
    return {
        "run": name,
        "launched_s": run.launched_s,
        "first_step": run.steps[0].step if run.steps else None,
        "last_step": run.steps[-1].step if run.steps else None,
        "ending": incident.ending if incident else None,
        "detail": incident.detail or None if incident else None,
        "lost_step": incident.step if incident else None,
        "began_s": incident.began_s if incident else None,
        **{time: getattr(cost, time) if cost else None for time in (*COST_PARTS, "checksum_s")},
        "made_up_for": cost.complete if cost else None,
    }


def _format_cost(cost: RestartCost) -> str:
    parts = ", ".join(f"{part.removesuffix('_s')} {getattr(cost, part):.3g} s" for part in COST_PARTS)
    return parts if cost.complete else f"{parts}, not recovered"
