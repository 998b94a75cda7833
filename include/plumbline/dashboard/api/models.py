"""What the API answers with: the archive's rows as they are, a page at a time. Times are UTC in ISO 8601; what is not known is null."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass as validated

from plumbline.archive.pages import CampaignHead
from plumbline.archive.records import Action, Outcomes, SeriesView, Source
from plumbline.results import Evidence, FailureClass, MetricRow, Reason, Status

T = TypeVar("T")


class Answer(BaseModel):
    """Read from the archive's plain data."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Listed(BaseModel, Generic[T]):
    """A page of a list."""

    items: tuple[T, ...]
    after: str | None = Field(description="hand it in as `after` for the next page; null on the last one")


@validated(frozen=True)
class SeriesInCampaign(SeriesView):
    """A series' part of a campaign."""

    outcomes: Outcomes


@validated(frozen=True)
class CampaignDetail(CampaignHead):
    """A campaign with a page of the series that took part."""

    series: Listed[SeriesInCampaign]


class TrialOut(Answer):
    """One attempt of one trial. `usable`: it counts in every number that is shown."""

    trial_id: str
    attempt: int
    series_key: str
    campaign_id: str
    provider: str
    kind: str
    workload: str
    version: int
    slot: str
    repeat: int
    source: Source
    status: Status
    usable: bool
    reasons: tuple[Reason, ...]
    failure_class: FailureClass | None
    quality_action: Action
    quality_reasons: tuple[Reason, ...]
    environment_hash: str | None
    planned_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    uri: str
    checksum: str


class TrialDetail(TrialOut):
    """An attempt with its numbers and its raw files."""

    metrics: tuple[MetricRow, ...]
    evidence: tuple[Evidence, ...]
    facts: dict[str, Any] = Field(description="the environment that it ran on, flat")
    replay_command: str | None


class PointOut(Answer):
    """One usable repeat's value, in the metric's unit."""

    trial_id: str
    slot: str
    repeat: int
    value: float
    n: int
    ci_low: float | None
    ci_high: float | None
    environment_hash: str | None


class CampaignPoints(Answer):
    """What one campaign measured of a number."""

    campaign_id: str
    planned_at: datetime
    baseline: bool = Field(description="whether the campaign is part of the accepted baseline")
    points: tuple[PointOut, ...]


class History(BaseModel):
    """One number of one series over its campaigns, newest first."""

    series_key: str
    metric: str
    statistic: str
    phase: str
    unit: str
    direction: str
    campaigns: Listed[CampaignPoints]
