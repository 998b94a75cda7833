"""Metric rows of a simulated training trial, of our own loop or of a script."""

from __future__ import annotations

import math
from collections.abc import Sequence

from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import TrainingJob, TrainingWorkload
from plumbline.kinds.arithmetic.flops import flops_per_step, script_flops_per_step
from plumbline.kinds.simulation.draw import Hardware, TrialDraw, value_of
from plumbline.results import MetricRow, Stage, metric_row

# Of the arithmetic that the probe reaches, and what a step costs besides; each doubling of the job costs some of its communication.
_UTILIZATION, _CPU_UTILIZATION = 0.55, 0.35
_STEP_OVERHEAD_S, _COMMUNICATION = 0.004, 0.02
_SPREAD = 0.006
_HUB_PARAMETERS = 110e6
_BYTES_PER_WEIGHT = 12.0
_COMPILE_S, _START_S, _CPU_START_S = 35.0, 12.0, 2.5
_SHARES = {"data_wait": 0.01, "forward": 0.31, "backward": 0.6, "optimizer": 0.08}
_ASYNC_SHARE = 0.1
_MEMORY_SHARE = 2.0
"""Peak memory over the size of the state: gradients and activations come to it."""


def step_s(workload: TrainingWorkload, has: Hardware, draw: TrialDraw) -> float:
    flops = flops_per_step(workload) or 6.0 * _HUB_PARAMETERS * workload.tokens_per_step
    return job_step_s(workload, flops / workload.parallelism.tensor, has, draw)


def job_step_s(workload: TrainingJob, flops: float, has: Hardware, draw: TrialDraw) -> float:
    """Seconds of a step in which each process does `flops`."""
    job = workload.parallelism
    rate = has.matmul * (_UTILIZATION if has.gpu else _CPU_UTILIZATION) / (1 if has.gpu else job.processes)
    communication = 1.0 + _COMMUNICATION * math.log2(job.world)
    return (flops / rate * communication + _STEP_OVERHEAD_S) * draw.slowness("training")


def start_s(has: Hardware) -> float:
    """Seconds from a process's start to its first step."""
    return _START_S if has.gpu else _CPU_START_S


def step_rows(workload: TrainingJob, step: float, start: float, draw: TrialDraw) -> list[MetricRow]:
    """Start and steps of a job whose steps take `step` seconds and that begins them `start` seconds after it was launched."""
    n = workload.steps.measure
    median = draw.row("step_time", step, n, spread=_SPREAD, moved=False)
    assert median.value is not None
    return [
        draw.row("first_step_time", 3 * step, 1, phase="cold_start"),
        draw.row("time_to_first_step", start + 3 * step, 1, phase="cold_start"),
        draw.row("warmup_time", workload.steps.discard * step, workload.steps.discard, phase="warmup", moved=False),
        median,
        *(
            metric_row("step_time", median.value * factor, n, statistic=statistic)
            for statistic, factor in (("mean", 1.001), ("p95", 1 + 1.7 * _SPREAD), ("p99", 1 + 2.6 * _SPREAD), ("stddev", _SPREAD))
        ),
        metric_row("step_time", _SPREAD, n, statistic="cv"),
    ]


def rate_rows(workload: TrainingJob, what: str, work: float, step: float, draw: TrialDraw) -> list[MetricRow]:
    """What the whole job does of `what`, of which a step holds `work`."""
    n = workload.steps.measure
    return [
        draw.row(f"{what}_per_second", work / step, n, spread=_SPREAD, moved=False),
        draw.row(f"{what}_per_second", work / step, n, statistic="mean", moved=False),
        draw.row(f"{what}_per_second_per_device", work / step / workload.parallelism.world, n, spread=_SPREAD, moved=False),
        draw.row(f"effective_{what}_per_second", 0.9 * work / step, workload.steps.total, statistic="value", moved=False),
    ]


def utilization_rows(workload: TrainingJob, flops: float, convention: str, has: Hardware, draw: TrialDraw) -> list[MetricRow]:
    """The whole job's `flops` a second, and their share of what its devices reach. `convention`: suffix of the metrics' names."""
    n, best = workload.steps.measure, has.matmul * (workload.parallelism.world if has.gpu else 1)
    return [
        draw.row(f"model_flops{convention}", flops, n, spread=_SPREAD, moved=False),
        draw.row(f"model_flops_utilization{convention}", flops / best, n, spread=_SPREAD, moved=False),
    ]


def rows(workload: TrainingWorkload, has: Hardware, draw: TrialDraw) -> list[MetricRow]:
    """All metric rows but the probes'."""
    step, n, job = step_s(workload, has, draw), workload.steps.measure, workload.parallelism
    start = start_s(has) + (_COMPILE_S if workload.compile else 0.0)
    metric_rows = [
        *step_rows(workload, step, start, draw),
        draw.row("data_wait_time", _SHARES["data_wait"] * step, n, moved=False),
        *_rates(workload, has, draw, step),
        metric_row("final_loss", final_loss(workload), 1),
        *_checkpoints(workload, has, draw),
        draw.row("device_matmul_peak", has.matmul, 1, phase="cooldown"),
        draw.row("training_peak_memory", _MEMORY_SHARE * _checkpoint_s(workload, has)[0], job.world, moved=False),
    ]
    if has.gpu:
        metric_rows.append(
            draw.row("training_peak_reserved_memory", 1.1 * _MEMORY_SHARE * _checkpoint_s(workload, has)[0], job.world, moved=False)
        )
    if workload.compile:
        metric_rows.append(draw.row("compile_time", _COMPILE_S, 1, phase="cold_start"))
    if workload.task.kind == "reinforcement":
        metric_rows.append(metric_row("mean_reward", 1.0 - final_loss(workload), 1))
    if workload.precision == "fp16":
        metric_rows.append(draw.row("skipped_steps", 0.0, workload.steps.total, moved=False))
    if job.world > 1:
        metric_rows += [draw.row("straggler_ratio", 1.01, n, moved=False), draw.row("straggler_share", 1.0 / job.world, n, moved=False)]
    return [*metric_rows, *recovery_rows(workload, step, start, _checkpoint_s(workload, has)[1], draw)]


def stages(workload: TrainingWorkload, has: Hardware, draw: TrialDraw) -> list[Stage]:
    """Where the steady steps' time went."""
    step, n = step_s(workload, has, draw), workload.steps.measure
    return [Stage(phase="steady", stage=name, total_s=share * step * n, n=n) for name, share in _SHARES.items()]


def _rates(workload: TrainingWorkload, has: Hardware, draw: TrialDraw, step: float) -> list[MetricRow]:
    n, job = workload.steps.measure, workload.parallelism
    what, work = workload.work_per_step
    assert work is not None
    metric_rows = rate_rows(workload, what, work, step, draw)
    if _saves(workload):
        paid_s = step + _checkpoint_s(workload, has)[1] * _blocking_share(workload) / workload.checkpoint.every
        metric_rows.append(draw.row(f"effective_{what}_per_second", work / paid_s, n, moved=False))
    if what == "tokens":
        metric_rows.append(draw.row("samples_per_second", workload.samples_per_step * job.replicas / step, n, spread=_SPREAD, moved=False))
    for convention, full in (("", False), ("_full_attention", True)):
        if (each := flops_per_step(workload, full_attention=full)) is None:
            continue
        metric_rows += utilization_rows(workload, each * job.replicas / step, convention, has, draw)
    return metric_rows


def final_loss(workload: TrainingJob) -> float:
    """The final loss, without noise."""
    check = workload.loss
    return 2.0 if check is None else check.low + 0.4 * (check.high - check.low)


def _checkpoint_s(workload: TrainingWorkload, has: Hardware) -> tuple[float, float]:
    """(bytes, seconds to write them) of a checkpoint."""
    parameters = float(getattr(workload.model, "matmul_parameters", _HUB_PARAMETERS))
    size = parameters * _BYTES_PER_WEIGHT
    return size, 0.01 + size / has.disk


def _saves(workload: TrainingWorkload) -> int:
    """Checkpoints between steady steps."""
    steps, every = workload.steps, workload.checkpoint.every
    return sum(1 for step in range(every, steps.total, every) if step > steps.discard)


def _blocking_share(workload: TrainingWorkload) -> float:
    return _ASYNC_SHARE if workload.checkpoint.mode == "async" else 1.0


def _checkpoints(workload: TrainingWorkload, has: Hardware, draw: TrialDraw) -> list[MetricRow]:
    size, took = _checkpoint_s(workload, has)
    load = [
        draw.row("checkpoint_load_time", took, 1, phase="cooldown"),
        draw.row("checkpoint_load_bandwidth", size / took, 1, phase="cooldown"),
    ]
    n = _saves(workload)
    if not n:
        return load
    return [
        draw.row("checkpoint_save_time", took, n),
        draw.row("checkpoint_blocking_time", took * _blocking_share(workload), n),
        draw.row("checkpoint_size", size, n, moved=False),
        draw.row("checkpoint_save_bandwidth", size / took, n),
        *load,
    ]


def recovery_rows(workload: TrainingJob, step: float, start: float, load: float, draw: TrialDraw) -> list[MetricRow]:
    """What the declared fault costs, with a checkpoint that is read in `load` seconds."""
    fault, every = workload.fault, workload.checkpoint_every
    if fault is None or every is None:
        return []
    detect = 0.05
    again = (fault.at_step % every + 1) * step
    lost = detect + start + load + again
    useful = workload.steps.total * step
    return [
        draw.row("restart_penalty", lost, 1, phase="recovery"),
        draw.row("restart_detect_time", detect, 1, phase="recovery"),
        draw.row("restart_launch_time", start, 1, phase="recovery"),
        draw.row("checkpoint_load_time", load, 1, phase="recovery"),
        draw.row("restart_recompute_time", again, 1, phase="recovery"),
        draw.row("training_goodput", useful / (useful + lost * fault.times), workload.steps.total, phase="recovery"),
        draw.row("training_restarts", float(fault.times), 1, phase="recovery"),
    ]


def took_s(workload: TrainingJob, metrics: Sequence[MetricRow]) -> float:
    """Seconds of the measurement with these rows."""
    steps = workload.steps.total * value_of(metrics, "step_time", "steady")
    return value_of(metrics, "time_to_first_step", "cold_start") + steps + value_of(metrics, "restart_penalty", "recovery")


_SCRIPT_TOKENS = 8192.0
_SCRIPT_CHECKPOINT_BYTES = _BYTES_PER_WEIGHT * _HUB_PARAMETERS


def script_rows(workload: ScriptWorkload, has: Hardware, draw: TrialDraw) -> list[MetricRow]:
    """All rows of a script but the probes'. What its declaration does not say is that of a model of 110 million parameters."""
    what, work = workload.work_per_step
    counted = script_flops_per_step(workload)
    flops = counted or 6.0 * _HUB_PARAMETERS * (work or _SCRIPT_TOKENS)
    step = job_step_s(workload, flops / workload.parallelism.world, has, draw)
    start, saved = start_s(has), 0.01 + _SCRIPT_CHECKPOINT_BYTES / has.disk
    metric_rows = step_rows(workload, step, start, draw)
    if workload.counts_work:
        metric_rows += rate_rows(workload, what, work or _SCRIPT_TOKENS, step, draw)
    if counted is not None:
        metric_rows += utilization_rows(workload, flops / step, "", has, draw)
    if "loss" in (workload.task.reported or ()):
        metric_rows.append(metric_row("final_loss", final_loss(workload), 1))
    every, steps = workload.checkpoint_every, workload.steps
    if every is not None and (n := steps.total // every - steps.discard // every):
        metric_rows += [draw.row("checkpoint_save_time", saved, n), draw.row("checkpoint_size", _SCRIPT_CHECKPOINT_BYTES, n, moved=False)]
    return [*metric_rows, *recovery_rows(workload, step, start, saved, draw)]
