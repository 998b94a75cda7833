"""Tables of what was measured. Rows are written once; a correction is a new row that names the old one (Correction)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, MetaData, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from plumbline.archive.columns import CompressedText, UtcDateTime

# Every constraint has a name, so that a migration can drop it on both databases.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
STATUSES = ("valid", "degraded", "invalid", "failed", "missing")
ACTIONS = ("accept", "annotate", "reject")
SOURCES = ("measured", "simulated", "imported")
QUARANTINE_STATES = ("kept", "released")
NATURAL_KEY = ("series_key", "campaign_id", "slot", "repeat", "attempt")
"""What names an attempt; see Trial."""


def one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    """A named check that a column holds one of these words."""
    return CheckConstraint(f"{column} IN ({', '.join(repr(v) for v in values)})", name=column)


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012 (SQLAlchemy reads it)


class Campaign(Base):
    """The trials that answer one question, over all series."""

    __tablename__ = "campaigns"
    campaign_id: Mapped[str] = mapped_column(primary_key=True)
    reason: Mapped[str]
    planned_at: Mapped[datetime] = mapped_column(index=True)
    recorded_at: Mapped[datetime]


class Series(Base):
    """One workload on one provider, over time. `source` is fixed by the first trial: measured and simulated numbers never share a series."""

    __tablename__ = "series"
    __table_args__ = (
        one_of("source", SOURCES),
        Index(None, "provider", "kind"),
        Index(None, "workload", "version", "kind", "source", "provider"),
        Index(None, "source"),
    )
    series_key: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    workload: Mapped[str]
    version: Mapped[int]
    provider: Mapped[str]
    region: Mapped[str]
    instance_type: Mapped[str]
    source: Mapped[str]
    recorded_at: Mapped[datetime]


class SeriesCampaign(Base):
    """That a series took part in a campaign: finds a series' latest campaigns without reading its trials."""

    __tablename__ = "series_campaigns"
    __table_args__ = (Index(None, "series_key", "planned_at"), Index(None, "campaign_id"))
    series_key: Mapped[str] = mapped_column(ForeignKey("series.series_key"), primary_key=True)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaigns.campaign_id"), primary_key=True)
    planned_at: Mapped[datetime]


class Environment(Base):
    """The facts of an environment, once per hash."""

    __tablename__ = "environments"
    environment_hash: Mapped[str] = mapped_column(primary_key=True)
    facts: Mapped[dict[str, Any]]
    recorded_at: Mapped[datetime]


class Trial(Base):
    """One attempt of one trial, also one that failed. The natural key is what makes a retry change nothing."""

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint(*NATURAL_KEY, name="uq_trials_natural_key"),
        ForeignKeyConstraint(["series_key", "campaign_id"], ["series_campaigns.series_key", "series_campaigns.campaign_id"]),
        one_of("status", STATUSES),
        one_of("quality_action", ACTIONS),
        Index(None, "campaign_id"),
        Index(None, "trial_id", "attempt"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    series_key: Mapped[str]
    campaign_id: Mapped[str]
    slot: Mapped[str]
    repeat: Mapped[int]
    attempt: Mapped[int]
    trial_id: Mapped[str]
    status: Mapped[str]
    reasons: Mapped[list[Any]]
    failure_class: Mapped[str | None]
    quality_action: Mapped[str]
    quality_reasons: Mapped[list[Any]]
    spec_hash: Mapped[str]
    criteria_hash: Mapped[str]
    schedule_hash: Mapped[str | None]
    environment_hash: Mapped[str | None] = mapped_column(ForeignKey("environments.environment_hash"))
    launcher: Mapped[str]
    harness_version: Mapped[str]
    planned_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    recorded_at: Mapped[datetime]
    replay_of: Mapped[str | None]
    dag_id: Mapped[str | None]
    run_id: Mapped[str | None]
    bundle_version: Mapped[str | None]
    uri: Mapped[str]
    checksum: Mapped[str]


class Document(Base):
    """The whole result document as collected: what a replay and an export start from. Apart, so that scans of trials stay small."""

    __tablename__ = "documents"
    trial_pk: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True, autoincrement=False)
    schema_version: Mapped[int]
    content: Mapped[str] = mapped_column(CompressedText)


class Metric(Base):
    """One number of one trial. `value` is null when it could not be measured."""

    __tablename__ = "metrics"
    # Clustered by trial in SQLite: all numbers of a trial lie on a page or two.
    __table_args__ = ({"sqlite_with_rowid": False},)
    trial_pk: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    phase: Mapped[str] = mapped_column(primary_key=True)
    metric: Mapped[str] = mapped_column(primary_key=True)
    statistic: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[float | None]
    unit: Mapped[str]
    n: Mapped[int]
    direction: Mapped[str]
    ci_low: Mapped[float | None]
    ci_high: Mapped[float | None]


class Stage(Base):
    """Where the time of a phase went; `position` is the row's place in the document."""

    __tablename__ = "stages"
    __table_args__ = ({"sqlite_with_rowid": False},)
    trial_pk: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    phase: Mapped[str]
    stage: Mapped[str]
    total_s: Mapped[float]
    n: Mapped[int]


class Telemetry(Base):
    """Summary of one signal beside the measurement."""

    __tablename__ = "telemetry"
    __table_args__ = ({"sqlite_with_rowid": False},)
    trial_pk: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    phase: Mapped[str]
    signal: Mapped[str]
    unit: Mapped[str]
    n: Mapped[int]
    mean: Mapped[float]
    min: Mapped[float]
    max: Mapped[float]


class Evidence(Base):
    """A raw file behind the numbers; `uri` is relative to the trial's."""

    __tablename__ = "evidence"
    __table_args__ = ({"sqlite_with_rowid": False},)
    trial_pk: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    uri: Mapped[str]
    sha256: Mapped[str]
    bytes: Mapped[int] = mapped_column(BigInteger)
    rows: Mapped[int | None] = mapped_column(BigInteger)


class Expired(Base):
    """That a raw file is not kept any longer, by which rule and since when. `removed_at` is null until the store has deleted it."""

    __tablename__ = "expired_evidence"
    __table_args__ = (
        ForeignKeyConstraint(["trial_pk", "position"], ["evidence.trial_pk", "evidence.position"]),
        Index(None, "removed_at"),
        {"sqlite_with_rowid": False},
    )
    trial_pk: Mapped[int] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    expired_at: Mapped[datetime]
    rule: Mapped[str]
    removed_at: Mapped[datetime | None]


class Correction(Base):
    """That one attempt stands in another one's place: the old row stays, and no longer counts. At most one stands in a row's place."""

    __tablename__ = "corrections"
    __table_args__ = (CheckConstraint("trial_pk <> corrects", name="another"),)
    trial_pk: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True, autoincrement=False)
    corrects: Mapped[int] = mapped_column(ForeignKey("trials.id"), unique=True)
    corrected_at: Mapped[datetime]
    corrected_by: Mapped[str]
    why: Mapped[str]


class Quarantined(Base):
    """A result document that could not be believed: why, and where it is kept. It refers to no trial: its own words about that are in doubt."""

    __tablename__ = "quarantine"
    __table_args__ = (one_of("state", QUARANTINE_STATES), Index(None, "state", "quarantined_at"), Index(None, "campaign_id"))
    quarantine_id: Mapped[str] = mapped_column(primary_key=True)
    campaign_id: Mapped[str]
    trial_id: Mapped[str]
    attempt: Mapped[int]
    uri: Mapped[str]
    sha256: Mapped[str]
    reason: Mapped[str]
    state: Mapped[str]
    quarantined_at: Mapped[datetime]
    updated_at: Mapped[datetime]
