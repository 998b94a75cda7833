"""Prices that were seen and decisions that were made from the archive's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.inserts import insert_new
from plumbline.archive.judgements import Decision, Price
from plumbline.archive.records import DecisionRecord, DecisionView, PriceRecord, PriceView
from plumbline.declarations import digest


def save_prices(session: Session, prices: Sequence[PriceRecord], now: datetime) -> tuple[PriceRecord, ...]:
    """Store prices; those that were not known, which is what a price finding starts from."""
    new = []
    for price in prices:
        content, price_id = asdict(price), _price_id(price)
        if insert_new(session, Price, {**content, "price_id": price_id, "first_seen_at": now, "last_seen_at": now}, ["price_id"]):
            new.append(price)
        else:
            session.execute(update(Price).where(Price.price_id == price_id).values(last_seen_at=now))
    return tuple(new)


def prices(session: Session, provider: str | Sequence[str] | None = None) -> list[PriceView]:
    """Prices by provider, purchase and the day from which they hold; of one provider, or of several."""
    query = select(Price).order_by(Price.provider, Price.purchase, Price.since, Price.first_seen_at)
    if provider is not None:
        query = query.where(Price.provider.in_([provider] if isinstance(provider, str) else provider))
    return [_price_view(row) for row in session.scalars(query)]


def accepted_price(session: Session, provider: str, purchase: str, term: str | None) -> PriceView | None:
    """The price that has no end; None if none was ever accepted."""
    row = session.scalars(_standing(provider, purchase, term)).first()
    return None if row is None else _price_view(row)


def accept_price(
    session: Session,
    provider: str,
    purchase: str,
    term: str | None,
    usd_per_hour: float,
    since: date,
    source: str,
    by: str,
    why: str,
    now: datetime,
) -> PriceView:
    """End the price that holds on the day `since` and let this one follow it; the same price from no later day changes nothing."""
    before = session.scalars(_standing(provider, purchase, term).with_for_update()).all()
    if before and before[0].usd_per_hour == usd_per_hour and since <= before[0].since:
        return _price_view(before[0])
    for row in before:
        row.until = max(since, row.since)
    record = PriceRecord(provider, purchase, usd_per_hour, since, None, source, term)
    # Its own row, also if the same price was accepted on the same day before: what ended stays as it was said.
    price_id = digest({"price": _price_id(record), "accepted_at": now.isoformat()})
    made = Price(**asdict(record), price_id=price_id, first_seen_at=now, last_seen_at=now)
    session.add(made)
    detail = {
        "usd_per_hour": usd_per_hour,
        "before": before[0].usd_per_hour if before else None,
        "term": term,
        "since": since.isoformat(),
        "source": source,
    }
    audit.write(session, now, who=by, what="price_accepted", subject=f"price/{provider}/{purchase}", why=why, detail=detail)
    session.flush()
    return _price_view(made)


def _standing(provider: str, purchase: str, term: str | None) -> Select[Price]:
    of = select(Price).where(Price.provider == provider, Price.purchase == purchase, Price.term == term, Price.until.is_(None))
    return of.order_by(Price.since.desc(), Price.first_seen_at.desc())


def _price_id(price: PriceRecord) -> str:
    content = {**asdict(price), "since": price.since.isoformat(), "until": price.until.isoformat() if price.until else None}
    if price.term is None:
        del content["term"]  # prices were named before there were terms
    return digest(content)


def _price_view(row: Price) -> PriceView:
    return PriceView(**{name: getattr(row, name) for name in PriceView.__dataclass_fields__})


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
