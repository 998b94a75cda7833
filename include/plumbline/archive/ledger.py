"""Prices that were seen and decisions that were made from the archive's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from plumbline.archive.inserts import insert_new
from plumbline.archive.judgements import Decision, Price
from plumbline.archive.records import DecisionRecord, DecisionView, PriceRecord, PriceView
from plumbline.declarations import digest


def save_prices(session: Session, prices: Sequence[PriceRecord], now: datetime) -> tuple[PriceRecord, ...]:
    """Store prices; those that were not known, which is what a price finding starts from."""
    new = []
    for price in prices:
        content = asdict(price)
        price_id = digest({**content, "since": price.since.isoformat(), "until": price.until.isoformat() if price.until else None})
        if insert_new(session, Price, {**content, "price_id": price_id, "first_seen_at": now, "last_seen_at": now}, ["price_id"]):
            new.append(price)
        else:
            session.execute(update(Price).where(Price.price_id == price_id).values(last_seen_at=now))
    return tuple(new)


def prices(session: Session, provider: str | None = None) -> list[PriceView]:
    """Prices by provider, purchase and the day from which they hold."""
    query = select(Price).order_by(Price.provider, Price.purchase, Price.since, Price.first_seen_at)
    if provider is not None:
        query = query.where(Price.provider == provider)
    return [PriceView(**{name: getattr(row, name) for name in PriceView.__dataclass_fields__}) for row in session.scalars(query)]


def save_decision(session: Session, decision: DecisionRecord, now: datetime) -> bool:
    """Store a decision; False if the same one, from the same inputs, is there already."""
    values = {**asdict(decision), "detail": dict(decision.detail), "decided_at": now}
    return insert_new(session, Decision, values, ["decision_id"])


def decisions(session: Session, team: str | None = None, kind: str | None = None) -> list[DecisionView]:
    """Decisions, newest first."""
    query = select(Decision).order_by(Decision.decided_at.desc(), Decision.decision_id)
    if team is not None:
        query = query.where(Decision.team == team)
    if kind is not None:
        query = query.where(Decision.kind == kind)
    return [DecisionView(**{name: getattr(row, name) for name in DecisionView.__dataclass_fields__}) for row in session.scalars(query)]
