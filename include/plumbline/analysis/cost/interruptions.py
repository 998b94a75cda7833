"""Effect of interruptions on a training run's time: restarts, and work done again since the last checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from plumbline.analysis.trial_sample import InterruptionRate
from plumbline.declarations import AnyWorkload, TrainingJob
from plumbline.declarations.economics import Economics
from plumbline.declarations.providers.rates import Purchase

_HOUR_S = 3600.0


@dataclass(frozen=True)
class InterruptedRun:
    """One finished run: `work_s` seconds of work at the measured rate, checkpoints every `every_s` of it, each holding it up `checkpoint_s`;
    `restart_s`: paid seconds from an interruption to work going on, without what is done again (with it, where `every_s` is None)."""

    work_s: float
    restart_s: float
    every_s: float | None = None
    checkpoint_s: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("work_s", self.work_s), ("every_s", 1.0 if self.every_s is None else self.every_s)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} is {value:g}; expected seconds above 0")
        for name, value in (("restart_s", self.restart_s), ("checkpoint_s", self.checkpoint_s)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value:g}; expected seconds, at least 0")


@dataclass(frozen=True)
class Expected:
    """Mean seconds that a run holds its instances, and what they go into. All are infinite where a run never ends."""

    held_s: float
    work_s: float
    checkpoint_s: float
    restarting_s: float
    again_s: float
    interruptions: float


def expected_time(run: InterruptedRun, per_s: float) -> Expected:
    """Mean time of a run that is interrupted `per_s` times a second. OverflowError never: a run that practically never ends is infinite."""
    count = 0.0 if run.every_s is None else run.work_s / run.every_s
    checkpoints = math.floor(count) * run.checkpoint_s
    if per_s <= 0:
        return Expected(run.work_s + checkpoints, run.work_s, checkpoints, 0.0, 0.0, 0.0)
    try:
        paid_s = _paid_s(run, per_s)
    except OverflowError:
        return Expected(*[math.inf] * 6)
    interruptions = per_s * paid_s
    # A recovery lasts until work goes on or the next interruption, whichever comes first.
    restarting = interruptions * -math.expm1(-per_s * run.restart_s) / per_s
    return Expected(paid_s, run.work_s, checkpoints, restarting, max(0.0, paid_s - run.work_s - checkpoints - restarting), interruptions)


def _paid_s(run: InterruptedRun, per_s: float) -> float:
    recovering = math.exp(per_s * run.restart_s)
    if run.every_s is None:
        return run.work_s * recovering

    def stretch(seconds: float) -> float:
        return recovering * math.expm1(per_s * seconds) / per_s

    full = math.floor(run.work_s / run.every_s)
    rest = max(0.0, run.work_s - full * run.every_s)
    return full * stretch(run.every_s + run.checkpoint_s) + stretch(rest)


@dataclass(frozen=True)
class EndlessRun:
    """Why there is no cost: at this rate a run practically never finishes."""

    rate: InterruptionRate


@dataclass(frozen=True)
class Restarts:
    """`factor`: paid time over the time without interruptions, of `run`, one checkpoint interval; 1 and no run where the restart was not
    measured."""

    rate: InterruptionRate
    factor: float = 1.0
    run: InterruptedRun | None = None


@dataclass(frozen=True)
class LossRate:
    """`per_hour`: interruptions of a whole run of `workload` an hour, each instance's rate times their number: one that is taken away stops
    all. `source`: who says so."""

    per_hour: float
    source: str
    workload: TrainingJob

    @property
    def rate(self) -> InterruptionRate:
        return InterruptionRate(self.per_hour, self.source)

    def stretch(self, value: Callable[[str, str, str], float | None]) -> Restarts | EndlessRun:
        """What interruptions add to a run's paid time. `value`: one number by metric, statistic and phase."""
        if (found := measured_run(value, self.workload)) is None:
            return Restarts(self.rate)
        run, _ = found
        factor = expected_time(run, self.per_hour / _HOUR_S).held_s / expected_time(run, 0.0).held_s
        return Restarts(self.rate, factor, run) if math.isfinite(factor) else EndlessRun(self.rate)


def loss_rate(economics: Economics, provider: str, workload: AnyWorkload | None, purchase: Purchase) -> LossRate | None:
    """Where it is declared, of training: instances that fail, however they are paid for, and those on spot that are taken away."""
    job = workload.job if workload is not None else None
    if job is None:
        return None
    taken, failing = economics.interruptions(provider) if purchase == "spot" else None, economics.failures(provider)
    rates = [(each, source) for each, source in ((taken and taken.interruptions, taken), (failing and failing.failures, failing)) if source]
    if not rates:
        return None
    return LossRate(sum(rate or 0.0 for rate, _ in rates) * _HOUR_S * job.nodes, "; ".join(e.source for _, e in rates), job)


def unknown_loss(economics: Economics, provider: str, workload: AnyWorkload, value: Callable[[str, str, str], float | None]) -> str:
    """Why the cost of a training is without the failures of its nodes; empty where it has them, or none is expected to matter: one node whose
    failures are not declared."""
    if workload.job is None:
        return ""
    if economics.failures(provider) is None:
        return "failures of nodes are not declared" if workload.nodes > 1 else ""
    return "restart_penalty was not measured" if value("restart_penalty", "value", "recovery") is None else ""


def measured_run(
    value: Callable[[str, str, str], float | None], workload: TrainingJob, work_s: float | None = None
) -> tuple[InterruptedRun, str] | None:
    """A run with its measured restarts and checkpoints (0 s where they were not measured), and in words how the penalty is taken; None without
    `restart_penalty`. `work_s` None: one checkpoint interval, an hour where it is not known."""
    penalty = value("restart_penalty", "value", "recovery")
    if penalty is None:
        return None
    new_node = value("image_pull_time", "value", "cold_start") if workload.pod_deletions == 0 else None
    pulling = "" if new_node is None else f" + {new_node:.3g} s to pull the image on a new node"
    started = penalty + (new_node or 0.0)
    again = value("restart_recompute_time", "value", "recovery")
    step = value("step_time", "mean", "steady") or value("step_time", "median", "steady")
    if again is None or not step or (every := workload.checkpoint_every) is None:
        basis = f"restart_penalty {penalty:.4g} s, repeated work included{pulling}: of the trial's fault, not of an average one"
        return InterruptedRun(work_s or _HOUR_S, started), basis
    every_s = every * step
    basis = (
        f"restart_penalty {penalty:.4g} s less {again:.4g} s of repeated work{pulling}; a checkpoint every {every} steps, {every_s:.4g} s"
    )
    held_up = value("checkpoint_blocking_time", "median", "steady") or 0.0
    return InterruptedRun(work_s or every_s, max(0.0, started - again), every_s, held_up), basis
