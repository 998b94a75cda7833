"""Metric rows of a simulated training script: what its declaration does not say is that of a model of 110 million parameters."""

from __future__ import annotations

from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.launch.simulated.model import Hardware, TrialDraw
from plumbline.launch.simulated.training import final_loss, job_step_s, rate_rows, recovery_rows, start_s, step_rows, utilization_rows
from plumbline.results import MetricRow, metric_row

_PARAMETERS, _TOKENS = 110e6, 8192.0
_CHECKPOINT_BYTES = 12.0 * _PARAMETERS


def rows(workload: ScriptWorkload, has: Hardware, draw: TrialDraw) -> list[MetricRow]:
    """All metric rows but the probes'."""
    what, work = workload.work_per_step
    flops = workload.flops_per_step or 6.0 * _PARAMETERS * (work or _TOKENS)
    step = job_step_s(workload, flops / workload.parallelism.world, has, draw)
    start, saved = start_s(has), 0.01 + _CHECKPOINT_BYTES / has.disk
    metric_rows = step_rows(workload, step, start, draw)
    if workload.counts_work:
        metric_rows += rate_rows(workload, what, work or _TOKENS, step, draw)
    if workload.flops_per_step is not None:
        metric_rows += utilization_rows(workload, flops / step, "", has, draw)
    if "loss" in (workload.task.reported or ()):
        metric_rows.append(metric_row("final_loss", final_loss(workload), 1))
    every, steps = workload.checkpoint_every, workload.steps
    if every is not None and (n := steps.total // every - steps.discard // every):
        metric_rows += [draw.row("checkpoint_save_time", saved, n), draw.row("checkpoint_size", _CHECKPOINT_BYTES, n, moved=False)]
    return [*metric_rows, *recovery_rows(workload, step, start, saved, draw)]
