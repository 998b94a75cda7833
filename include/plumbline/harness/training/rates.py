"""How fast a training was: in its steady state, over its whole run, against the hardware. The formulas of docs/read-a-training-result.md.

A step is the job's, and so is what it did: all processes' batches, on all their devices. Every rate stands beside the same rate over the
whole run, which has the warm-up, the checkpoints and whatever else came between in it.
"""

from __future__ import annotations

import math

import numpy as np

from plumbline.declarations.training import TrainingWorkload
from plumbline.harness.training.flops import flops_per_step
from plumbline.harness.training.merge import straggling
from plumbline.harness.training.peaks import published_peak
from plumbline.harness.training.records import Records
from plumbline.harness.training.steady import median_interval
from plumbline.harness.training.steplog import RunRecord, Save, Step
from plumbline.results import MetricRow, row


def rows(workload: TrainingWorkload, records: Records) -> list[MetricRow]:
    """Everything that the undisturbed run shows; empty if no step of it was done."""
    run, steps = records.undisturbed, records.steady(workload.steps)
    if run is None or not run.steps:
        return []
    found = _start_up(run, steps)
    if steps:
        found += [*_step_time(steps), *_rates(workload, run, steps)]
        if workload.task.kind == "reinforcement":
            found.append(row("mean_reward", 1.0 - steps[-1].loss, 1))
    found += _whole_run(workload, run)
    if steps:
        found += [*_stragglers(run, steps), *_checkpoints(workload, run)]
    for name, metric in (("used", "training_peak_memory"), ("reserved", "training_peak_reserved_memory")):
        if name in run.peak_memory:
            found.append(row(metric, run.peak_memory[name], max(len(run.by_rank), 1)))
    if workload.precision == "fp16":
        found.append(row("skipped_steps", len(run.skipped), len(run.steps)))
    return [*found, *_closing(run)]


def counts_tokens(workload: TrainingWorkload) -> bool:
    """Whether the work is told in tokens; images are not."""
    return workload.task.kind != "classification"


def work_per_step(workload: TrainingWorkload) -> tuple[str, int]:
    """What one step of the job gets done: `tokens` or `samples`, and how many of them."""
    each = workload.tokens_per_step if counts_tokens(workload) else workload.samples_per_step
    return ("tokens" if counts_tokens(workload) else "samples"), each * workload.parallelism.replicas


def _start_up(run: RunRecord, steady: list[Step]) -> list[MetricRow]:
    first = run.steps[0]
    found = [
        row("first_step_time", first.step_s, 1, phase="cold_start"),
        row("time_to_first_step", first.end_s - run.launched_s, 1, phase="cold_start"),
    ]
    if run.weights_load_s is not None:
        found.append(row("weights_load_time", run.weights_load_s, 1, phase="cold_start"))
    if run.compiled_s:
        found.append(row("compile_time", sum(run.compiled_s), len(run.compiled_s), phase="cold_start"))
    if steady:
        found.append(row("warmup_time", steady[0].start_s - first.start_s, sum(s.step < steady[0].step for s in run.steps), phase="warmup"))
    return found


def _whole_run(workload: TrainingWorkload, run: RunRecord) -> list[MetricRow]:
    first, last, n = run.steps[0], run.steps[-1], len(run.steps)
    wall = last.end_s - first.start_s - sum(save.checksum_s for save in run.saves if first.step < save.step <= last.step)
    what, amount = work_per_step(workload)
    return [row(f"effective_{what}_per_second", amount * n / wall, n)]


def _step_time(steps: list[Step]) -> list[MetricRow]:
    times = np.array([step.step_s for step in steps])
    n, mean = len(times), float(times.mean())
    spread = float(times.std(ddof=1)) if n > 1 else math.nan
    found = [
        row("step_time", float(np.median(times)), n, ci=median_interval(times.tolist())),
        row("step_time", mean, n, statistic="mean"),
        row("step_time", float(np.percentile(times, 95)), n, statistic="p95"),
        row("step_time", float(np.percentile(times, 99)), n, statistic="p99"),
        row("step_time", spread, n, statistic="stddev"),
        row("step_time", spread / mean, n, statistic="cv"),
        row("data_wait_time", float(np.mean([step.stages["data_wait"] for step in steps])), n),
        row("final_loss", steps[-1].loss, 1),
    ]
    generation = [step.stages["generation"] for step in steps if "generation" in step.stages]
    if generation:
        found.append(row("generation_share", sum(generation) / float(times.sum()), len(generation)))
    return found


def _rates(workload: TrainingWorkload, run: RunRecord, steps: list[Step]) -> list[MetricRow]:
    times = [step.step_s for step in steps]
    n, median, interval = len(times), float(np.median(times)), median_interval(times)

    def rate(name: str, amount: float) -> MetricRow:
        # A rate is an amount over the step time, so its median and interval are those of the step time, turned over.
        return row(name, amount / median, n, ci=(amount / interval[1], amount / interval[0]) if interval else None)

    world, replicas = workload.parallelism.world, workload.parallelism.replicas
    what, amount = work_per_step(workload)
    found = [
        rate(f"{what}_per_second", amount),
        # All the work over all the time: what a burst or a tail costs is in it, as it is on the bill.
        row(f"{what}_per_second", amount * n / sum(times), n, statistic="mean"),
        rate(f"{what}_per_second_per_device", amount / world),
    ]
    if what != "samples":
        found.append(rate("samples_per_second", workload.samples_per_step * replicas))
    peak = published_peak(run.facts.get("torch.device_name"), workload.precision)
    for convention, full in (("", False), ("_full_attention", True)):
        each = flops_per_step(workload, full_attention=full)
        if each is None:
            continue
        found.append(rate(f"model_flops{convention}", each * replicas))
        if run.matmul_flops:
            found.append(rate(f"model_flops_utilization{convention}", each * replicas / (run.matmul_flops * world)))
        if peak is not None:
            found.append(rate(f"model_flops_utilization_of_published_peak{convention}", each * replicas / (peak * world)))
    if peak is not None:
        found.append(row("device_published_peak", peak, 1))
    return found


def _stragglers(run: RunRecord, steps: list[Step]) -> list[MetricRow]:
    lag = straggling(run.by_rank, {step.step for step in steps})
    return [] if lag is None else [row("straggler_ratio", lag.ratio, lag.n), row("straggler_share", lag.same, lag.n)]


def _checkpoints(workload: TrainingWorkload, run: RunRecord) -> list[MetricRow]:
    saves = steady_saves(workload, run)
    if not saves:
        return []
    n, durable, blocking = len(saves), [save.save_s for save in saves], [save.blocking_s for save in saves]
    written = [save.bytes / save.save_s for save in saves]
    return [
        row("checkpoint_save_time", float(np.median(durable)), n, ci=median_interval(durable)),
        row("checkpoint_blocking_time", float(np.median(blocking)), n, ci=median_interval(blocking)),
        row("checkpoint_size", saves[-1].bytes, n),
        row("checkpoint_save_bandwidth", float(np.median(written)), n, ci=median_interval(written)),
    ]


def steady_saves(workload: TrainingWorkload, run: RunRecord) -> list[Save]:
    """The checkpoints between steady steps: not those of the warm-up, nor the one after the last step."""
    return [save for save in run.saves if not save.closing and save.step > workload.steps.discard]


def _closing(run: RunRecord) -> list[MetricRow]:
    found = []
    loads = run.verified_loads_s
    if loads:
        found.append(row("checkpoint_load_time", float(np.median(loads)), len(loads), phase="cooldown"))
        if run.saves:
            rate = run.saves[-1].bytes / float(np.median(loads))
            found.append(row("checkpoint_load_bandwidth", rate, len(loads), phase="cooldown"))
    if run.matmul_flops:
        found.append(row("device_matmul_peak", run.matmul_flops, 1, phase="cooldown"))
    return found
