"""What the archive says of what was observed between campaigns: each method is one transaction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime, timezone

from sqlalchemy import Engine, Select, select
from sqlalchemy.orm import Session

from plumbline.archive import ledger
from plumbline.archive.engine import reading, writing
from plumbline.archive.inserts import insert_new
from plumbline.archive.observations import PriceReadingRecord, PriceReadingView, SnapshotKind, SnapshotRecord, SnapshotView
from plumbline.archive.observed import PriceReading, Snapshot
from plumbline.archive.record import utc_now
from plumbline.archive.records import PriceView
from plumbline.declarations import digest


class Watched:
    """Readings of prices, the accepted price of each kind, and snapshots of providers' facts."""

    engine: Engine

    def record_readings(self, records: Sequence[PriceReadingRecord]) -> tuple[str, ...]:
        """Store readings; the ids of those that are new. One that is known changes nothing."""
        with writing(self.engine) as session:
            now = utc_now()
            rows = [{**asdict(record), "recorded_at": now} for record in records]
            return tuple(str(row["reading_id"]) for row in rows if insert_new(session, PriceReading, row, ["reading_id"]))

    def price_readings(
        self,
        provider: str,
        purchase: str | None = None,
        term: str | None = None,
        *,
        source: str | None = None,
        since: datetime | None = None,
        latest: int | None = None,
    ) -> list[PriceReadingView]:
        """A provider's readings, oldest first: of one kind of purchase, one term and one source if asked, from a time on, the `latest` so many."""
        query = select(PriceReading).where(PriceReading.provider == provider)
        if purchase is not None:
            query = query.where(PriceReading.purchase == purchase)
        if term is not None:
            query = query.where(PriceReading.term == term)
        if source is not None:
            query = query.where(PriceReading.source == source)
        if since is not None:
            query = query.where(PriceReading.observed_at >= since)
        query = query.order_by(PriceReading.observed_at.desc(), PriceReading.reading_id.desc()).limit(latest)
        names = PriceReadingView.__dataclass_fields__
        with reading(self.engine) as session:
            return [PriceReadingView(**{n: getattr(row, n) for n in names}) for row in session.scalars(query)][::-1]

    def accepted_price(self, provider: str, purchase: str, term: str | None = None) -> PriceView | None:
        """The price that holds now, by what was accepted; None if none ever was."""
        with reading(self.engine) as session:
            return ledger.accepted_price(session, provider, purchase, term)

    def accept_price(
        self, provider: str, purchase: str, term: str | None, usd_per_hour: float, since: date, source: str, *, by: str, why: str
    ) -> PriceView:
        """From the day `since` on, readings are held against this price (USD, whole instance); the one before ends there.

        Goes to the audit log under the subject `price/<provider>/<purchase>`; the price that holds already, from no later day, changes nothing.
        ValueError for a price that is not above 0, and without who and why.
        """
        if not (math.isfinite(usd_per_hour) and usd_per_hour > 0):
            raise ValueError(f"usd_per_hour is {usd_per_hour}; expected a price above 0 in USD per instance-hour")
        for name, value in (("by", by), ("why", why)):
            if not value.strip():
                raise ValueError(f"{name} is empty; expected who accepts the price and why")
        with writing(self.engine) as session:
            return ledger.accept_price(session, provider, purchase, term, usd_per_hour, since, source, by, why, utc_now())

    def save_snapshot(self, record: SnapshotRecord) -> SnapshotView:
        """Store a snapshot. The same one again changes nothing."""
        facts, figures = dict(sorted(record.facts.items())), dict(sorted(record.figures.items()))
        taken_at = record.taken_at.astimezone(timezone.utc)
        content = {"provider": record.provider, "kind": record.kind, "taken_at": taken_at.isoformat(), "facts": facts, "figures": figures}
        view = SnapshotView(record.provider, record.kind, taken_at, facts, figures, snapshot_id=digest(content), facts_hash=digest(facts))
        with writing(self.engine) as session:
            insert_new(session, Snapshot, asdict(view), ["snapshot_id"])
        return view

    def latest_snapshot(self, provider: str, kind: SnapshotKind, before: datetime | None = None) -> SnapshotView | None:
        """The provider's last snapshot of a kind, taken `before` a time if asked; None if there is none."""
        query = _snapshots(provider, kind).order_by(Snapshot.taken_at.desc(), Snapshot.snapshot_id).limit(1)
        if before is not None:
            query = query.where(Snapshot.taken_at < before)
        with reading(self.engine) as session:
            return next(iter(_views(session, query)), None)

    def snapshots(
        self, provider: str, kind: SnapshotKind | None = None, since: datetime | None = None, latest: int | None = None
    ) -> list[SnapshotView]:
        """A provider's snapshots, oldest first: of one kind if asked, from a time on, the `latest` so many."""
        query = _snapshots(provider, kind).order_by(Snapshot.taken_at.desc(), Snapshot.snapshot_id).limit(latest)
        if since is not None:
            query = query.where(Snapshot.taken_at >= since)
        with reading(self.engine) as session:
            return _views(session, query)[::-1]


def _snapshots(provider: str, kind: SnapshotKind | None) -> Select[Snapshot]:
    query = select(Snapshot).where(Snapshot.provider == provider)
    return query if kind is None else query.where(Snapshot.kind == kind)


def _views(session: Session, query: Select[Snapshot]) -> list[SnapshotView]:
    names = SnapshotView.__dataclass_fields__
    return [SnapshotView(**{name: getattr(row, name) for name in names}) for row in session.scalars(query)]
