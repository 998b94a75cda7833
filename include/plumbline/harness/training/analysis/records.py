"""Records of a trial's worker processes: steps of all ranks, interrupted attempts and their cost, and where the steady state begins."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Literal

import numpy as np
import numpy.typing as npt

from plumbline.declarations.workloads.training import Steps
from plumbline.harness.training.plan import FaultPlan
from plumbline.harness.training.script.data import PlacedData
from plumbline.harness.training.worker_protocol import RunKind, RunName, RunRecord, Step, attempt_name, run_kind
from plumbline.metrics import Phase
from plumbline.metrics.quantiles import interval
from plumbline.results import FailureClass

_TREND_BLOCKS = 5
_TREND_MIN_STEPS = 45
_TREND_MIN_CHANGE = 0.05
_STEADY_BLOCK = 5
_STEADY_MIN_STEPS = 45
_STEADY_MIN_BLOCKS = 6
_STEADY_OVERLAP = 0.05
_SEEN_LATE_S = 0.15
"""By how much the beginning of a checkpoint that is seen from its files may be wrong."""


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """95 % confidence interval of the median from order statistics; None if there are too few values for that confidence."""
    return interval(np.sort(np.asarray(values, dtype=np.float64)), 0.5)


def clear_trend(values: Sequence[float]) -> float | None:
    """Relative change from the first third to the last third of a series, if it is clear; else None.

    Clear means: at least 5 %, and the medians of five blocks of either third do not overlap (by chance in 2 of 252 orders, also
    when neighbouring values resemble each other within a block). Too few values to say are no trend.
    """
    n = len(values)
    if n < _TREND_MIN_STEPS:
        return None
    third = n // 3
    first, last = (
        [float(np.median(block)) for block in np.array_split(np.asarray(part), _TREND_BLOCKS)] for part in (values[:third], values[-third:])
    )
    change = float(np.median(values[-third:]) / np.median(values[:third])) - 1.0
    apart = max(first) < min(last) or max(last) < min(first)
    return change if apart and abs(change) >= _TREND_MIN_CHANGE else None


def steady_from(values: Sequence[float]) -> int:
    """Values before the steady state of a series; 0 if there are too few to decide.

    MSER-5 (White 1997), robust to bursts: blocks of 5 values by their medians; of all cuts that leave 6 blocks, the one with the least sum of
    squared deviations over the squared number of remaining blocks. A cut counts only if its part is clearly different: its median is 5 % away,
    and at most 1 in 20 blocks of either side is beyond the other's median. So a burst in the middle cuts nothing, and noise seldom more than a
    block or two."""
    n = len(values)
    if n < _STEADY_MIN_STEPS:
        return 0
    count = n // _STEADY_BLOCK
    first = n - count * _STEADY_BLOCK  # what is over belongs to the first block: it is the one in doubt
    blocks = np.median(np.asarray(values[first:]).reshape(count, _STEADY_BLOCK), axis=1)
    cuts = [cut for cut in range(count - _STEADY_MIN_BLOCKS + 1) if cut == 0 or _differ_clearly(blocks[:cut], blocks[cut:])]
    best = min(cuts, key=lambda cut: float(np.var(blocks[cut:])) / (count - cut))
    return first + best * _STEADY_BLOCK if best else 0


def _differ_clearly(head: npt.NDArray[np.float64], rest: npt.NDArray[np.float64]) -> bool:
    middle, usual = float(np.median(head)), float(np.median(rest))
    slower = middle > usual
    mixed = max(float(np.mean((rest >= middle) == slower)), float(np.mean((head <= usual) == slower)))
    return abs(middle / usual - 1.0) >= _TREND_MIN_CHANGE and mixed <= _STEADY_OVERLAP


UNPLANNED = "unplanned"
"""The ending of an attempt that no declared fault ended."""


@dataclass(frozen=True)
class TrainingIncident:
    """An attempt's early end. Monotonic seconds of the end and of its detection; of an unplanned end the first is when a process was seen gone.

    `ending`: the declared fault, or `UNPLANNED`. `step` was running, or with `inside` the checkpoint after it; None for an unplanned end before the first step."""

    run: RunName
    ending: str
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


COST_PARTS = ("detect_s", "launch_s", "load_s", "recompute_s")


@dataclass(frozen=True)
class RestartCost:
    """Cost of one incident in parts that add up.

    `complete`: the lost step (or checkpoint) was repeated; else the time until the next incident, or until the end of the trial.
    `checksum_s`: of this harness's own, its check of the checkpoint and its start of a script, which is not part of the cost."""

    incident: TrainingIncident
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
        return self.incident.began_s + self.penalty_s + self.checksum_s


def restart_costs(incidents: Sequence[TrainingIncident], runs: Mapping[RunName, RunRecord]) -> list[RestartCost]:
    """The cost of each incident of one stretch of training, whose attempts `runs` are in the order in which they were started.

    If an attempt ends before it has made up for the one before it, what it did so far was in vain and counts as a part of that
    one's cost; from there on the next attempt has to make up for both.
    """
    names = list(runs)
    costs: list[RestartCost] = []
    lost: tuple[int, str] | None = None
    for number, incident in enumerate(incidents):
        mine = (incident.step, incident.inside) if incident.step is not None else None
        lost = max(filter(None, [mine, lost]), key=_progress_order, default=None)
        position = names.index(incident.run) + 1
        name = names[position] if position < len(names) else None
        following = incidents[number + 1].began_s if number + 1 < len(incidents) else None
        again = _redone_at(runs[name], lost) if name else None
        costs.append(_restart_cost(incident, name, runs.get(name or ""), again, following))
        if again is not None:
            lost = None
    return costs


def join_attempts(attempts: Sequence[RunRecord]) -> RunRecord:
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
        steps=_last_of_each_step([attempt.steps for attempt in attempts]),
        by_rank={rank: _last_of_each_step([attempt.by_rank.get(rank, []) for attempt in attempts]) for rank in ranks},
        saves=[save for _, save in sorted({save.step: save for attempt in attempts for save in attempt.saves}.items())],
        rejected=[reason for attempt in attempts for reason in attempt.rejected],
        compiled_s=first.compiled_s,
        first_start_known=first.first_start_known,
        skipped=sorted({step for attempt in attempts for step in attempt.skipped}),
        facts=first.facts or last.facts,
    )


def _last_of_each_step(attempts: Sequence[Sequence[Step]]) -> list[Step]:
    return [step for _, step in sorted({step.step: step for steps in attempts for step in steps}.items())]


def _progress_order(lost: tuple[int, str]) -> tuple[int, bool]:
    return lost[0], lost[1] == "checkpoint"


def _redone_at(run: RunRecord, lost: tuple[int, str] | None) -> float | None:
    if lost is None:
        return run.steps[0].end_s if run.steps else None
    number, inside = lost
    if inside == "checkpoint":
        return next((save.end_s for save in run.saves if save.step == number + 1), None)
    return next((step.end_s for step in run.steps if step.step == number), None)


def _restart_cost(
    incident: TrainingIncident, name: RunName | None, run: RunRecord | None, again: float | None, following: float | None
) -> RestartCost:
    detect = incident.noticed_s - incident.began_s
    until = again if again is not None else following
    if run is None:
        return RestartCost(incident, None, detect, 0.0, 0.0, 0.0, complete=False)
    if until is None:  # the trial ended in it: what is known of it counts
        until = max([incident.noticed_s, run.launched_s, *run.at.values(), *(step.end_s for step in run.steps)])
    # An attempt from scratch loads nothing: its launch ends where its first step begins.
    begin = min(run.at.get("load_begin", run.steps[0].start_s if run.steps else until), until)
    loaded = min(run.at.get("load_end", begin if run.steps or "load_begin" not in run.at else until), until)
    checksum_s = min(run.load_checksum_s, loaded - begin)
    load, launch = loaded - begin - checksum_s, begin - incident.noticed_s
    overhead_s = min(run.overhead_s, launch)
    return RestartCost(incident, name, detect, launch - overhead_s, load, until - loaded, again is not None, checksum_s + overhead_s)


def merge_ranks(by_rank: Mapping[int, Sequence[Step]]) -> list[Step]:
    """One step of the job for each that every rank has done, from the steps of each rank.

    Gradients synchronise the ranks in every step, so the job's step is the time between two ends of it on one clock, the first rank's: other nodes'
    clocks are not ours, and the longest times of different ranks add up to more than the wall time. Its stages are those of the rank that
    the others waited for, the one that was busiest itself; its loss is the mean over the ranks.
    """
    numbered = {rank: {step.step: step for step in steps} for rank, steps in sorted(by_rank.items())}
    together = []
    for ours in by_rank[min(by_rank)]:
        theirs = [steps[ours.step] for steps in numbered.values() if ours.step in steps]
        if len(theirs) < len(numbered):
            continue
        # Always in the order of the ranks: the same losses give the same mean, to the bit.
        losses = [step.loss for step in theirs if step.loss is not None]
        loss = sum(losses) / len(losses) if losses else None
        together.append(replace(ours, stages=max(theirs, key=_busy_s).stages, loss=loss))
    return together


def adopt_script(record: RunRecord, by_rank: dict[int, RunRecord]) -> None:
    """Make `record`, of rank 0, the record of a script's run: the first rank that reports steps speaks for the job, and those that report
    none are left out of `by_rank`."""
    record.outside = sorted({path for each in by_rank.values() for path in each.outside})
    record.silent = [rank for rank, each in by_rank.items() if not each.steps]
    for rank in record.silent[: len(by_rank) - 1]:
        del by_rank[rank]
    leader = next(iter(by_rank.values()))
    if leader is not record:
        record.steps, record.saves, record.at = leader.steps, record.saves or leader.saves, {**record.at, **leader.at}
        record.launched_s = leader.launched_s  # on its clock
    set_saves_apart(record)


def set_saves_apart(record: RunRecord) -> None:
    """Take the checkpoints of a script out of its steps: one that was written inside a step (or between two) held training up, one that
    was written during several did not. A step around a checkpoint has no second time: what its two sources say of the pause may differ."""
    steps, ends = record.steps, [step.end_s for step in record.steps]
    for number, save in enumerate(record.saves):
        began = save.end_s - save.save_s
        # From the first step that ends after the save began to the first one that ends after it ended.
        touched = range(bisect_right(ends, began), min(bisect_left(ends, save.end_s) + 1, len(ends)))
        overlaps = {at: max(min(ends[at], save.end_s) - max(steps[at].start_s, began), 0.0) for at in touched}
        most = max(overlaps, key=lambda at: overlaps[at], default=None)
        if most is not None and sum(overlaps.values()) - overlaps[most] > _SEEN_LATE_S:
            record.saves[number] = replace(save, blocking_s=0.0)
        elif most is not None:
            steps[most] = replace(steps[most], start_s=steps[most].start_s + overlaps[most])
        for at in touched:
            steps[at] = replace(steps[at], other_s=None)


def max_over_ranks(of_ranks: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The largest of each figure over all ranks; without figures that a rank lacks."""
    names = set.intersection(*map(set, of_ranks)) if of_ranks else set[str]()
    return {name: max(figures[name] for figures in of_ranks) for name in sorted(names)}


def _busy_s(step: Step) -> float:
    return step.step_s - step.stages.get("gradient_sync", 0.0)


@dataclass(frozen=True)
class StragglerStats:
    """How far ranks lag: the slowest rank's median over the median of all ranks' medians, and the share of steps in which the same rank,
    the one most often, was slowest. `n`: steps that all ranks did."""

    ratio: float
    same: float
    rank: int
    n: int


def straggler_stats(by_rank: Mapping[int, Sequence[Step]], among: set[int]) -> StragglerStats | None:
    """Over the steps `among`; None with less than two ranks, or without such a step that took time.

    The separately measured wait for others (`gradient_sync`) does not count: all ranks' steps together take the same time."""
    numbered = {rank: {step.step: _busy_s(step) for step in steps if step.step in among} for rank, steps in sorted(by_rank.items())}
    common = sorted(set.intersection(*map(set, numbered.values()))) if numbered else []
    if len(numbered) < 2 or not common:
        return None
    medians = {rank: median(steps[number] for number in common) for rank, steps in numbered.items()}
    slowest = Counter(max(numbered, key=lambda rank: numbered[rank][number]) for number in common)
    rank, times = slowest.most_common(1)[0]
    usual = median(medians.values())
    return StragglerStats(max(medians.values()) / usual, times / len(common), rank, len(common)) if usual > 0 else None


@dataclass(frozen=True)
class UndisturbedRun:
    """The run from scratch; if it broke off by itself, with the attempts that went on with it. Before it was started its record is empty.

    `measured`: its steps after the declared warm-up that have a time of their own. After a restart as many are left out again: it is as
    cold. `steady`: of these those from where on their time no longer changes (see `steady_from`)."""

    record: RunRecord
    measured: list[Step]
    steady: list[Step]

    @classmethod
    def of(cls, attempts: Sequence[RunRecord], declared: Steps) -> UndisturbedRun:
        record = join_attempts(attempts or [RunRecord(launched_s=math.nan)])
        resumed = [attempt.steps[0].step for attempt in attempts[1:] if attempt.steps]
        cold = {step for first in resumed for step in range(first, first + declared.discard)}
        timed = [step for step in record.steps if step.timed and step.step_s > 0]
        measured = [step for step in timed if step.step >= declared.discard and step.step not in cold]
        return cls(record, measured, measured[steady_from([step.step_s for step in measured]) :])

    @cached_property
    def steady_numbers(self) -> frozenset[int]:
        return frozenset(step.step for step in self.steady)

    def phase_of(self, step: int) -> Phase:
        """The first step is cold, and what is not steady is warm-up."""
        return "steady" if step in self.steady_numbers else "warmup" if step else "cold_start"


@dataclass
class TrainingRecords:
    """Filled in while the trial runs; parts of a trial that failed are missing. `runs` are in the order in which they were started."""

    fault: FaultPlan | None
    runs: dict[RunName, RunRecord] = field(default_factory=dict)
    incidents: list[TrainingIncident] = field(default_factory=list)
    data_sha256: str | None = None
    placed: PlacedData | None = None

    def next_name(self, kind: RunKind) -> RunName:
        return attempt_name(kind, 1 + sum(run_kind(name) == kind for name in self.runs))

    def undisturbed(self, declared: Steps) -> UndisturbedRun:
        return UndisturbedRun.of(list(self._runs("run").values()), declared)

    def restarts(self) -> list[RestartCost]:
        """Cost of each early end, in order: of the undisturbed run, then of the faulted stretch."""
        costs = []
        for kinds in (("run",), ("fault", "recovery")):
            incidents = [incident for incident in self.incidents if run_kind(incident.run) in kinds]
            costs += restart_costs(incidents, self._runs(*kinds))
        return costs

    def recovery(self) -> dict[str, float] | None:
        """Seconds of each of COST_PARTS between the fault and the lost step being done again, all attempts together; None unless what the
        fault broke off was done again."""
        costs = [cost for cost in self.restarts() if run_kind(cost.incident.run) != "run"]
        if not costs or not costs[-1].complete:
            return None
        return {part: sum(getattr(cost, part) for cost in costs) for part in COST_PARTS}

    def goodput(self) -> tuple[float, int] | None:
        """(share of the faulted stretch's wall time that went into steps that counted, how many did); None if it was not finished.

        The stretch is one checkpoint interval: from the first step after the checkpoint to the end of the last one before the next,
        or of that next checkpoint being written. Each step counts once, however often it was done, and the lost half step not at all.
        """
        attempts = list(self._runs("fault", "recovery").values())
        if self.fault is None or not attempts or not attempts[-1].steps or attempts[-1].steps[-1].step != self.fault.until - 1:
            return None
        first, stretch = attempts[0], join_attempts(attempts)
        counted = [step for step in stretch.steps if step.step >= self.fault.resume_from]
        # A script's first attempt begins from scratch: what counts begins with its first step after the checkpoint.
        before = [*(step.end_s for step in first.steps if step.step < self.fault.resume_from)]
        before += [save.end_s for save in first.saves if before and save.step == self.fault.resume_from]
        began = max(before, default=None) or next((attempt.at["load_end"] for attempt in attempts if "load_end" in attempt.at), None)
        if began is None:
            return None
        ended = max([stretch.steps[-1].end_s, *(save.end_s for save in attempts[-1].saves)])
        checks = sum(attempt.load_checksum_s + attempt.overhead_s for attempt in attempts[1:])
        wall = ended - began - checks
        return (sum(step.step_s for step in counted) / wall, len(counted)) if wall > 0 else None

    def diverged(self, tolerance: float = 0.0) -> list[int] | None:
        """Steps done again whose loss is not what it was the first time, to the bit or to a share; None if there is nothing to compare."""
        first: dict[int, float | None] = {}
        again: list[Step] = []
        for number, run in enumerate(self.runs.values()):
            again += run.steps if number else []
            for step in run.steps:
                first.setdefault(step.step, step.loss)
        pairs = [(step.step, step.loss, first[step.step]) for step in again]
        known = [(step, loss, before) for step, loss, before in pairs if loss is not None and before is not None]
        if not known:
            return None
        return sorted({step for step, loss, before in known if not math.isclose(loss, before, rel_tol=tolerance)})

    def _runs(self, *kinds: RunKind) -> dict[RunName, RunRecord]:
        return {name: run for name, run in self.runs.items() if run_kind(name) in kinds}
