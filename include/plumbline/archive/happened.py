"""What happened in a span of time: entries of the audit log, changed prices, moved first choices. Every query is bounded by the span and a limit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import get_args

from sqlalchemy import func, select, union_all
from sqlalchemy.orm import Session

from plumbline.archive.audit import SERIES_REVIEWED
from plumbline.archive.findings import finding_view
from plumbline.archive.records import AuditView
from plumbline.archive.repository import Span, batches, where_equal, where_within
from plumbline.archive.schema import AuditEntry, Decision, Finding, PriceReading, Series, SeriesCampaign
from plumbline.declarations.providers.rates import ListedPurchase
from plumbline.metrics.units import Amount
from plumbline.results.stored import FindingView

_SLACK = timedelta(days=1)
"""Clocks of machines that write the audit log differ by less."""


@dataclass(frozen=True)
class PriceStep:
    """Two readings of one source, one after the other, that differ. `before`, `after`: USD per instance-hour."""

    reading_id: str
    provider: str
    purchase: str
    term: str | None
    source: str
    at: datetime
    before: Amount
    after: Amount


@dataclass(frozen=True)
class MovedChoice:
    """A stored decision with another first provider than the one before it. `first`: None where no provider is eligible."""

    decision_id: str
    team: str
    kind: str
    workloads: tuple[str, ...]
    first: str | None
    instead_of: str
    why: str
    decided_at: datetime
    simulated: bool


def audit_between(
    session: Session, what: Collection[str], between: Span, limit: int, subjects: Collection[str] | None = None
) -> list[AuditView]:
    """The newest `limit` entries of these actions in a span, newest first; of `subjects` alone, if named."""
    rows: list[AuditEntry] = []
    for some in batches(subjects) if subjects is not None else [None]:
        query = where_within(select(AuditEntry).where(AuditEntry.what.in_(what)), AuditEntry.at, between)
        query = where_equal(query, (AuditEntry.subject, some))
        if some is None and between[0] is not None:
            query = query.where(AuditEntry.id > _last_before(session, between[0]))
        rows += session.scalars(query.order_by(AuditEntry.at.desc(), AuditEntry.id.desc()).limit(limit))
    rows.sort(key=lambda row: (row.at, row.id), reverse=True)
    return [AuditView(e.at, e.who, e.what, e.subject, e.why, e.detail) for e in rows[:limit]]


def reviews_between(session: Session, between: Span) -> dict[str, datetime]:
    """Campaign → when the last of its series was reviewed, of those in a span."""
    campaign = AuditEntry.detail["campaign_id"].as_string()
    query = where_within(select(campaign, func.max(AuditEntry.at)).where(AuditEntry.what == SERIES_REVIEWED), AuditEntry.at, between)
    if between[0] is not None:
        query = query.where(AuditEntry.id > _last_before(session, between[0]))
    return dict(session.execute(query.group_by(campaign)).tuples().all())


def newest_entry(session: Session, what: Collection[str]) -> datetime | None:
    """When the audit log's newest entry of these actions was written; None without one."""
    return session.scalar(select(AuditEntry.at).where(AuditEntry.what.in_(what)).order_by(AuditEntry.id.desc()).limit(1))


def findings_by_id(session: Session, finding_ids: Collection[str]) -> list[FindingView]:
    """The findings with these ids; unknown ones are left out."""
    names = sorted(finding_ids)
    return [finding_view(row) for some in batches(names) for row in session.scalars(select(Finding).where(Finding.finding_id.in_(some)))]


def providers_of_campaigns(session: Session, campaigns: Sequence[str]) -> dict[str, set[str]]:
    """Campaign → the providers that took part."""
    query = select(SeriesCampaign.campaign_id, Series.provider).join(Series, Series.series_key == SeriesCampaign.series_key)
    found: dict[str, set[str]] = {}
    for campaign_id, provider in session.execute(query.where(SeriesCampaign.campaign_id.in_(campaigns)).distinct()):
        found.setdefault(campaign_id, set()).add(provider)
    return found


def price_steps(session: Session, providers: Sequence[str], purchases: Sequence[ListedPurchase], between: Span) -> list[PriceStep]:
    """Changes of prices from one reading of a source to its next one, in a span, oldest first. Found by an index of each provider."""
    of = (PriceReading.provider, PriceReading.purchase, PriceReading.term, PriceReading.source)
    columns = (*of, PriceReading.observed_at, PriceReading.usd_per_instance_hour, PriceReading.reading_id)
    query = where_within(
        select(*columns).where(PriceReading.provider.in_(providers), PriceReading.purchase.in_(purchases)),
        PriceReading.observed_at,
        between,
    )
    steps: list[PriceStep] = []
    before: dict[tuple[str, str, str | None, str], float | None] = {}
    for row in session.execute(query.order_by(PriceReading.observed_at, PriceReading.reading_id)):
        key = (row.provider, row.purchase, row.term, row.source)
        if key not in before:
            before[key] = _price_before(session, *key, between[0]) if between[0] is not None else None
        old, now = before[key], row.usd_per_instance_hour
        if old is not None and now != old:
            steps.append(PriceStep(row.reading_id, *key, row.observed_at, old, now))
        before[key] = now
    return sorted(steps, key=lambda step: (step.at, step.reading_id))


def newest_price_reading(session: Session, providers: Sequence[str]) -> datetime | None:
    """When the newest reading of a price of these providers was observed; one seek in the index for each purchase."""
    newest: list[datetime] = []
    for names in batches(providers, 50):
        seeks = [
            select(func.max(PriceReading.observed_at, type_=PriceReading.observed_at.type)).where(
                PriceReading.provider == name, PriceReading.purchase == purchase
            )
            for name in names
            for purchase in get_args(ListedPurchase)
        ]
        newest += [at for at in session.scalars(union_all(*seeks)) if at is not None]
    return max(newest, default=None)


def moved_choices(session: Session, between: Span, limit: int) -> list[MovedChoice]:
    """The newest `limit` stored decisions of a span that moved a first choice, newest first; the rest of each document is not read."""
    before = Decision.detail["instead_of"].as_string()
    columns = (
        Decision.decision_id, Decision.team, Decision.kind, Decision.detail["workloads"].as_json(), Decision.winner, before, Decision.detail["why"].as_string(),
        Decision.decided_at, func.coalesce(Decision.detail["simulated"].as_boolean(), False),
    )  # fmt: skip
    query = where_within(select(*columns).where(before.is_not(None)), Decision.decided_at, between)
    rows = session.execute(query.order_by(Decision.decided_at.desc(), Decision.decision_id).limit(limit))
    return [
        MovedChoice(name, team, kind, tuple(workloads or ()), first, str(old), why or "", at, bool(simulated))
        for name, team, kind, workloads, first, old, why, at, simulated in rows
    ]


def newest_decision(session: Session) -> datetime | None:
    """When the newest decision was stored; None without one."""
    return session.scalar(select(Decision.decided_at).order_by(Decision.decided_at.desc()).limit(1))


def _last_before(session: Session, begin: datetime) -> int:
    """The row of the audit log before which no entry is of the span, found from its end: rows are written in the order of time."""
    query = select(AuditEntry.id).where(AuditEntry.at < begin - _SLACK).order_by(AuditEntry.id.desc()).limit(1)
    return session.scalar(query) or 0


def _price_before(session: Session, provider: str, purchase: str, term: str | None, source: str, begin: datetime) -> float | None:
    query = select(PriceReading.usd_per_instance_hour).where(
        PriceReading.provider == provider,
        PriceReading.purchase == purchase,
        PriceReading.term == term,
        PriceReading.source == source,
        PriceReading.observed_at < begin,
    )
    return session.scalar(query.order_by(PriceReading.observed_at.desc(), PriceReading.reading_id.desc()).limit(1))
