"""Everything that the workers of one trial left behind, and the questions asked of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from plumbline.declarations.training import Steps
from plumbline.harness.training.attempts import Cost, Incident, costs, joined
from plumbline.harness.training.plan import FaultPlan, RunKind, RunName, kind_of, run_name
from plumbline.harness.training.steady import settled_from
from plumbline.harness.training.steplog import RunRecord, Step


@dataclass(frozen=True)
class Recovery:
    """Where the time went between the fault and the lost step being done again, all attempts together. The parts add up to the whole."""

    detect_s: float
    launch_s: float
    load_s: float
    recompute_s: float

    @property
    def penalty_s(self) -> float:
        return self.detect_s + self.launch_s + self.load_s + self.recompute_s


@dataclass
class Records:
    """Filled in while the trial runs; parts of a trial that failed are missing. `runs` are in the order in which they were started."""

    fault: FaultPlan | None
    runs: dict[RunName, RunRecord] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    data_sha256: str | None = None

    def next_name(self, kind: RunKind) -> RunName:
        """The name of the next attempt of a kind."""
        return run_name(kind, 1 + sum(kind_of(name) == kind for name in self.runs))

    @property
    def undisturbed(self) -> RunRecord | None:
        """The run from scratch; if it broke off by itself, with the attempts that went on with it. None before it was started."""
        attempts = list(self._runs("run").values())
        return joined(attempts) if attempts else None

    def measured(self, steps: Steps) -> list[Step]:
        """The steps of the undisturbed run after the declared warm-up. After a restart as many are left out again: it is as cold."""
        run = self.undisturbed
        if run is None:
            return []
        resumed = [attempt.steps[0].step for attempt in list(self._runs("run").values())[1:] if attempt.steps]
        cold = {step for first in resumed for step in range(first, first + steps.discard)}
        return [step for step in run.steps if step.step >= steps.discard and step.step not in cold]

    def steady(self, steps: Steps) -> list[Step]:
        """Of the measured steps those from where on their time no longer changes (see `settled_from`)."""
        measured = self.measured(steps)
        return measured[settled_from([step.step_s for step in measured]) :]

    def restarts(self) -> list[Cost]:
        """What each end of an attempt cost, in their order: of the undisturbed run, which nobody planned, then of the faulted stretch."""
        found = []
        for kinds in (("run",), ("fault", "recovery")):
            incidents = [incident for incident in self.incidents if kind_of(incident.run) in kinds]
            found += costs(incidents, self._runs(*kinds))
        return found

    def recovery(self) -> Recovery | None:
        """The parts of the restart penalty of the faulted stretch; None unless what the fault broke off was done again."""
        parts = [cost for cost in self.restarts() if kind_of(cost.incident.run) != "run"]
        if not parts or not parts[-1].complete:
            return None
        return Recovery(
            detect_s=sum(cost.detect_s for cost in parts),
            launch_s=sum(cost.launch_s for cost in parts),
            load_s=sum(cost.load_s for cost in parts),
            recompute_s=sum(cost.recompute_s for cost in parts),
        )

    def goodput(self) -> tuple[float, int] | None:
        """(share of the faulted stretch's wall time that went into steps that counted, how many did); None if it was not finished.

        The stretch is one checkpoint interval: from the first step after the checkpoint to the end of the last one before the next,
        or of that next checkpoint being written. Each step counts once, however often it was done, and the lost half step not at all.
        """
        attempts = list(self._runs("fault", "recovery").values())
        if self.fault is None or not attempts or not attempts[-1].steps or attempts[-1].steps[-1].step != self.fault.until - 1:
            return None
        stretch = joined(attempts)
        began = next(attempt.at["load_end"] for attempt in attempts if "load_end" in attempt.at)
        ended = max([stretch.steps[-1].end_s, *(save.end_s for save in attempts[-1].saves)])
        checks = sum(attempt.load_checksum_s for attempt in attempts[1:])
        return sum(step.step_s for step in stretch.steps) / (ended - began - checks), len(stretch.steps)

    def diverged(self, tolerance: float = 0.0) -> list[int] | None:
        """Steps done again whose loss is not what it was the first time, to the bit or to a share; None if there is nothing to compare."""
        first: dict[int, float] = {}
        again: list[Step] = []
        for number, run in enumerate(self.runs.values()):
            again += run.steps if number else []
            for step in run.steps:
                first.setdefault(step.step, step.loss)
        if not again:
            return None
        return sorted({step.step for step in again if not math.isclose(step.loss, first[step.step], rel_tol=tolerance)})

    def _runs(self, *kinds: RunKind) -> dict[RunName, RunRecord]:
        return {name: run for name, run in self.runs.items() if kind_of(name) in kinds}
