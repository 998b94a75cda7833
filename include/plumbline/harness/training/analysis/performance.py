"""Performance of the undisturbed run: rates, curves, energy. The formulas are in docs/read-a-training-result.md."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise, takewhile

import numpy as np

from plumbline.declarations.workloads.script import ScriptWorkload
from plumbline.declarations.workloads.training import TrainingJob, TrainingWorkload
from plumbline.harness.training.analysis.records import UndisturbedRun, median_interval, straggler_stats
from plumbline.harness.training.worker_protocol import CheckpointSave, RunRecord, Step
from plumbline.kinds.arithmetic.flops import flops_per_step, script_flops
from plumbline.kinds.arithmetic.peak_flops import published_peak
from plumbline.metrics import Phase
from plumbline.results import Curve, MetricRow, Point, metric_curve, metric_row

_SEEN_AT_ONCE_S = 1e-6
"""A script's checkpoint that comes into its folder by a rename is seen whole: how long it took to write is not known."""


@dataclass(frozen=True)
class Peaks:
    """FLOP/s of all devices of a script's job at its precision: what the probe reached, and what is published; None where not known."""

    probed: float | None
    published: float | None


def performance_rows(workload: TrainingJob, undisturbed: UndisturbedRun, peaks: Peaks | None = None) -> list[MetricRow]:
    """All rows of the undisturbed run; empty without a finished step. `peaks`: for a script's utilization."""
    run, steps = undisturbed.record, undisturbed.steady
    if not run.steps:
        return []
    rows = _start_up_rows(run, steps)
    if steps:
        rows += [*_step_time_rows(steps), *_rate_rows(workload, run, steps, peaks)]
        if workload.task_kind == "reinforcement" and steps[-1].loss is not None:
            rows.append(metric_row("mean_reward", 1.0 - steps[-1].loss, 1))
    rows += _whole_run_rows(workload, run)
    if steps:
        rows += [*_straggler_rows(run, steps), *_checkpoint_rows(workload, run)]
    for name, metric in (("used", "training_peak_memory"), ("reserved", "training_peak_reserved_memory")):
        if name in run.peak_memory:
            rows.append(metric_row(metric, run.peak_memory[name], max(len(run.by_rank), 1)))
    if isinstance(workload, TrainingWorkload) and workload.precision == "fp16":
        rows.append(metric_row("skipped_steps", len(run.skipped), len(run.steps)))
    return [*rows, *_final_check_rows(run)]


def work_per_step(workload: TrainingJob, steps: Sequence[Step]) -> tuple[str, float | None]:
    """The work of one step of the job: `tokens` or `samples`, and their number, or the mean of what a script reported; None if it is unknown."""
    what, amount = workload.work_per_step
    reported = [step.work for step in steps if step.work is not None]
    return what, sum(reported) / len(reported) if amount is None and reported else amount


def _start_up_rows(run: RunRecord, steady: list[Step]) -> list[MetricRow]:
    first = run.steps[0]
    rows = [metric_row("first_step_time", first.step_s, 1, phase="cold_start")] if run.first_start_known else []
    rows.append(metric_row("time_to_first_step", first.end_s - run.launched_s, 1, phase="cold_start"))
    if run.weights_load_s is not None:
        rows.append(metric_row("weights_load_time", run.weights_load_s, 1, phase="cold_start"))
    if run.compiled_s:
        rows.append(metric_row("compile_time", sum(run.compiled_s), len(run.compiled_s), phase="cold_start"))
    if steady:
        rows.append(
            metric_row("warmup_time", steady[0].start_s - first.start_s, sum(s.step < steady[0].step for s in run.steps), phase="warmup")
        )
    return rows


def _whole_run_rows(workload: TrainingJob, run: RunRecord) -> list[MetricRow]:
    # What was done before anything was seen has no wall time here.
    seen = list(dropwhile(lambda step: not step.timed, run.steps))
    what, amount = work_per_step(workload, run.steps)
    if amount is None or not seen:
        return []
    first, last, n = seen[0], seen[-1], len(seen)
    wall = last.end_s - first.start_s - sum(save.checksum_s for save in run.saves if first.step < save.step <= last.step)
    if wall <= 0:
        return []
    return [metric_row(f"effective_{what}_per_second", amount * n / wall, n, statistic="value")]


def _step_time_rows(steps: list[Step]) -> list[MetricRow]:
    times = np.array([step.step_s for step in steps])
    n, mean = len(times), float(times.mean())
    spread = float(times.std(ddof=1)) if n > 1 else math.nan
    rows = [
        _median_row("step_time", times.tolist()),
        metric_row("step_time", mean, n, statistic="mean"),
        metric_row("step_time", float(np.percentile(times, 95)), n, statistic="p95"),
        metric_row("step_time", float(np.percentile(times, 99)), n, statistic="p99"),
        metric_row("step_time", spread, n, statistic="stddev"),
        metric_row("step_time", spread / mean, n, statistic="cv"),
    ]
    waits = [step.stages["data_wait"] for step in steps if "data_wait" in step.stages]
    if waits:
        rows.append(metric_row("data_wait_time", float(np.mean(waits)), len(waits)))
    if (final := _final_loss(steps)) is not None:
        rows.append(metric_row("final_loss", final, 1))
    generation = [step.stages["generation"] for step in steps if "generation" in step.stages]
    if generation:
        rows.append(metric_row("generation_share", sum(generation) / float(times.sum()), len(generation)))
    return rows


def _final_loss(steps: Sequence[Step]) -> float | None:
    """The loss of the last step; where it has none, as between two refreshes of a progress bar, the newest one.

    None if more steps follow that one than ever lay between two losses: it is not the run's end that it shows."""
    at = [place for place, step in enumerate(steps) if step.loss is not None]
    if not at:
        return None
    usual = max((later - earlier for earlier, later in pairwise(at)), default=1)
    return steps[at[-1]].loss if len(steps) - 1 - at[-1] < usual else None


def _rate_rows(workload: TrainingJob, run: RunRecord, steps: list[Step], peaks: Peaks | None) -> list[MetricRow]:
    what, amount = work_per_step(workload, steps)
    if amount is None:
        return []
    times = [step.step_s for step in steps]
    n, median, interval = len(times), float(np.median(times)), median_interval(times)

    def rate(name: str, amount: float) -> MetricRow:
        # A rate is an amount over the step time, so its median and interval are those of the step time, turned over.
        return metric_row(name, amount / median, n, ci=(amount / interval[1], amount / interval[0]) if interval else None)

    world = workload.parallelism.world
    rows = [
        rate(f"{what}_per_second", amount),
        # All the work over all the time: what a burst or a tail costs is in it, as it is on the bill.
        metric_row(f"{what}_per_second", amount * n / sum(times), n, statistic="mean"),
        rate(f"{what}_per_second_per_device", amount / world),
    ]
    saves = steady_saves(workload, run)
    if saves and workload.checkpoint_every is not None:
        # What is paid for: a window holds more or fewer checkpoints than its share by chance, so they count at the declared interval.
        held_up = sum(save.blocking_s for save in saves) / len(saves) / workload.checkpoint_every
        rows.append(metric_row(f"effective_{what}_per_second", amount / (sum(times) / n + held_up), n, statistic="mean"))
    if isinstance(workload, ScriptWorkload):
        return [*rows, *_utilization_rows(workload, amount, rate, peaks)]
    assert isinstance(workload, TrainingWorkload)
    replicas = workload.parallelism.replicas
    if what != "samples":
        rows.append(rate("samples_per_second", workload.samples_per_step * replicas))
    peak = published_peak(run.facts.get("torch.device_name"), workload.precision)
    for convention, full in (("", False), ("_full_attention", True)):
        each = flops_per_step(workload, full_attention=full)
        if each is None:
            continue
        rows.append(rate(f"model_flops{convention}", each * replicas))
        if run.matmul_flops:
            rows.append(rate(f"model_flops_utilization{convention}", each * replicas / (run.matmul_flops * world)))
        if peak is not None:
            rows.append(rate(f"model_flops_utilization_of_published_peak{convention}", each * replicas / (peak * world)))
    if peak is not None:
        rows.append(metric_row("device_published_peak", peak, 1))
    return rows


def _utilization_rows(
    workload: ScriptWorkload, amount: float, rate: Callable[[str, float], MetricRow], peaks: Peaks | None
) -> list[MetricRow]:
    if (each := script_flops(workload)) is None:
        return []
    flops = amount * each
    rows = [rate("model_flops", flops)]
    if peaks is not None and peaks.probed:
        rows.append(rate("model_flops_utilization", flops / peaks.probed))
    if peaks is not None and peaks.published:
        rows.append(rate("model_flops_utilization_of_published_peak", flops / peaks.published))
    return rows


def _straggler_rows(run: RunRecord, steps: list[Step]) -> list[MetricRow]:
    lag = straggler_stats(run.by_rank, {step.step for step in steps})
    return [] if lag is None else [metric_row("straggler_ratio", lag.ratio, lag.n), metric_row("straggler_share", lag.same, lag.n)]


def _checkpoint_rows(workload: TrainingJob, run: RunRecord) -> list[MetricRow]:
    saves = steady_saves(workload, run)
    if not saves:
        return []
    size = metric_row("checkpoint_size", saves[-1].bytes, len(saves))
    if min(save.save_s for save in saves) < _SEEN_AT_ONCE_S:
        return [size]
    return [
        _median_row("checkpoint_save_time", [save.save_s for save in saves]),
        _median_row("checkpoint_blocking_time", [save.blocking_s for save in saves]),
        size,
        _median_row("checkpoint_save_bandwidth", [save.bytes / save.save_s for save in saves]),
    ]


def _median_row(metric: str, values: list[float]) -> MetricRow:
    return metric_row(metric, float(np.median(values)), len(values), ci=median_interval(values))


def steady_saves(workload: TrainingJob, run: RunRecord) -> list[CheckpointSave]:
    """The checkpoints between steady steps: not those of the warm-up, nor the one after the last step."""
    return [save for save in run.saves if not save.closing and save.step > workload.steps.discard]


def _final_check_rows(run: RunRecord) -> list[MetricRow]:
    rows = []
    loads = run.verified_loads_s
    if loads:
        rows.append(metric_row("checkpoint_load_time", float(np.median(loads)), len(loads), phase="cooldown"))
        if run.saves and np.median(loads) > 0:
            rate = run.saves[-1].bytes / float(np.median(loads))
            rows.append(metric_row("checkpoint_load_bandwidth", rate, len(loads), phase="cooldown"))
    if run.matmul_flops:
        rows.append(metric_row("device_matmul_peak", run.matmul_flops, 1, phase="cooldown"))
    return rows


MAX_CURVE_POINTS = 120
"""Points of a curve over a whole run: the document is read as a whole, and steps.parquet has every step."""
_PHASES: tuple[Phase, ...] = ("cold_start", "warmup", "steady")


def build_curves(workload: TrainingJob, run: UndisturbedRun) -> list[Curve]:
    """The curves of the undisturbed run, each in parts: a curve belongs to one phase, and a part begins where the one before it ends."""
    blocks = _blocks(run)
    curves: list[Curve] = []
    for phase in _PHASES:
        if own := [block for block in blocks if run.phase_of(block[0].step) == phase]:
            if all(step.loss is not None for block in own for step in block):
                curves.append(_loss_curve(phase, own))
            if work_per_step(workload, run.record.steps)[1] is not None:
                curves += filter(None, [_throughput_curve(workload, phase, run.record, own)])
    return [*curves, *_rank_curves(run)]


def losses_sha256(steps: Sequence[Step]) -> str:
    """Hash of each step's number and loss, bit for bit."""
    return hashlib.sha256(b"".join(struct.pack("<qd", step.step, step.loss) for step in steps if step.loss is not None)).hexdigest()


def _blocks(run: UndisturbedRun) -> list[list[Step]]:
    """Consecutive steps of one phase, so many at a time that there are no more blocks than points of a curve."""
    size = math.ceil(len(run.record.steps) / (MAX_CURVE_POINTS - len(_PHASES)))
    blocks: list[list[Step]] = []
    for step in run.record.steps:
        last = blocks[-1] if blocks else None
        if last is not None and len(last) < size and run.phase_of(last[0].step) == run.phase_of(step.step):
            last.append(step)
        else:
            blocks.append([step])
    return blocks


def _loss_curve(phase: Phase, blocks: list[list[Step]]) -> Curve:
    points = []
    for block in blocks:
        mean = sum(step.loss for step in block if step.loss is not None) / len(block)
        middle = (block[0].step + block[-1].step) / 2
        points.append(Point(at=middle, value=mean if math.isfinite(mean) else None, n=len(block)))
    return metric_curve("training_loss", "step", points, phase=phase)


def _throughput_curve(workload: TrainingJob, phase: Phase, run: RunRecord, blocks: list[list[Step]]) -> Curve | None:
    """Throughput of each block over its time, from the end of the block before it: the pauses between steps count, as they do for the run,
    but for checksums of checkpoints. None without a block that took time."""
    what, amount = work_per_step(workload, run.steps)
    assert amount is not None
    steps, checksums = run.steps, {save.step: save.checksum_s for save in run.saves}
    began = steps[0].start_s
    unseen = {step.step for step in takewhile(lambda step: not step.timed, steps)}
    before = dict(zip((step.step for step in steps[1:]), (step.end_s for step in steps), strict=False))
    points = []
    for block in blocks:
        start, end = before.get(block[0].step, began), block[-1].end_s
        took = end - start - sum(checksums.get(step.step, 0.0) for step in block)
        if took > 0 and (n := sum(step.step not in unseen for step in block)):
            points.append(Point(at=(start + end) / 2 - began, value=amount * n / took, n=n))
    return metric_curve(f"effective_{what}_per_second", "run_time", points, phase=phase) if points else None


def _rank_curves(run: UndisturbedRun) -> list[Curve]:
    """Of several ranks: each one's steady step time, and its own busy time where the wait for others is separate."""
    steady = run.steady_numbers
    ranks = {rank: [step for step in steps if step.step in steady] for rank, steps in sorted(run.record.by_rank.items())}
    if len(ranks) < 2 or not all(ranks.values()):
        return []
    curves = [metric_curve("step_time", "rank", [_median_point(rank, [s.step_s for s in steps]) for rank, steps in ranks.items()])]
    if all("gradient_sync" in step.stages for steps in ranks.values() for step in steps):
        busy = {rank: [step.step_s - step.stages["gradient_sync"] for step in steps] for rank, steps in ranks.items()}
        curves.append(metric_curve("rank_busy_time", "rank", [_median_point(rank, times) for rank, times in busy.items()]))
    return curves


def _median_point(rank: int, times: list[float]) -> Point:
    interval = median_interval(times)
    low, high = interval or (None, None)
    return Point(at=rank, value=float(np.median(times)), n=len(times), ci_low=low, ci_high=high)


def energy_rows(metrics: Sequence[MetricRow], power: Sequence[MetricRow]) -> list[MetricRow]:
    """`gpu_power` as measured (W, all nodes' GPUs together, the steady phase's mean) and `energy_per_trained_token` (J): that power over the
    steady `tokens_per_second`. None of both without meters, no second one for what is not counted in tokens. Where a node's power is missing,
    both are absent with the reason."""
    steady = next((item for item in power if item.metric == "gpu_power" and item.phase == "steady"), None)
    speed = next((item for item in metrics if (item.metric, item.phase) == ("tokens_per_second", "steady")), None)
    if steady is None or speed is None or not speed.value:
        return list(power)
    energy = None if steady.value is None else steady.value / speed.value
    return [*power, metric_row("energy_per_trained_token", energy, steady.n, phase="steady", statistic="mean", reason=steady.reason)]
