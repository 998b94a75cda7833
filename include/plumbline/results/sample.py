"""The numbers, environments and outcomes of one series in one campaign, for comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from plumbline.metrics import Direction, metric_of

Scalar = str | int | float | bool | None
Facts = Mapping[str, Scalar]
OutcomeStatus = Literal["valid", "degraded", "invalid", "failed", "missing"]


@dataclass(frozen=True)
class RepeatValue:
    """One number of one trial: `value` in the metric's unit, finite; ValueError for a unit that is none. The repeat is the unit of replication, never a step or a request."""

    metric: str
    statistic: str
    phase: str
    unit: str
    direction: Direction
    slot: str
    repeat: int
    value: float

    def __post_init__(self) -> None:
        metric_of(self)
        if not math.isfinite(self.value):
            raise ValueError(
                f"{self.metric} {self.statistic} in {self.phase}, slot {self.slot} repeat {self.repeat}, is {self.value}; "
                "expected a finite number (leave an absent value out)"
            )


@dataclass(frozen=True)
class TrialOutcome:
    """How one attempt of one trial ended, whether or not it gave numbers. `reasons`: codes of why it is not simply valid."""

    trial_id: str
    slot: str
    repeat: int
    attempt: int
    status: OutcomeStatus
    failure_class: str | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class CampaignSample:
    """One series in one campaign.

    `observations` come from usable trials, without those on slow nodes, which are `left_out` by name; `environments` holds the facts of each of them, `outcomes` has every attempt. `planned`: number of
    trials that the campaign requested (None: unknown). `imported`: measured by others. `spec`: the requested work as nested plain data."""

    series_key: str
    campaign_id: str
    simulated: bool
    observations: tuple[RepeatValue, ...]
    environments: tuple[Facts, ...] = ()
    outcomes: tuple[TrialOutcome, ...] = ()
    planned: int | None = None
    imported: bool = False
    spec: Mapping[str, Any] | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """The parts of a series key."""

    kind: str
    workload: str
    version: str
    protocol: str
    engine: str
    provider: str
    region: str
    instance_type: str

    @classmethod
    def parse(cls, key: str) -> Series:
        """The parts of `kind/workload@version/hN/engine/provider/region/instance`; ValueError if it has another shape."""
        parts = key.split("/")
        name, _, version = parts[1].partition("@") if len(parts) == 7 else ("", "", "")
        if not version:
            raise ValueError(f'"{key}" is not a series key; expected kind/workload@version/protocol/engine/provider/region/instance')
        return cls(parts[0], name, version, *parts[2:])


def no_usable_trial(reasons: Iterable[str]) -> str:
    """Such as `no usable trial: step_time_unsteady: …`. `reasons`: of each trial its first one, as `code: detail`; the most common code counts,
    for details differ in their numbers."""
    given = [reason for reason in reasons if reason]
    codes = [reason.partition(":")[0] for reason in given]
    return f"no usable trial: {max(given, key=lambda reason: codes.count(reason.partition(':')[0]), default='no reason recorded')}"
