"""The steps of all ranks as the steps of the job, and which rank holds the others up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from plumbline.harness.training.steplog import Step


def of_the_job(by_rank: Mapping[int, Sequence[Step]]) -> list[Step]:
    """One step of the job for each that every rank has done, from the steps of each rank (rank 0 among them).

    Gradients synchronise the ranks in every step, so the job's step is the time between two ends of it on one clock, rank 0's: other nodes'
    clocks are not ours, and the longest times of different ranks add up to more than the wall time. Its stages are those of the rank that
    the others waited for, the one that was busiest itself; its loss is the mean over the ranks.
    """
    numbered = {rank: {step.step: step for step in steps} for rank, steps in sorted(by_rank.items())}
    together = []
    for ours in by_rank[0]:
        theirs = [steps[ours.step] for steps in numbered.values() if ours.step in steps]
        if len(theirs) < len(numbered):
            continue
        # Always in the order of the ranks: the same losses give the same mean, to the bit.
        loss = sum(step.loss for step in theirs) / len(theirs)
        together.append(replace(ours, stages=max(theirs, key=_busy_s).stages, loss=loss))
    return together


def most(of_ranks: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Of each figure the largest of all ranks; without what one of them could not tell."""
    names = set.intersection(*map(set, of_ranks)) if of_ranks else set[str]()
    return {name: max(figures[name] for figures in of_ranks) for name in sorted(names)}


def _busy_s(step: Step) -> float:
    """What a rank's step took less its wait for other ranks, where that is told apart."""
    return step.step_s - step.stages.get("gradient_sync", 0.0)


@dataclass(frozen=True)
class Straggling:
    """How far ranks lag: the slowest rank's median over the median of all ranks' medians, and the share of steps in which the same rank,
    the one most often, was slowest. `n`: steps that all ranks did."""

    ratio: float
    same: float
    rank: int
    n: int


def straggling(by_rank: Mapping[int, Sequence[Step]], among: set[int]) -> Straggling | None:
    """Of the steps `among`; None with less than two ranks, or without such a step.

    A rank is as slow as its own work: where the wait for others is told apart (`gradient_sync`) it is left out, since all ranks' steps
    together take the same time whoever is slow.
    """
    numbered = {rank: {step.step: _busy_s(step) for step in steps if step.step in among} for rank, steps in sorted(by_rank.items())}
    common = sorted(set.intersection(*map(set, numbered.values()))) if numbered else []
    if len(numbered) < 2 or not common:
        return None
    medians = {rank: median(steps[number] for number in common) for rank, steps in numbered.items()}
    slowest = Counter(max(numbered, key=lambda rank: numbered[rank][number]) for number in common)
    rank, times = slowest.most_common(1)[0]
    return Straggling(max(medians.values()) / median(medians.values()), times / len(common), rank, len(common))
