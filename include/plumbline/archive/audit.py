"""The audit log. Rows are only added."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from plumbline.archive.records import AuditView
from plumbline.archive.repository import insert_new, where_equal
from plumbline.archive.schema import AuditEntry

TIMED_OUT = "nobody (the question timed out)"
"""The author of a question that no person answered."""
PROGRAM_AUTHORS = frozenset({
    "acceptance", "alerts", "availability_watch", "budget", "digest", "drift", "import", "invoice", "plumbline", "price_watch", "provider_watch",
    "ranking", "record", "retention", TIMED_OUT,
})  # fmt: skip
"""Authors of entries that are no people: the program's own tasks."""


def require_author(by: str, why: str, act: str) -> None:
    """ValueError without author or reason; `act`: the author's action for the message, such as `accepts the price`."""
    for name, value in (("by", by), ("why", why)):
        if not value.strip():
            raise ValueError(f"{name} is empty; expected who {act} and why")


def write_entry(
    session: Session,
    at: datetime,
    *,
    who: str,
    what: str,
    subject: str,
    why: str = "",
    detail: Mapping[str, Any] | None = None,
    once: str | None = None,
) -> None:
    """Add an entry. With `once`, only if no entry has that key, so that a retry adds none."""
    values = {"at": at, "who": who, "what": what, "subject": subject, "why": why, "detail": dict(detail or {}), "once_key": once}
    if once is None:
        session.add(AuditEntry(**values))
    else:
        insert_new(session, AuditEntry, values, ["once_key"])


def entries(session: Session, subject: str | tuple[str, ...] | None = None) -> list[AuditView]:
    """The audit log, oldest entry first; if named, only about these subjects (series keys, finding ids, trial ids)."""
    query = where_equal(select(AuditEntry).order_by(AuditEntry.at, AuditEntry.id), (AuditEntry.subject, subject))
    return [AuditView(e.at, e.who, e.what, e.subject, e.why, e.detail) for e in session.scalars(query)]


SERIES_REVIEWED = "series_reviewed"
CAMPAIGN_REVIEWED = "campaign_reviewed"
"""Its subject is a campaign and a provider; its detail names both, and `recorded_at`: the newest record that the review has seen."""
DELIVERY_JUDGED = "delivery_judged"
"""Its subject is the campaign, its reason the verdict in words; its detail names `provider` and `verdict`."""


def newest_reviews(session: Session, series_keys: Collection[str], campaign_id: str | None = None) -> dict[str, Mapping[str, Any]]:
    """Series → the detail of its newest review, of one campaign if asked: `campaign_id`, and the fields of its state. Series without a review
    have none."""
    own = [AuditEntry.what == SERIES_REVIEWED, AuditEntry.subject.in_(series_keys)]
    if campaign_id is not None:
        own.append(AuditEntry.detail["campaign_id"].as_string() == campaign_id)
    newest = select(func.max(AuditEntry.id)).where(*own).group_by(AuditEntry.subject)
    query = select(AuditEntry.subject, AuditEntry.detail).where(AuditEntry.id.in_(newest))
    return {row.subject: row.detail for row in session.execute(query)}


def review_times(session: Session, series_key: str, campaign_ids: Collection[str]) -> dict[str, datetime]:
    """Campaign → time of the series' last review in it; campaigns without a review are left out."""
    campaign = AuditEntry.detail["campaign_id"].as_string()
    query = select(campaign, func.max(AuditEntry.at)).where(AuditEntry.what == SERIES_REVIEWED, AuditEntry.subject == series_key)
    return dict(session.execute(query.where(campaign.in_(campaign_ids)).group_by(campaign)).tuples().all())
