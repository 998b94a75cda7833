"""Tables of what was concluded from the measurements, by rule or by a person, and the log of who did what."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from plumbline.archive.models import Base, one_of

FINDING_KINDS = ("performance", "environment", "price", "reliability", "missing_data", "self")
SEVERITIES = ("info", "warn", "page")
FINDING_STATES = ("open", "acknowledged", "accepted", "resolved")


class Baseline(Base):
    """A campaign that a series is held against. The current ones have no `superseded_at`; old ones stay, for slow drift."""

    __tablename__ = "baselines"
    __table_args__ = (
        ForeignKeyConstraint(["series_key", "campaign_id"], ["series_campaigns.series_key", "series_campaigns.campaign_id"]),
        one_of("rule", ("bootstrap", "decision")),
        Index(None, "series_key", "accepted_at"),
        Index(
            "uq_baselines_current",
            "series_key",
            "campaign_id",
            unique=True,
            sqlite_where=text("superseded_at IS NULL"),
            postgresql_where=text("superseded_at IS NULL"),
        ),
        # A campaign joins by the rule once in a series' life, whatever races there are.
        Index(
            "uq_baselines_bootstrap",
            "series_key",
            "campaign_id",
            unique=True,
            sqlite_where=text("rule = 'bootstrap'"),
            postgresql_where=text("rule = 'bootstrap'"),
        ),
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
        one_of("kind", FINDING_KINDS),
        one_of("severity", SEVERITIES),
        one_of("state", FINDING_STATES),
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
    """Where a finding is talked about: one Slack thread per finding and channel."""

    __tablename__ = "incidents"
    __table_args__ = (UniqueConstraint("finding_id", "channel"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    finding_id: Mapped[str] = mapped_column(ForeignKey("findings.finding_id"))
    channel: Mapped[str]
    ts: Mapped[str]
    state: Mapped[str]
    message_hash: Mapped[str]
    severity: Mapped[str | None]
    said: Mapped[dict[str, Any] | None]
    posted_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class Decision(Base):
    """A ranking of providers for one team and one kind of workload, with what it was made from."""

    __tablename__ = "decisions"
    __table_args__ = (Index(None, "team", "kind", "decided_at"), Index(None, "decided_at"))
    decision_id: Mapped[str] = mapped_column(primary_key=True)
    team: Mapped[str]
    kind: Mapped[str]
    winner: Mapped[str | None]
    probability: Mapped[float | None]
    decided_at: Mapped[datetime]
    detail: Mapped[dict[str, Any]]


class Price(Base):
    """A price that was accepted, or declared by a source; seen again, only `last_seen_at` moves. `term`: of a reserved one, such as 1y."""

    __tablename__ = "prices"
    __table_args__ = (Index(None, "provider", "purchase", "since"),)
    price_id: Mapped[str] = mapped_column(primary_key=True)
    provider: Mapped[str]
    purchase: Mapped[str]
    usd_per_hour: Mapped[float]
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
