"""Tables of what was observed between campaigns: readings of prices, and snapshots of a provider's facts. Rows are only ever added."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from plumbline.archive.models import Base, one_of

PURCHASES = ("on_demand", "spot", "reserved")
UNITS = ("gpu_hour", "instance_hour")
SNAPSHOT_KINDS = ("cluster", "probe")


class PriceReading(Base):
    """A price as a source named it at a time, and what it is in USD."""

    __tablename__ = "price_readings"
    __table_args__ = (
        one_of("purchase", PURCHASES),
        one_of("per", UNITS),
        Index(None, "provider", "purchase", "observed_at"),
    )
    reading_id: Mapped[str] = mapped_column(primary_key=True)
    provider: Mapped[str]
    purchase: Mapped[str]
    term: Mapped[str | None]
    source: Mapped[str]
    source_version: Mapped[str]
    observed_at: Mapped[datetime]
    amount: Mapped[float]
    currency: Mapped[str]
    per: Mapped[str]
    gpus: Mapped[int]
    usd_per_unit: Mapped[float]
    usd_per_gpu_hour: Mapped[float]
    usd_per_instance_hour: Mapped[float]
    recorded_at: Mapped[datetime]


class Snapshot(Base):
    """The facts of a provider at a time, from its cluster or from a probe trial, and the figures that the probe measured."""

    __tablename__ = "snapshots"
    __table_args__ = (one_of("kind", SNAPSHOT_KINDS), Index(None, "provider", "kind", "taken_at"))
    snapshot_id: Mapped[str] = mapped_column(primary_key=True)
    provider: Mapped[str]
    kind: Mapped[str]
    taken_at: Mapped[datetime]
    facts: Mapped[dict[str, Any]]
    facts_hash: Mapped[str]
    figures: Mapped[dict[str, Any]]
