"""How a training went along its way: the loss over its steps, the throughput over its time, the step time over its ranks."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Sequence

import numpy as np

from plumbline.declarations import METRICS
from plumbline.declarations.phases import Phase
from plumbline.declarations.training import TrainingWorkload
from plumbline.harness.training.rates import work_per_step
from plumbline.harness.training.records import Records
from plumbline.harness.training.steady import median_interval
from plumbline.harness.training.steplog import RunRecord, Step
from plumbline.results import Curve, Point

MOST_POINTS = 120
"""Points of a curve over a whole run: the document is read as a whole, and steps.parquet has every step."""
_PHASES: tuple[Phase, ...] = ("cold_start", "warmup", "steady")


def curves(workload: TrainingWorkload, records: Records) -> list[Curve]:
    """The curves of the undisturbed run, each in parts: a curve belongs to one phase, and a part begins where the one before it ends."""
    run = records.undisturbed
    if run is None or not run.steps:
        return []
    steady = {step.step for step in records.steady(workload.steps)}
    blocks = _blocks(run.steps, steady)
    found: list[Curve] = []
    for phase in _PHASES:
        own = [block for block in blocks if phase_of(block[0].step, steady) == phase]
        if own:
            found += [_loss(phase, own), _throughput(workload, phase, run, own)]
    return [*found, *_by_rank(run, steady)]


def phase_of(step: int, steady: set[int]) -> Phase:
    """What a step of the undisturbed run is part of: the first one is cold, and what is not steady is warm-up."""
    return "steady" if step in steady else "warmup" if step else "cold_start"


def losses_sha256(steps: Sequence[Step]) -> str:
    """What two runs with the same losses share: the hash of each step's number and loss, bit for bit."""
    return hashlib.sha256(b"".join(struct.pack("<qd", step.step, step.loss) for step in steps)).hexdigest()


def _blocks(steps: Sequence[Step], steady: set[int]) -> list[list[Step]]:
    """Consecutive steps of one phase, so many at a time that there are no more blocks than points of a curve."""
    size = math.ceil(len(steps) / (MOST_POINTS - len(_PHASES)))
    found: list[list[Step]] = []
    for step in steps:
        last = found[-1] if found else None
        if last is not None and len(last) < size and phase_of(last[0].step, steady) == phase_of(step.step, steady):
            last.append(step)
        else:
            found.append([step])
    return found


def _curve(phase: Phase, along: str, metric: str, points: list[Point]) -> Curve:
    known = METRICS[metric]
    return Curve.model_validate(
        {"phase": phase, "along": along, "metric": metric, "statistic": known.statistic, "unit": known.unit, "points": tuple(points)}
    )


def _loss(phase: Phase, blocks: list[list[Step]]) -> Curve:
    """The mean loss of each block, at the middle of its steps; absent where a loss is no number."""
    points = []
    for block in blocks:
        mean = sum(step.loss for step in block) / len(block)
        middle = (block[0].step + block[-1].step) / 2
        points.append(Point(at=middle, value=mean if math.isfinite(mean) else None, n=len(block)))
    return _curve(phase, "step", "training_loss", points)


def _throughput(workload: TrainingWorkload, phase: Phase, run: RunRecord, blocks: list[list[Step]]) -> Curve:
    """What each block got done over its time, from the end of the block before it: the pauses between steps count, as they do for the run,
    but for checksums of checkpoints."""
    what, amount = work_per_step(workload)
    steps, checksums = run.steps, {save.step: save.checksum_s for save in run.saves}
    began = steps[0].start_s
    before = dict(zip((step.step for step in steps[1:]), (step.end_s for step in steps), strict=False))
    points = []
    for block in blocks:
        start, end = before.get(block[0].step, began), block[-1].end_s
        took = end - start - sum(checksums.get(step.step, 0.0) for step in block)
        points.append(Point(at=(start + end) / 2 - began, value=amount * len(block) / took, n=len(block)))
    return _curve(phase, "run_time", f"effective_{what}_per_second", points)


def _by_rank(run: RunRecord, steady: set[int]) -> list[Curve]:
    """Of several ranks, each one's steady step time, and what it was busy with itself where waiting for the others is told apart."""
    ranks = {rank: [step for step in steps if step.step in steady] for rank, steps in sorted(run.by_rank.items())}
    if len(ranks) < 2 or not all(ranks.values()):
        return []
    found = [_curve("steady", "rank", "step_time", [_median(rank, [s.step_s for s in steps]) for rank, steps in ranks.items()])]
    if all("gradient_sync" in step.stages for steps in ranks.values() for step in steps):
        busy = {rank: [step.step_s - step.stages["gradient_sync"] for step in steps] for rank, steps in ranks.items()}
        found.append(_curve("steady", "rank", "rank_busy_time", [_median(rank, times) for rank, times in busy.items()]))
    return found


def _median(rank: int, times: list[float]) -> Point:
    interval = median_interval(times)
    low, high = interval or (None, None)
    return Point(at=rank, value=float(np.median(times)), n=len(times), ci_low=low, ci_high=high)
