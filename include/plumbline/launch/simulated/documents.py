"""A whole result document of a simulated trial: the parts that a real one has, marked simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from plumbline.declarations import InferenceWorkload, TrainingWorkload, Trial
from plumbline.declarations.load import longest
from plumbline.declarations.trial import AnyWorkload
from plumbline.harness.inference.judging import quality_unchecked, too_few_requests
from plumbline.harness.measurement import Judgement
from plumbline.harness.validity import verdict
from plumbline.launch.simulated import inference, training
from plumbline.launch.simulated.hardware import hardware_of, probe_rows
from plumbline.launch.simulated.model import Draw
from plumbline.launch.simulated.surroundings import environment_of
from plumbline.results import Event, MetricRow, Reason, Reproducibility, ResultDocument, Stage, Validity

VERSION = "simulated-3"
"""`harness_version` of simulated documents; raised when the model gives other numbers for the same declaration."""
SPEED = 1000.0
"""Seconds of the trial that pass in one second of the wall clock: months are rehearsed in minutes, and no event lies in the future."""
_PROBING_S = 20.0


@dataclass(frozen=True)
class Clock:
    """The trial's times: monotonic seconds are the simulated machine's, the wall clock begins when the trial was planned."""

    begun: datetime

    def event(self, name: str, at_s: float, clock: Literal["harness", "launcher"] = "harness") -> Event:
        """A moment `at_s` simulated seconds after the request."""
        return Event(name=name, utc=self.begun + timedelta(seconds=at_s / SPEED), monotonic_s=round(at_s, 3), clock=clock)


def lead_s(draw: Draw) -> float:
    """Seconds from the request to the harness's first sign of life."""
    return hardware_of(draw.trial.provider).lead_s * draw.slowness("start_up")


def simulate(trial: Trial) -> ResultDocument:
    """The document that the trial would have left had it run; the same trial gives the same document.

    Whatever the trial would have failed with is the launcher's matter. ValueError if its provider is not simulated, UnknownHardware (a
    ValueError) if the provider's accelerator is not known and no level of it is declared.
    """
    draw = Draw(trial)
    workload, has = trial.workload, hardware_of(trial.provider)
    ranks = workload.parallelism.processes if isinstance(workload, TrainingWorkload) else min(workload.gpus or has.count, has.count)
    metrics: list[MetricRow] = probe_rows(draw, has, ranks)
    stages: Sequence[Stage]
    if isinstance(workload, TrainingWorkload):
        metrics += training.rows(workload, has, draw)
        stages = training.stages(workload, has, draw)
        took = _training_s(metrics, workload)
    else:
        metrics += inference.rows(workload, has, draw)
        stages = inference.stages(workload, has, draw)
        took = _inference_s(metrics, workload)
    clock, begin = Clock(trial.planned_at), lead_s(draw)
    return ResultDocument.sealed(
        trial=trial,
        harness_version=VERSION,
        environment=environment_of(draw),
        reproducibility=_reproducibility(trial, draw),
        timeline=(
            clock.event("harness_started", begin),
            clock.event("environment_probed", begin + 1.0),
            clock.event("measurement_started", begin + _PROBING_S),
            clock.event("measurement_finished", begin + _PROBING_S + took),
        ),
        validity=_validity(workload, metrics),
        metrics=tuple(metrics),
        stages=tuple(stages),
        simulated=True,
    )


def _validity(workload: AnyWorkload, metrics: Sequence[MetricRow]) -> Validity:
    """By the harness's own judgements, those that need no machine."""
    if not isinstance(workload, InferenceWorkload):
        return Validity(status="valid")
    found = (quality_unchecked(workload), too_few_requests(workload.acceptance, metrics), _search_open(metrics))
    return verdict(each for each in found if each is not None)


def _search_open(metrics: Sequence[MetricRow]) -> Judgement | None:
    """As the harness judges a search whose range the highest rate lies outside; None if it lies inside, or nothing was searched."""
    if not any(r.metric == "highest_sustained_rate" and r.value is None for r in metrics):
        return None
    return Judgement("degraded", Reason(code="search_open", detail="no highest rate in sweep: it lies outside the declared range"))


def _value(metrics: Sequence[MetricRow], metric: str, phase: str) -> float:
    return next((r.value for r in metrics if (r.metric, r.phase) == (metric, phase) and r.value is not None), 0.0)


def _training_s(metrics: Sequence[MetricRow], workload: TrainingWorkload) -> float:
    steps = workload.steps.total * _value(metrics, "step_time", "steady")
    return _value(metrics, "time_to_first_step", "cold_start") + steps + _value(metrics, "restart_penalty", "recovery")


def _inference_s(metrics: Sequence[MetricRow], workload: InferenceWorkload) -> float:
    return _value(metrics, "time_to_ready", "cold_start") + sum(longest(phase) for phase in workload.phases)


def _reproducibility(trial: Trial, draw: Draw) -> Reproducibility:
    hashes = {"spec": trial.spec_hash, **({"schedule": trial.schedule_hash} if trial.schedule_hash else {})}
    return Reproducibility(seeds={"simulation": draw.declared.seed}, hashes=hashes, replay_command=f"plumbline replay {trial.trial_id}")
