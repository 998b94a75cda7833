"""Tables of the archive. Measured rows are written once; a correction is a new row that names the old one."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, get_args

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    MetaData,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from plumbline.archive.columns import CompressedText, PrintableJson, PrintableText, UtcDateTime
from plumbline.archive.records import Action, BaselineRule, QuarantineState, SnapshotKind, Source
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.declarations.providers.rates import ListedPurchase
from plumbline.declarations.purposes import Purpose
from plumbline.metrics.units import MONEY, Amount
from plumbline.results import Status
from plumbline.results.finding import FindingKind, FindingState, Severity
from plumbline.results.operations import LogKind, Whose
from plumbline.results.price_reading import Per

# Every constraint has a name, so that a migration can drop it on both databases; archives exist whose checks are named like this.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
NATURAL_KEY = ("series_key", "campaign_id", "slot", "repeat", "attempt")
"""Columns that name an attempt; see Trial."""


def one_of(column: str, words: Any) -> CheckConstraint:
    """A named check that a column holds one of the words of a `Literal`."""
    return CheckConstraint(f"{column} IN ({', '.join(repr(word) for word in get_args(words))})", name=column)


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    # A new column of text or JSON stores what others wrote without control characters, by its type.
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it)
        str: PrintableText,
        datetime: UtcDateTime,
        dict[str, Any]: PrintableJson,
        list[Any]: PrintableJson,
    }


class Campaign(Base):
    """The trials that answer one question, over all series."""

    __tablename__ = "campaigns"
    __table_args__ = (one_of("purpose", Purpose), Index(None, "purpose", "planned_at"))
    campaign_id: Mapped[str] = mapped_column(primary_key=True)
    reason: Mapped[str]
    planned_at: Mapped[datetime] = mapped_column(index=True)
    recorded_at: Mapped[datetime]
    purpose: Mapped[str]


class Series(Base):
    """One workload on one provider, over time. `source` is fixed by the first trial: measured and simulated numbers never share a series."""

    __tablename__ = "series"
    __table_args__ = (
        one_of("source", Source),
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
    """A series' part in a campaign, so that its latest campaigns are found without reading its trials."""

    __tablename__ = "series_campaigns"
    __table_args__ = (Index(None, "series_key", "planned_at"), Index(None, "campaign_id"))
    series_key: Mapped[str] = mapped_column(ForeignKey("series.series_key"), primary_key=True)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("campaigns.campaign_id"), primary_key=True)
    planned_at: Mapped[datetime]


class Environment(Base):
    """The facts of an environment, once per hash."""

    __tablename__ = "environments"
    environment_hash: Mapped[str] = mapped_column(primary_key=True)
    facts: Mapped[dict[str, Any]] = mapped_column(JSON)  # its hash is of every character
    recorded_at: Mapped[datetime]


class Trial(Base):
    """One attempt of one trial, also one that failed. The natural key is what makes a retry change nothing."""

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint(*NATURAL_KEY, name="uq_trials_natural_key"),
        ForeignKeyConstraint(["series_key", "campaign_id"], ["series_campaigns.series_key", "series_campaigns.campaign_id"]),
        one_of("status", Status),
        one_of("quality_action", Action),
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
    """The whole result document as collected, for replay and export. In its own table, so that scans of trials stay small."""

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
    """A raw file that expired, by which rule and since when. `removed_at` is null until the store has deleted it."""

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
    """One attempt replaces another: the old row stays and no longer counts. A row is replaced at most once."""

    __tablename__ = "corrections"
    __table_args__ = (CheckConstraint("trial_pk <> corrects", name="another"),)
    trial_pk: Mapped[int] = mapped_column(ForeignKey("trials.id"), primary_key=True, autoincrement=False)
    corrects: Mapped[int] = mapped_column(ForeignKey("trials.id"), unique=True)
    corrected_at: Mapped[datetime]
    corrected_by: Mapped[str]
    why: Mapped[str]


class Quarantined(Base):
    """A result document that failed verification, with the reason and its location. It refers to no trial, because its content is in doubt."""

    __tablename__ = "quarantine"
    __table_args__ = (one_of("state", QuarantineState), Index(None, "state", "quarantined_at"), Index(None, "campaign_id"))
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


def _one_campaign(name: str, where: str) -> Index:
    return Index(name, "series_key", "campaign_id", unique=True, sqlite_where=text(where), postgresql_where=text(where))


class Baseline(Base):
    """A campaign that a series is compared with. Current ones have no `superseded_at`; old ones stay, for slow drift."""

    __tablename__ = "baselines"
    __table_args__ = (
        ForeignKeyConstraint(["series_key", "campaign_id"], ["series_campaigns.series_key", "series_campaigns.campaign_id"]),
        one_of("rule", BaselineRule),
        Index(None, "series_key", "accepted_at"),
        _one_campaign("uq_baselines_current", "superseded_at IS NULL"),
        # A campaign joins by the rule once in a series' life, whatever races there are.
        _one_campaign("uq_baselines_bootstrap", "rule = 'bootstrap'"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    series_key: Mapped[str]
    campaign_id: Mapped[str]
    rule: Mapped[str]
    accepted_at: Mapped[datetime]
    accepted_by: Mapped[str]
    why: Mapped[str]
    superseded_at: Mapped[datetime | None]


class Finding(Base):
    """A drift that was detected. `series_key` refers to no table: a grouped finding covers several series and has a key of its own."""

    __tablename__ = "findings"
    __table_args__ = (
        one_of("kind", FindingKind),
        one_of("severity", Severity),
        one_of("state", FindingState),
        Index(None, "state", "opened_at"),
        Index(None, "opened_at"),
        Index(None, "campaign_id"),
        Index(None, "series_key", "opened_at"),
        Index(None, "provider", "opened_at"),
    )
    finding_id: Mapped[str] = mapped_column(primary_key=True)
    series_key: Mapped[str]
    campaign_id: Mapped[str | None] = mapped_column(ForeignKey("campaigns.campaign_id"))
    provider: Mapped[str]
    kind: Mapped[str]
    severity: Mapped[str]
    headline: Mapped[str]
    detail: Mapped[dict[str, Any]]
    effect: Mapped[float | None]
    ci_low: Mapped[float | None]
    ci_high: Mapped[float | None]
    metric: Mapped[str | None]
    state: Mapped[str]
    opened_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]
    snoozed_until: Mapped[datetime | None]


class Incident(Base):
    """The thread about a finding: one per finding and channel."""

    __tablename__ = "incidents"
    __table_args__ = (UniqueConstraint("finding_id", "channel"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    finding_id: Mapped[str] = mapped_column(ForeignKey("findings.finding_id"))
    channel: Mapped[str]
    ts: Mapped[str]
    state: Mapped[str]
    message_hash: Mapped[str]
    posted_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    severity: Mapped[str | None]
    said: Mapped[dict[str, Any] | None]


class Decision(Base):
    """A ranking of providers for one team and one kind of workload, with its inputs."""

    __tablename__ = "decisions"
    __table_args__ = (Index(None, "team", "kind", "decided_at"), Index(None, "decided_at"))
    decision_id: Mapped[str] = mapped_column(primary_key=True)
    team: Mapped[str]
    kind: Mapped[str]
    winner: Mapped[str | None]
    probability: Mapped[float | None]
    decided_at: Mapped[datetime]
    detail: Mapped[Annotated[dict[str, Any], MONEY]]


class Price(Base):
    """A price that was accepted, or declared by a source; seen again, only `last_seen_at` moves. `term`: of a reserved one, such as 1y."""

    __tablename__ = "prices"
    __table_args__ = (Index(None, "provider", "purchase", "since"),)
    price_id: Mapped[str] = mapped_column(primary_key=True)
    provider: Mapped[str]
    purchase: Mapped[str]
    usd_per_hour: Mapped[Amount]
    since: Mapped[date]
    until: Mapped[date | None]
    source: Mapped[str]
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]
    term: Mapped[str | None]


class AuditEntry(Base):
    """Who did what to which subject, and why. The database refuses to change or delete a row. `once_key` keeps a retry from saying it twice."""

    __tablename__ = "audit"
    __table_args__ = (Index(None, "subject"), UniqueConstraint("once_key"))
    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    who: Mapped[str]
    what: Mapped[str]
    subject: Mapped[str]
    why: Mapped[str]
    detail: Mapped[dict[str, Any]]
    once_key: Mapped[str | None]


class PriceReading(Base):
    """A price as a source reported it at a time, also in USD."""

    __tablename__ = "price_readings"
    __table_args__ = (
        one_of("purchase", ListedPurchase),
        one_of("per", Per),
        Index(None, "provider", "purchase", "observed_at"),
    )
    reading_id: Mapped[str] = mapped_column(primary_key=True)
    provider: Mapped[str]
    purchase: Mapped[str]
    term: Mapped[str | None]
    source: Mapped[str]
    source_version: Mapped[str]
    observed_at: Mapped[datetime]
    amount: Mapped[Amount]
    currency: Mapped[str]
    per: Mapped[str]
    gpus: Mapped[int]
    usd_per_unit: Mapped[Amount]
    usd_per_gpu_hour: Mapped[Amount]
    usd_per_instance_hour: Mapped[Amount]
    recorded_at: Mapped[datetime]


class Snapshot(Base):
    """The facts of a provider at a time, from its cluster or from a probe trial, and the figures that the probe measured."""

    __tablename__ = "snapshots"
    __table_args__ = (one_of("kind", SnapshotKind), Index(None, "provider", "kind", "taken_at"))
    snapshot_id: Mapped[str] = mapped_column(primary_key=True)
    provider: Mapped[str]
    kind: Mapped[str]
    taken_at: Mapped[datetime]
    facts: Mapped[dict[str, Any]] = mapped_column(JSON)  # its hash is of every character
    facts_hash: Mapped[str]
    figures: Mapped[dict[str, Any]]


class AvailabilityCheck(Base):
    """One check of a provider's uptime or capacity; see `results.availability_check`."""

    __tablename__ = "observations"
    __table_args__ = (one_of("kind", WatchKind), {"sqlite_with_rowid": False})
    provider: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    simulated: Mapped[bool] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    cause: Mapped[str | None]
    detail: Mapped[str]
    seconds: Mapped[float | None]
    gpus: Mapped[int]


class OperationsLog(Base):
    """A state of an entry of the operations log. The database refuses to change or delete a row; see `results.operations`."""

    __tablename__ = "operations_log"
    __table_args__ = (one_of("kind", LogKind), one_of("whose", Whose), Index(None, "provider", "kind"))
    entry_id: Mapped[str] = mapped_column(primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    provider: Mapped[str]
    kind: Mapped[str]
    what: Mapped[str]
    whose: Mapped[str]
    severity: Mapped[str]
    reference: Mapped[str]
    recorded_by: Mapped[str]
    opened: Mapped[datetime]
    answered: Mapped[datetime | None]
    solved: Mapped[datetime | None]
    recorded_at: Mapped[datetime]


class SigningKey(Base):
    """The public key of one attempt. It refers to no trial: it is issued before there is anything to record."""

    __tablename__ = "signing_keys"
    campaign_id: Mapped[str] = mapped_column(primary_key=True)
    trial_id: Mapped[str] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    public_key: Mapped[str]
    issued_at: Mapped[datetime]


class KeptDeclarations(Base):
    """The last valid declarations of a folder, one row each, replaced when others are valid; see `declarations.last_valid`."""

    __tablename__ = "kept_declarations"
    folder: Mapped[str] = mapped_column(primary_key=True)
    sha256: Mapped[str]
    packed: Mapped[bytes]
    kept_at: Mapped[datetime]
    broken_since: Mapped[datetime | None]


class WrittenFile(Base):
    """A file of a report, of Data Docs or of an acceptance that lies in the result store, with what a reader must find there; see `archive.shelves`."""

    __tablename__ = "written_files"
    kind: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    file: Mapped[str] = mapped_column(primary_key=True)
    path: Mapped[str]
    sha256: Mapped[str]
    bytes: Mapped[int] = mapped_column(BigInteger)
    written_at: Mapped[datetime]
