"""Prices: readings from price sources and the accepted price of each purchase type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime, timezone

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.records import (
    PriceReadingView,
    SnapshotKind,
    SnapshotRecord,
    SnapshotView,
)
from plumbline.archive.repository import insert_new, view_of, where_equal
from plumbline.archive.schema import Decision, Price, PriceReading, Snapshot
from plumbline.declarations import digest
from plumbline.results.price_reading import Reading
from plumbline.results.stored import DecisionRecord, DecisionView, PriceRecord, PriceView

PRICE_SUBJECT = "price/"
"""How subjects of the audit log about a price begin: `price/PROVIDER/PURCHASE`."""


def priced_by(named: str) -> tuple[str, str] | None:
    """Provider and purchase that a subject of the audit log names; None if it is about no price."""
    provider, _, purchase = named.removeprefix(PRICE_SUBJECT).rpartition("/")
    return (provider, purchase) if named.startswith(PRICE_SUBJECT) else None


def prices(session: Session, provider: str | Sequence[str] | None = None) -> list[PriceView]:
    """Prices by provider, purchase and first day; of all providers, or of the named ones."""
    query = where_equal(select(Price), (Price.provider, provider))
    rows = session.scalars(query.order_by(Price.provider, Price.purchase, Price.since, Price.first_seen_at))
    return [view_of(PriceView, row) for row in rows]


def accepted_price(session: Session, provider: str, purchase: str, term: str | None = None) -> PriceView | None:
    """The accepted price in force; None if none was ever accepted."""
    row = session.scalars(_in_force(provider, purchase, term)).first()
    return None if row is None else view_of(PriceView, row)


def accept_price(
    session: Session,
    now: datetime,
    provider: str,
    purchase: str,
    term: str | None,
    usd_per_hour: float,
    since: date,
    source: str,
    *,
    by: str,
    why: str,
) -> PriceView:
    """From the day `since` on, readings are compared with this price (USD, whole instance); the one before ends there.

    Goes to the audit log under the subject `price/<provider>/<purchase>`; the price that holds already, from no later day, changes nothing.
    ValueError for a price that is not above 0, and without who and why.
    """
    if not (math.isfinite(usd_per_hour) and usd_per_hour > 0):
        raise ValueError(f"usd_per_hour is {usd_per_hour}; expected a price above 0 in USD per instance-hour")
    audit.require_author(by, why, "accepts the price")
    before = session.scalars(_in_force(provider, purchase, term).with_for_update()).all()
    if before and before[0].usd_per_hour == usd_per_hour and since <= before[0].since:
        return view_of(PriceView, before[0])
    for row in before:
        row.until = max(since, row.since)
    record = PriceRecord(provider, purchase, usd_per_hour, since, None, source, term)
    # Its own row, also if the same price was accepted on the same day before: what ended stays as it was said.
    price_id = digest({**asdict(record), "since": since.isoformat(), "accepted_at": now.isoformat()})
    price = Price(**asdict(record), price_id=price_id, first_seen_at=now, last_seen_at=now)
    session.add(price)
    detail = {
        "usd_per_hour": usd_per_hour,
        "before": before[0].usd_per_hour if before else None,
        "term": term,
        "since": since.isoformat(),
        "source": source,
    }
    audit.write_entry(session, now, who=by, what="price_accepted", subject=f"{PRICE_SUBJECT}{provider}/{purchase}", why=why, detail=detail)
    session.flush()
    return view_of(PriceView, price)


def _in_force(provider: str, purchase: str, term: str | None) -> Select[Price]:
    of = select(Price).where(Price.provider == provider, Price.purchase == purchase, Price.term == term, Price.until.is_(None))
    return of.order_by(Price.since.desc(), Price.first_seen_at.desc())


def save_decision(session: Session, now: datetime, decision: DecisionRecord) -> bool:
    """Store a decision; False if the same one, from the same inputs, is there already."""
    values = {**asdict(decision), "detail": dict(decision.detail), "decided_at": now}
    return insert_new(session, Decision, values, ["decision_id"])


def decisions(session: Session, team: str | None = None, kind: str | None = None) -> list[DecisionView]:
    """Decisions, newest first."""
    query = select(Decision).order_by(Decision.decided_at.desc(), Decision.decision_id)
    query = where_equal(query, (Decision.team, team), (Decision.kind, kind))
    return [view_of(DecisionView, row) for row in session.scalars(query)]


def record_readings(session: Session, now: datetime, readings: Sequence[Reading]) -> tuple[str, ...]:
    """Store readings; the ids of those that are new. One that is known changes nothing."""
    computed = ("reading_id", "usd_per_gpu_hour", "usd_per_instance_hour")
    rows = [{**reading.stored, **{name: getattr(reading, name) for name in computed}, "recorded_at": now} for reading in readings]
    return tuple(str(row["reading_id"]) for row in rows if insert_new(session, PriceReading, row, ["reading_id"]))


def price_readings(
    session: Session,
    provider: str,
    purchase: str | None = None,
    term: str | None = None,
    *,
    source: str | None = None,
    latest: int | None = None,
) -> list[PriceReadingView]:
    """A provider's readings, oldest first, at most the `latest`; only of the purchase, term and source that are named."""
    filters = ((PriceReading.purchase, purchase), (PriceReading.term, term), (PriceReading.source, source))
    query = where_equal(select(PriceReading).where(PriceReading.provider == provider), *filters)
    query = query.order_by(PriceReading.observed_at.desc(), PriceReading.reading_id.desc()).limit(latest)
    return [view_of(PriceReadingView, row) for row in session.scalars(query)][::-1]


def save_snapshot(session: Session, now: datetime, record: SnapshotRecord) -> SnapshotView:
    """Store a snapshot. The same one again changes nothing."""
    facts, figures = dict(sorted(record.facts.items())), dict(sorted(record.figures.items()))
    taken_at = record.taken_at.astimezone(timezone.utc)
    content = {"provider": record.provider, "kind": record.kind, "taken_at": taken_at.isoformat(), "facts": facts, "figures": figures}
    view = SnapshotView(record.provider, record.kind, taken_at, facts, figures, snapshot_id=digest(content), facts_hash=digest(facts))
    insert_new(session, Snapshot, asdict(view), ["snapshot_id"])
    return view


def latest_snapshot(session: Session, provider: str, kind: SnapshotKind, until: datetime) -> SnapshotView | None:
    """The provider's last snapshot of a kind `until` a time; None if there is none. What a wrong clock wrote after it is no last one."""
    return next(iter(snapshots(session, provider, kind, latest=1, until=until)), None)


def snapshots(
    session: Session, provider: str, kind: SnapshotKind | None = None, latest: int | None = None, until: datetime | None = None
) -> list[SnapshotView]:
    """A provider's snapshots, oldest first, at most the `latest` and `until` a time; only of the kind that is named."""
    query = where_equal(select(Snapshot).where(Snapshot.provider == provider), (Snapshot.kind, kind))
    query = query if until is None else query.where(Snapshot.taken_at <= until)
    newest = query.order_by(Snapshot.taken_at.desc(), Snapshot.snapshot_id).limit(latest)
    return [view_of(SnapshotView, row) for row in session.scalars(newest)][::-1]
