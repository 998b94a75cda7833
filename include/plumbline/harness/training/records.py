"""Everything that the workers of one trial left behind, and the questions asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from plumbline.declarations.training import Steps
from plumbline.harness.training.plan import FaultPlan, RunName
from plumbline.harness.training.steplog import RunRecord, Step


@dataclass(frozen=True)
class Restart:
    """Moments (monotonic seconds) that only the supervisor saw: the kill, and the death of the process being noticed."""

    killed_s: float
    detected_s: float


@dataclass(frozen=True)
class Recovery:
    """Where the time went between the kill and the killed step being done again. The parts add up to the whole."""

    detect_s: float
    launch_s: float
    load_s: float
    recompute_s: float

    @property
    def penalty_s(self) -> float:
        return self.detect_s + self.launch_s + self.load_s + self.recompute_s


@dataclass
class Records:
    """Filled in while the trial runs; parts of a trial that failed are missing."""

    fault: FaultPlan | None
    runs: dict[RunName, RunRecord] = field(default_factory=dict)
    restart: Restart | None = None
    data_sha256: str | None = None

    def steady(self, steps: Steps) -> list[Step]:
        """The measured steps of the undisturbed run."""
        run = self.runs.get("run")
        return [step for step in run.steps if step.step >= steps.discard] if run else []

    def recovery(self) -> Recovery | None:
        """The parts of the restart penalty; None unless the killed step was done again."""
        run = self.runs.get("recovery")
        if run is None or self.restart is None or self.fault is None:
            return None
        again = next((step for step in run.steps if step.step == self.fault.kill_in), None)
        if again is None:
            return None
        begin, end = run.at["load_begin"], run.at["load_end"]
        return Recovery(
            detect_s=self.restart.detected_s - self.restart.killed_s,
            launch_s=begin - self.restart.detected_s,
            load_s=end - begin,
            recompute_s=again.end_s - end,
        )

    def goodput(self) -> tuple[float, int] | None:
        """(share of the faulted stretch's wall time that went into steps that counted, how many did); None if it was not finished.

        The stretch is one checkpoint interval: from the first step after the checkpoint to the end of the last one before the next,
        or of that next checkpoint being written. Each step counts once, and the lost half step not at all.
        """
        before, after = self.runs.get("fault"), self.runs.get("recovery")
        if self.fault is None or before is None or after is None or not after.steps or after.steps[-1].step != self.fault.until - 1:
            return None
        began = before.at["load_end"]
        ended = max(after.steps[-1].end_s, *(save.end_s for save in after.saves)) if after.saves else after.steps[-1].end_s
        return sum(step.step_s for step in after.steps) / (ended - began), len(after.steps)

    def diverged(self) -> list[int] | None:
        """Steps of the faulted stretch whose loss differs in any bit from the undisturbed run's; None if there is nothing to compare."""
        reference = {step.step: step.loss for step in self.runs["run"].steps} if "run" in self.runs else {}
        resumed = [step for name in ("fault", "recovery") if name in self.runs for step in self.runs[name].steps]
        if not resumed:
            return None
        return sorted({step.step for step in resumed if step.loss != reference.get(step.step)})
