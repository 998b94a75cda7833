"""The steps of all ranks as the steps of the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plumbline.harness.training.steplog import Step


def of_the_job(by_rank: Mapping[int, Sequence[Step]]) -> list[Step]:
    """One step of the job for each that every rank has done, from the steps of each rank (rank 0 among them).

    A step takes as long as its slowest rank, and its parts are those of that rank; its loss is the mean over the ranks. It ends when
    rank 0's does: other nodes' clocks are not ours.
    """
    numbered = {rank: {step.step: step for step in steps} for rank, steps in sorted(by_rank.items())}
    together = []
    for ours in by_rank[0]:
        theirs = [steps[ours.step] for steps in numbered.values() if ours.step in steps]
        if len(theirs) < len(numbered):
            continue
        slowest = max(theirs, key=lambda step: step.step_s)
        # Always in the order of the ranks: the same losses give the same mean, to the bit.
        loss = sum(step.loss for step in theirs) / len(theirs)
        together.append(replace(slowest, start_s=ours.end_s - slowest.step_s, end_s=ours.end_s, loss=loss))
    return together
