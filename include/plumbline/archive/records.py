"""Values that the archive accepts (records) and returns (views): frozen plain data, never database objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from plumbline.declarations.purposes import Purpose
from plumbline.metrics.units import Amount
from plumbline.results import FailureClass, Reason, Status

Action = Literal["accept", "annotate", "reject"]
Source = Literal["measured", "simulated", "imported"]
IMPORTED_LAUNCHER = "imported"
"""The launcher in the row of an imported trial."""
SnapshotKind = Literal["cluster", "probe"]
BaselineRule = Literal["bootstrap", "decision"]
QuarantineState = Literal["kept", "released"]


@dataclass(frozen=True)
class BaselineView:
    """A campaign that a series is, or was, compared with."""

    series_key: str
    campaign_id: str
    rule: BaselineRule
    accepted_at: datetime
    accepted_by: str
    why: str
    superseded_at: datetime | None


@dataclass(frozen=True)
class IncidentRecord:
    """The thread of a finding in one channel. `ts` is the channel's own id of the thread's first message.

    `severity` is the highest that was reported, empty before the first report. `posts`: those of the thread by what they are for
    (`opened`, `escalated`, `reminder 1`, …), each with `at`, when it was begun, and `ts`, empty as long as it is not known to have arrived.
    """

    finding_id: str
    channel: str
    ts: str
    state: str
    message_hash: str
    severity: str = ""
    posts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class IncidentView(IncidentRecord):
    posted_at: datetime = field(kw_only=True)
    updated_at: datetime = field(kw_only=True)


@dataclass(frozen=True)
class QuarantineRecord:
    """A result document that failed verification: its location, its SHA-256 and the reason. It says `trial_id` and `attempt` of whose folder it
    was in, not of what it claims to be."""

    campaign_id: str
    trial_id: str
    attempt: int
    uri: str
    sha256: str
    reason: str


@dataclass(frozen=True)
class QuarantineView(QuarantineRecord):
    """`kept` until a retry accepts it; then `released`."""

    quarantine_id: str
    state: QuarantineState
    quarantined_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class AuditView:
    """Who did what to which subject, and why."""

    at: datetime
    who: str
    what: str
    subject: str
    why: str
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class PriceReadingView:
    """A `Reading` as archived, and the same normalised to USD."""

    reading_id: str
    provider: str
    purchase: str
    term: str | None
    source: str
    source_version: str
    observed_at: datetime
    amount: Amount
    currency: str
    per: str
    gpus: int
    usd_per_unit: Amount
    usd_per_gpu_hour: Amount
    usd_per_instance_hour: Amount
    recorded_at: datetime


@dataclass(frozen=True)
class SnapshotRecord:
    """Flat `facts` (name → scalar) of a provider at a time, and `figures` (metric → number) if a probe measured any."""

    provider: str
    kind: SnapshotKind
    taken_at: datetime
    facts: Mapping[str, Any]
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SnapshotView(SnapshotRecord):
    """`facts_hash` is the same for the same facts, whatever the time and the figures."""

    snapshot_id: str = field(kw_only=True)
    facts_hash: str = field(kw_only=True)


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
    purpose: Purpose
    series: int
    outcomes: Outcomes
    sources: tuple[Source, ...] = ()
    """Sources of the campaign's series, each once; one campaign may hold measured and simulated ones."""


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
class MetricPoint:
    """One value in a metric's history."""

    campaign_id: str
    planned_at: datetime
    slot: str
    repeat: int
    trial_id: str
    value: float
    n: int
