"""The lanes of a benchmark DAG: training and inference apart, and what needs several nodes apart from what needs one."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.declarations import Declarations, Provider, Trial
from plumbline.declarations.loader import AnyWorkload


@dataclass(frozen=True)
class Lane:
    """Trials of one kind that are launched by one operator. `name` is the task group's."""

    name: str
    kind: str
    gang: bool = False

    def takes(self, workload: AnyWorkload) -> bool:
        """Whether trials of the workload run in this lane."""
        return workload.kind == self.kind and (workload.nodes > 1) == self.gang

    def of(self, trials: list[Trial]) -> list[Trial]:
        """Those of the trials that run in this lane, in their order: a task's map index counts them."""
        return [trial for trial in trials if self.takes(trial.workload)]


TRAINING, INFERENCE = Lane("training", "training"), Lane("inference", "inference")
GANG = Lane("training_gang", "training", gang=True)
LANES = {lane.name: lane for lane in (TRAINING, INFERENCE, GANG)}


def lanes_of(declared: Declarations, provider: Provider) -> tuple[Lane, ...]:
    """The provider's lanes; the one for gangs only where a declared workload needs several nodes of it."""
    gangs = any(GANG.takes(workload) for workload in declared.workloads_for(provider))
    return (TRAINING, INFERENCE, GANG) if gangs else (TRAINING, INFERENCE)
