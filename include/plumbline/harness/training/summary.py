"""From the workers' records to metric rows, stages, events and evidence."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plumbline.declarations.phases import Phase
from plumbline.declarations.training import TrainingWorkload
from plumbline.harness.measurement import EvidenceFile, Measurement
from plumbline.harness.training.flops import flops_per_step
from plumbline.harness.training.records import Records
from plumbline.harness.training.stages import STAGES
from plumbline.harness.training.steady import median_interval
from plumbline.harness.training.steplog import RunRecord
from plumbline.results import Event, MetricRow, Stage, row

STEPS_FILE = "steps.parquet"


def measurement(workload: TrainingWorkload, records: Records, folder: Path) -> Measurement:
    """What was measured; of a trial that failed, as much as there is. Writes the evidence into `folder`."""
    first = records.runs.get("run")
    measured = Measurement(
        metrics=[*_start_up(first), *_steady(workload, records), *_closing(first), *_recovery(records)],
        stages=_stages(workload, records),
        events=_events(workload, records),
        evidence=_evidence(workload, records, folder),
        facts=dict(first.facts) if first else {},
        seeds=_seeds(workload),
        guarantees=_guarantees(records),
    )
    if records.data_sha256:
        measured.hashes["data"] = records.data_sha256
    if first and first.weights_sha256:
        measured.hashes["initial_weights"] = first.weights_sha256
    return measured


def _seeds(workload: TrainingWorkload) -> dict[str, int]:
    drawn = {} if workload.data.source == "file" else {"data": workload.data.seed}
    return {"model": workload.model.seed, **drawn, "training": workload.seed}


def _start_up(run: RunRecord | None) -> list[MetricRow]:
    if run is None or not run.steps:
        return []
    step = run.steps[0]
    return [
        row("first_step_time", step.step_s, 1, phase="cold_start"),
        row("time_to_first_step", step.end_s - run.launched_s, 1, phase="cold_start"),
    ]


def _steady(workload: TrainingWorkload, records: Records) -> list[MetricRow]:
    steps, run = records.steady(workload.steps), records.runs.get("run")
    if not steps or run is None:
        return []
    times = np.array([step.step_s for step in steps])
    n, median, interval = len(times), float(np.median(times)), median_interval(times.tolist())
    spread = float(times.std(ddof=1)) if n > 1 else math.nan
    rows = [
        row("step_time", median, n, ci=interval),
        row("step_time", float(times.mean()), n, statistic="mean"),
        row("step_time", float(np.percentile(times, 95)), n, statistic="p95"),
        row("step_time", float(np.percentile(times, 99)), n, statistic="p99"),
        row("step_time", spread, n, statistic="stddev"),
        row("step_time", spread / float(times.mean()), n, statistic="cv"),
        row("data_wait_time", float(np.mean([step.stages["data_wait"] for step in steps])), n),
        row("final_loss", steps[-1].loss, 1),
    ]
    # The step is the job's, and so is what it did: all ranks' batches, on all ranks' devices.
    world = workload.parallelism.world
    replicas = workload.parallelism.replicas
    tokens, samples, each = workload.tokens_per_step * replicas, workload.samples_per_step * replicas, flops_per_step(workload)

    def rate(name: str, amount: float) -> MetricRow:
        # A rate is an amount over the step time, so its median and interval are those of the step time, turned over.
        return row(name, amount / median, n, ci=(amount / interval[1], amount / interval[0]) if interval else None)

    rows += [rate("tokens_per_second", tokens), rate("samples_per_second", samples)]
    if each is not None:
        rows.append(rate("model_flops", each * replicas))
        if run.matmul_flops:
            rows.append(rate("model_flops_utilization", each * replicas / (run.matmul_flops * world)))
    wall = run.steps[-1].end_s - run.steps[0].start_s
    rows.append(row("effective_tokens_per_second", tokens * len(run.steps) / wall, len(run.steps)))
    saves = [save for save in run.saves if not save.closing and save.step > workload.steps.discard]
    if saves:
        blocking, durable = [save.blocking_s for save in saves], [save.save_s for save in saves]
        rows += [
            row("checkpoint_save_time", float(np.median(durable)), len(saves), ci=median_interval(durable)),
            row("checkpoint_blocking_time", float(np.median(blocking)), len(saves), ci=median_interval(blocking)),
            row("checkpoint_size", saves[-1].bytes, len(saves)),
        ]
    return rows


def _closing(run: RunRecord | None) -> list[MetricRow]:
    if run is None or not run.verified_loads_s:
        return []
    return [row("checkpoint_load_time", float(np.median(run.verified_loads_s)), len(run.verified_loads_s), phase="cooldown")]


def _recovery(records: Records) -> list[MetricRow]:
    rows: list[MetricRow] = []
    parts, goodput = records.recovery(), records.goodput()
    if parts is not None:
        rows += [
            row("restart_penalty", parts.penalty_s, 1, phase="recovery"),
            row("restart_detect_time", parts.detect_s, 1, phase="recovery"),
            row("restart_launch_time", parts.launch_s, 1, phase="recovery"),
            row("checkpoint_load_time", parts.load_s, 1, phase="recovery"),
            row("restart_recompute_time", parts.recompute_s, 1, phase="recovery"),
        ]
    if goodput is not None:
        rows.append(row("training_goodput", goodput[0], goodput[1], phase="recovery"))
    return rows


def _stages(workload: TrainingWorkload, records: Records) -> list[Stage]:
    steps, run = records.steady(workload.steps), records.runs.get("run")
    if not steps or run is None:
        return []
    totals = {name: sum(step.stages.get(name, 0.0) for step in steps) for name in STAGES if any(name in step.stages for step in steps)}
    stages = [Stage(phase="steady", stage=name, total_s=total, n=len(steps)) for name, total in totals.items()]
    saves = [save for save in run.saves if not save.closing and save.step > workload.steps.discard]
    return [*stages, Stage(phase="steady", stage="checkpoint", total_s=sum(save.blocking_s for save in saves), n=len(saves))]


def _events(workload: TrainingWorkload, records: Records) -> list[Event]:
    """Moments of the trial in their order; wall clock times follow from the monotonic ones by one common offset."""
    moments: dict[str, float] = {}
    first, steady = records.runs.get("run"), records.steady(workload.steps)
    if first:
        moments["training_launched"] = first.launched_s
        if first.steps:
            moments["first_step_done"] = first.steps[0].end_s
    if steady:
        moments |= {"steady_begun": steady[0].start_s, "steady_ended": steady[-1].end_s}
    if records.restart:
        moments |= {"rank_killed": records.restart.killed_s, "rank_death_detected": records.restart.detected_s}
    if recovery := records.runs.get("recovery"):
        moments |= {"training_relaunched": recovery.launched_s} | {
            name: recovery.at[key] for name, key in (("state_loaded", "load_end"), ("training_done", "done")) if key in recovery.at
        }
    if parts := records.recovery():
        assert records.restart is not None
        moments["lost_step_done_again"] = records.restart.killed_s + parts.penalty_s
    now, monotonic = datetime.now(timezone.utc), time.monotonic()
    return [
        Event(name=name, utc=now + timedelta(seconds=at - monotonic), monotonic_s=at)
        for name, at in sorted(moments.items(), key=lambda item: item[1])
    ]


def _evidence(workload: TrainingWorkload, records: Records, folder: Path) -> list[EvidenceFile]:
    found: list[EvidenceFile] = []
    rows = [_steps_of(name, run, workload) for name, run in records.runs.items()]
    flat = [line for lines in rows for line in lines]
    if flat:
        path = folder / STEPS_FILE
        pq.write_table(pa.Table.from_pylist(flat, schema=_SCHEMA), path, compression="zstd")
        found.append(EvidenceFile("steps", path, len(flat)))
    for name in records.runs:
        logs = [folder / f"{name}.worker.log", *sorted(folder.glob(f"{name}.rank*.worker.log"))]
        found += [EvidenceFile("log", log) for log in logs if log.is_file() and log.stat().st_size]
    return found


_TIMES = ("start_s", "step_s", *(f"{stage}_s" for stage in STAGES), "checkpoint_s")
_SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("phase", pa.string()),
        ("step", pa.int64()),
        ("rank", pa.int64()),
        *((name, pa.float64()) for name in _TIMES),
        ("loss", pa.float64()),
    ]
)


def _steps_of(name: str, run: RunRecord, workload: TrainingWorkload) -> list[dict[str, object]]:
    """Rows of steps.parquet, one a step and rank: `start_s` on the monotonic clock of the rank's node, `checkpoint_s` null where none followed."""
    after = {save.step - 1: save.blocking_s for save in run.saves if not save.closing}
    return [
        {
            "run": name,
            "phase": _phase_of(name, step.step, workload),
            "step": step.step,
            "rank": rank,
            "start_s": step.start_s,
            "step_s": step.step_s,
            **{f"{stage}_s": step.stages.get(stage) for stage in STAGES},
            "checkpoint_s": after.get(step.step) if rank == 0 else None,
            "loss": step.loss,
        }
        for rank, steps in (run.by_rank or {0: run.steps}).items()
        for step in steps
    ]


def _phase_of(run: str, step: int, workload: TrainingWorkload) -> Phase:
    if run != "run":
        return "fault" if run == "fault" else "recovery"
    if step >= workload.steps.discard:
        return "steady"
    return "warmup" if step else "cold_start"


def _guarantees(records: Records) -> list[str]:
    """Which repeatability was checked in this trial and held."""
    run = records.runs.get("run")
    return [
        *(["checkpoint_restored_exactly"] if run and run.restored_exactly else []),
        *(["losses_continue_exactly"] if records.recovery() and records.diverged() == [] else []),
    ]
