"""What an ended attempt cost: from the moment it broke off until the step that was under way was done again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plumbline.harness.training.plan import RunName
from plumbline.harness.training.steplog import RunRecord, Step
from plumbline.results import FailureClass

Ending = Literal["rank_kill", "group_kill", "rank_hang", "checkpoint_kill", "pod_delete", "unplanned"]


@dataclass(frozen=True)
class Incident:
    """How one attempt ended before it should. Moments in monotonic seconds: when it broke off, and when that was noticed.

    Of an unplanned end nobody knows the first; it is the moment when the first process was seen to be gone. `step` was under way, or
    `inside` says that the checkpoint after it was; None of an unplanned end before the first step.
    """

    run: RunName
    ending: Ending
    began_s: float
    noticed_s: float
    step: int | None
    inside: Literal["step", "checkpoint"] = "step"
    failure_class: FailureClass = "interrupted"
    detail: str = ""

    def __str__(self) -> str:
        place = (
            "before its first step"
            if self.step is None
            else f"in the checkpoint after step {self.step}"
            if self.inside == "checkpoint"
            else f"in step {self.step}"
        )
        return f"{self.ending} of {self.run} {place}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class Cost:
    """Where the time went after one incident. The parts add up to the whole.

    `complete`: the lost step (or checkpoint) was done again; else the time until the next incident, or until the end of the trial.
    `checksum_s`: in between, what this harness took to check the checkpoint, which is no part of the cost.
    """

    incident: Incident
    after: RunName | None
    detect_s: float
    launch_s: float
    load_s: float
    recompute_s: float
    complete: bool
    checksum_s: float = 0.0

    @property
    def penalty_s(self) -> float:
        return self.detect_s + self.launch_s + self.load_s + self.recompute_s

    @property
    def ended_s(self) -> float:
        """The moment until which the parts count."""
        return self.incident.began_s + self.penalty_s + self.checksum_s


def costs(incidents: Sequence[Incident], runs: Mapping[RunName, RunRecord]) -> list[Cost]:
    """The cost of each incident of one stretch of training, whose attempts `runs` are in the order in which they were started.

    If an attempt ends before it has made up for the one before it, what it did so far was in vain and counts as a part of that
    one's cost; from there on the next attempt has to make up for both.
    """
    names = list(runs)
    found: list[Cost] = []
    lost: tuple[int, str] | None = None
    for number, incident in enumerate(incidents):
        mine = (incident.step, incident.inside) if incident.step is not None else None
        lost = max(filter(None, [mine, lost]), key=_place, default=None)
        position = names.index(incident.run) + 1
        name = names[position] if position < len(names) else None
        following = incidents[number + 1].began_s if number + 1 < len(incidents) else None
        again = _done_again(runs[name], lost) if name else None
        found.append(_cost(incident, name, runs.get(name or ""), again, following))
        if again is not None:
            lost = None
    return found


def joined(attempts: Sequence[RunRecord]) -> RunRecord:
    """Attempts of one stretch of training as the one run that they make together: of what was done twice the last time counts.

    Its launch is the first attempt's, and each rank's steps are joined like the job's. ValueError without any attempt.
    """
    if not attempts:
        raise ValueError("no attempts; expected at least one")
    first, last = attempts[0], attempts[-1]
    if first is last:
        return first
    ranks = sorted({rank for attempt in attempts for rank in attempt.by_rank})
    return replace(
        last,
        launched_s=first.launched_s,
        at={name: at for attempt in attempts for name, at in attempt.at.items()},
        steps=_last_of_each([attempt.steps for attempt in attempts]),
        by_rank={rank: _last_of_each([attempt.by_rank.get(rank, []) for attempt in attempts]) for rank in ranks},
        saves=[save for _, save in sorted({save.step: save for attempt in attempts for save in attempt.saves}.items())],
        rejected=[reason for attempt in attempts for reason in attempt.rejected],
        compiled_s=first.compiled_s,
        skipped=sorted({step for attempt in attempts for step in attempt.skipped}),
        facts=first.facts or last.facts,
    )


def _last_of_each(attempts: Sequence[Sequence[Step]]) -> list[Step]:
    return [step for _, step in sorted({step.step: step for steps in attempts for step in steps}.items())]


def _place(lost: tuple[int, str]) -> tuple[int, bool]:
    return lost[0], lost[1] == "checkpoint"


def _done_again(run: RunRecord, lost: tuple[int, str] | None) -> float | None:
    """When the run had done what was lost; without anything lost, when it had done its first step."""
    if lost is None:
        return run.steps[0].end_s if run.steps else None
    number, inside = lost
    if inside == "checkpoint":
        return next((save.end_s for save in run.saves if save.step == number + 1), None)
    return next((step.end_s for step in run.steps if step.step == number), None)


def _cost(incident: Incident, name: RunName | None, run: RunRecord | None, again: float | None, following: float | None) -> Cost:
    detect = incident.noticed_s - incident.began_s
    until = again if again is not None else following
    if run is None:
        return Cost(incident, None, detect, 0.0, 0.0, 0.0, complete=False)
    if until is None:  # the trial ended in it: what is known of it counts
        until = max([incident.noticed_s, run.launched_s, *run.at.values(), *(step.end_s for step in run.steps)])
    # An attempt from scratch loads nothing: its launch ends where its first step begins.
    begin = min(run.at.get("load_begin", run.steps[0].start_s if run.steps else until), until)
    loaded = min(run.at.get("load_end", begin if run.steps or "load_begin" not in run.at else until), until)
    checksum_s = min(run.load_checksum_s, loaded - begin)
    load = loaded - begin - checksum_s
    return Cost(incident, name, detect, begin - incident.noticed_s, load, until - loaded, again is not None, checksum_s)
