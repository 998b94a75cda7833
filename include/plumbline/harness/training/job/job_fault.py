"""What a fault does to a training job: it strikes a held step, and may continue the trial in another process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plumbline.declarations import Trial
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.measurement import TrialJudgement
from plumbline.harness.persistent_state import PersistentState
from plumbline.harness.training.analysis.records import TrainingRecords
from plumbline.harness.training.fault import FaultKind, fault_kind
from plumbline.harness.training.job.job import Job
from plumbline.harness.training.plan import FaultPlan
from plumbline.harness.training.worker_protocol import RunName


@dataclass(frozen=True)
class HeldAttempt:
    """The attempt that waits for its end, and the step that it is in."""

    run: RunName
    step: int


@dataclass(frozen=True)
class HeldTrial:
    """A trial whose job is held at the fault's step.

    `fraction`: of the measurement's progress. `shifts_s`: of earlier processes' runs, from their log's clock to ours. `report`: a note for people.
    """

    trial: Trial
    job: Job
    attempt: HeldAttempt
    records: TrainingRecords
    monitor: ContentionMonitor
    state: PersistentState | None
    fraction: float
    shifts_s: Mapping[RunName, float]
    report: Callable[[str], None]


@dataclass(frozen=True)
class ResumedTrial:
    """State of a later process. `fraction`: of the measurement's progress. `shifts_s`: offset of each run's log to this one's monotonic clock."""

    records: TrainingRecords
    fraction: float
    shifts_s: dict[RunName, float]


class JobFault(FaultKind, ABC):
    """A kind of fault as a training job meets it."""

    @abstractmethod
    def strike(self, held: HeldTrial) -> tuple[float, float]:
        """Inject the fault; the moments of injection and detection in monotonic seconds. TrialFailed if it cannot be injected."""

    def resume(
        self, state: PersistentState, fault: FaultPlan, ranks: int, started_s: float, *, script: bool = False
    ) -> ResumedTrial | None:
        """What earlier processes of the trial did, on this one's clock; None where the fault leaves the process."""
        return None

    def judge(self, records: TrainingRecords, state: PersistentState | None) -> Sequence[TrialJudgement]:
        """Judgements on the fault itself."""
        return ()


def job_fault(name: str) -> JobFault:
    """The kind of a declared fault. LookupError without its file."""
    kind = fault_kind(name)
    if not isinstance(kind, JobFault):
        raise LookupError(f"the fault {name} is none of a training job")
    return kind
