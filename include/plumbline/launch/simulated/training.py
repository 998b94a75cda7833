"""Metric rows of a simulated training trial."""

from __future__ import annotations

import math

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.flops import flops_per_step
from plumbline.launch.simulated.model import Hardware, TrialDraw
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
    job = workload.parallelism
    flops = flops_per_step(workload) or 6.0 * _HUB_PARAMETERS * workload.tokens_per_step
    rate = has.matmul * (_UTILIZATION if has.gpu else _CPU_UTILIZATION) / (1 if has.gpu else job.processes)
    communication = 1.0 + _COMMUNICATION * math.log2(job.world)
    return (flops / job.tensor / rate * communication + _STEP_OVERHEAD_S) * draw.slowness("training")


def rows(workload: TrainingWorkload, has: Hardware, draw: TrialDraw) -> list[MetricRow]:
    """All metric rows but the probes'."""
    step, n, job = step_s(workload, has, draw), workload.steps.measure, workload.parallelism
    start = (_START_S if has.gpu else _CPU_START_S) + (_COMPILE_S if workload.compile else 0.0)
    median = draw.row("step_time", step, n, spread=_SPREAD, moved=False)
    assert median.value is not None
    median_s = median.value
    metric_rows = [
        draw.row("first_step_time", 3 * step, 1, phase="cold_start"),
        draw.row("time_to_first_step", start + 3 * step, 1, phase="cold_start"),
        draw.row("warmup_time", workload.steps.discard * step, workload.steps.discard, phase="warmup", moved=False),
        median,
        *(
            metric_row("step_time", median_s * factor, n, statistic=statistic)
            for statistic, factor in (("mean", 1.001), ("p95", 1 + 1.7 * _SPREAD), ("p99", 1 + 2.6 * _SPREAD), ("stddev", _SPREAD))
        ),
        metric_row("step_time", _SPREAD, n, statistic="cv"),
        draw.row("data_wait_time", _SHARES["data_wait"] * step, n, moved=False),
        *_rates(workload, has, draw, step),
        metric_row("final_loss", _loss(workload), 1),
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
        metric_rows.append(metric_row("mean_reward", 1.0 - _loss(workload), 1))
    if workload.precision == "fp16":
        metric_rows.append(draw.row("skipped_steps", 0.0, workload.steps.total, moved=False))
    if job.world > 1:
        metric_rows += [draw.row("straggler_ratio", 1.01, n, moved=False), draw.row("straggler_share", 1.0 / job.world, n, moved=False)]
    return [*metric_rows, *_recovery(workload, has, draw, step, start)]


def stages(workload: TrainingWorkload, has: Hardware, draw: TrialDraw) -> list[Stage]:
    """Where the steady steps' time went."""
    step, n = step_s(workload, has, draw), workload.steps.measure
    return [Stage(phase="steady", stage=name, total_s=share * step * n, n=n) for name, share in _SHARES.items()]


def _rates(workload: TrainingWorkload, has: Hardware, draw: TrialDraw, step: float) -> list[MetricRow]:
    n, job = workload.steps.measure, workload.parallelism
    images = workload.task.kind == "classification"
    what, amount = ("samples", workload.samples_per_step) if images else ("tokens", workload.tokens_per_step)
    work = amount * job.replicas
    metric_rows = [
        draw.row(f"{what}_per_second", work / step, n, spread=_SPREAD, moved=False),
        draw.row(f"{what}_per_second", work / step, n, statistic="mean", moved=False),
        draw.row(f"{what}_per_second_per_device", work / step / job.world, n, spread=_SPREAD, moved=False),
        draw.row(f"effective_{what}_per_second", 0.9 * work / step, workload.steps.total, statistic="value", moved=False),
    ]
    if _saves(workload):
        paid_s = step + _checkpoint_s(workload, has)[1] * _blocking_share(workload) / workload.checkpoint.every
        metric_rows.append(draw.row(f"effective_{what}_per_second", work / paid_s, n, moved=False))
    if not images:
        metric_rows.append(draw.row("samples_per_second", workload.samples_per_step * job.replicas / step, n, spread=_SPREAD, moved=False))
    for convention, full in (("", False), ("_full_attention", True)):
        if (each := flops_per_step(workload, full_attention=full)) is None:
            continue
        flops, best = each * job.replicas / step, has.matmul * (job.world if has.gpu else 1)
        metric_rows += [
            draw.row(f"model_flops{convention}", flops, n, spread=_SPREAD, moved=False),
            draw.row(f"model_flops_utilization{convention}", flops / best, n, spread=_SPREAD, moved=False),
        ]
    return metric_rows


def _loss(workload: TrainingWorkload) -> float:
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


def _recovery(workload: TrainingWorkload, has: Hardware, draw: TrialDraw, step: float, start: float) -> list[MetricRow]:
    fault = workload.fault
    if fault is None:
        return []
    detect = 0.05
    load = _checkpoint_s(workload, has)[1]
    again = (fault.at_step % workload.checkpoint.every + 1) * step
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
