"""What was observed between campaigns, as the archive takes it in (records) and hands it out (views): frozen plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

SnapshotKind = Literal["cluster", "probe"]


@dataclass(frozen=True)
class PriceReadingRecord:
    """A price as a source named it: `amount` in `currency` for each `per`, and the same normalised to USD.

    `reading_id` is a stable hash: the same reading has the same one however often it is taken in.
    """

    reading_id: str
    provider: str
    purchase: str
    term: str | None
    source: str
    source_version: str
    observed_at: datetime
    amount: float
    currency: str
    per: str
    gpus: int
    usd_per_unit: float
    usd_per_gpu_hour: float
    usd_per_instance_hour: float


@dataclass(frozen=True)
class PriceReadingView(PriceReadingRecord):
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
