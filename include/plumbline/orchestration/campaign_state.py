"""What a campaign that is being measured looks like from outside: each trial, and how long the rest may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Literal

from plumbline.declarations import Trial
from plumbline.harness.progress import ProgressLine
from plumbline.orchestration.airflow_client import TaskInstance

Phase = Literal["waiting", "running", "measured", "failed", "not_run"]
Stage = Literal["starting", "measuring", "reviewing", "reporting", "done"]


@dataclass(frozen=True)
class TrialState:
    """One planned trial. `fraction` (0…1), `doing` and `note` tell of a running one; `seconds`: how long it ran, or runs so far.

    `status`: the verdict of the result document once it is collected (valid, degraded, invalid, failed).
    """

    trial_id: str
    provider: str
    kind: str
    workload: str
    slot: str
    repeat: int
    phase: Phase = "waiting"
    fraction: float = 0.0
    doing: str = ""
    note: str = ""
    seconds: float | None = None
    status: str | None = None

    @classmethod
    def of(cls, trial: Trial) -> TrialState:
        """A planned trial before anything happened to it."""
        return cls(trial.trial_id, trial.provider.name, trial.workload.kind, trial.workload.name, trial.slot, trial.repeat)

    @property
    def ended(self) -> bool:
        return self.phase not in ("waiting", "running")

    def after(self, task: TaskInstance | None, progress: ProgressLine | None, now: datetime) -> TrialState:
        """The same trial by what Airflow says of its `run` task (None: not there yet) and what the trial itself says."""
        ran = ((task.ended_at or now) - task.started_at).total_seconds() if task and task.started_at else None
        if task and task.state == "success":
            return replace(self, phase="measured", fraction=1.0, doing="", note="", seconds=ran)
        if task and task.state == "failed":
            return replace(self, phase="failed", doing="", note="", seconds=ran)
        if task and task.ended:
            return replace(self, phase="not_run", doing="", note="")
        if progress is None:
            if task is None:
                return self
            if task.state != "running":
                return replace(self, phase="waiting", fraction=0.0, doing="again" if task.try_number > 1 else "", note="", seconds=None)
            return replace(self, phase="running", doing=self.doing or "starting", seconds=ran)
        # A trial that reports runs, whatever Airflow said when it was last asked: that may be many seconds ago.
        return replace(self, phase="running", fraction=progress.fraction, doing=progress.phase, note=progress.note, seconds=ran)


@dataclass(frozen=True)
class CampaignState:
    """A moment of the campaign. `seconds_left`: an estimate for the trials that are left, None until the first one has ended."""

    campaign_id: str
    stage: Stage
    trials: tuple[TrialState, ...]
    seconds_left: float | None = None

    @property
    def ended(self) -> int:
        """Trials that are over, however they ended."""
        return sum(trial.ended for trial in self.trials)

    @property
    def running(self) -> tuple[TrialState, ...]:
        return tuple(trial for trial in self.trials if trial.phase == "running")


def observed(
    trials: Sequence[TrialState],
    runs: Mapping[str, TaskInstance],
    progress: Mapping[str, ProgressLine | None],
    now: datetime | None = None,
) -> tuple[TrialState, ...]:
    """Every trial by the newest of its `run` task and its progress, both by trial id."""
    moment = now or datetime.now(timezone.utc)
    return tuple(t.after(runs.get(t.trial_id), progress.get(t.trial_id), moment) for t in trials)


def seconds_left(trials: Sequence[TrialState], since_first: float | None) -> float | None:
    """Time until the last trial ends, from those that ended: each trial like the others of its workload, else like all of them.

    `since_first`: seconds since the first trial began. What passed between trials (queueing, collecting) is expected to go on.
    """
    done = [t for t in trials if t.phase in ("measured", "failed") and t.seconds is not None]
    if not done or since_first is None:
        return None
    busy = sum(t.seconds or 0.0 for t in trials)
    overhead = max(since_first / busy, 1.0) if busy else 1.0
    return overhead * sum(_left(t, done) for t in trials if not t.ended)


def _left(trial: TrialState, done: Sequence[TrialState]) -> float:
    alike = [t for t in done if t.workload == trial.workload and t.provider == trial.provider]
    alike = alike or [t for t in done if t.workload == trial.workload] or list(done)
    expected = sum(t.seconds or 0.0 for t in alike) / len(alike)
    return max(expected - (trial.seconds or 0.0), expected * (1 - trial.fraction) * 0.1, 0.0)
