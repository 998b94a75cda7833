"""What the archive hands out of measurements besides result documents: frozen plain data, never database objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from plumbline.results import FailureClass, Reason, Scalar, Status

Action = Literal["accept", "annotate", "reject"]
Source = Literal["measured", "simulated", "imported"]


@dataclass(frozen=True)
class SeriesView:
    """One workload on one provider, over time."""

    series_key: str
    kind: str
    workload: str
    version: int
    provider: str
    region: str
    instance_type: str
    source: Source


@dataclass(frozen=True)
class Outcomes:
    """How many trials ended how; a trial counts once, by its best attempt. `rejected` were measured but failed the quality checks."""

    planned: int = 0
    usable: int = 0
    invalid: int = 0
    rejected: int = 0
    failed: int = 0
    missing: int = 0


@dataclass(frozen=True)
class CampaignView:
    """One campaign, or one series' part of it where a series was asked for."""

    campaign_id: str
    reason: str
    planned_at: datetime
    series: int
    outcomes: Outcomes
    sources: tuple[Source, ...] = ()
    """Of its series, each once; one campaign may hold measured and simulated ones."""


@dataclass(frozen=True)
class TrialView:
    """One attempt of one trial. `usable`: valid or degraded, not rejected by the quality checks, and no correction in its place."""

    trial_id: str
    attempt: int
    series_key: str
    campaign_id: str
    slot: str
    repeat: int
    kind: str
    workload: str
    version: int
    provider: str
    region: str
    instance_type: str
    source: Source
    status: Status
    reasons: tuple[Reason, ...]
    failure_class: FailureClass | None
    quality_action: Action
    quality_reasons: tuple[Reason, ...]
    spec_hash: str
    criteria_hash: str
    schedule_hash: str | None
    environment_hash: str | None
    launcher: str
    harness_version: str
    planned_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    recorded_at: datetime
    replay_of: str | None
    run_id: str | None
    uri: str
    checksum: str
    corrected: bool = False

    @property
    def usable(self) -> bool:
        return self.status in ("valid", "degraded") and self.quality_action != "reject" and not self.corrected


@dataclass(frozen=True)
class ObservationView:
    """One number of one trial, in the metric's unit."""

    metric: str
    statistic: str
    phase: str
    unit: str
    direction: str
    slot: str
    repeat: int
    value: float


@dataclass(frozen=True)
class OutcomeView:
    """How one attempt ended; a measurement that the quality checks rejected counts as invalid. `reasons`: the codes of its validity."""

    trial_id: str
    slot: str
    repeat: int
    attempt: int
    status: Status
    failure_class: FailureClass | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class SampleView:
    """One series in one campaign: the numbers and environments of each trial's best usable attempt, and how every attempt ended."""

    series_key: str
    campaign_id: str
    source: Source
    planned_at: datetime
    observations: tuple[ObservationView, ...]
    environments: tuple[Mapping[str, Scalar], ...]
    outcomes: tuple[OutcomeView, ...]
    counts: Outcomes

    @property
    def simulated(self) -> bool:
        return self.source == "simulated"

    def plain(self) -> dict[str, Any]:
        """The sample as a dict of plain values, with the names that drift reads (`simulated`, `imported` and `planned` among them)."""
        # Not `asdict`, which copies thousands of numbers one by one.
        return {
            **vars(self),
            "observations": [vars(o) for o in self.observations],
            "outcomes": [vars(o) for o in self.outcomes],
            "simulated": self.simulated,
            "imported": self.source == "imported",
            "planned": self.counts.planned,
        }


@dataclass(frozen=True)
class MetricPoint:
    """One value in a metric's history."""

    campaign_id: str
    planned_at: datetime
    slot: str
    repeat: int
    trial_id: str
    value: float
    n: int
    ci_low: float | None
    ci_high: float | None
    environment_hash: str | None
