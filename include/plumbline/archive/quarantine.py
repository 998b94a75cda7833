"""Result documents that failed verification: each listed with its reason and location until a retry accepts it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.records import QuarantineRecord, QuarantineView
from plumbline.archive.repository import insert_new, view_of, where_equal
from plumbline.archive.schema import Quarantined
from plumbline.declarations import digest

_ID_LENGTH = 12


def id_of(campaign_id: str, trial_id: str, attempt: int, sha256: str) -> str:
    """The id of this content of this attempt."""
    return digest([campaign_id, trial_id, attempt, sha256])[:_ID_LENGTH]


def add(session: Session, now: datetime, record: QuarantineRecord) -> bool:
    """List a document; False if this content of this attempt is listed already."""
    quarantine_id = id_of(record.campaign_id, record.trial_id, record.attempt, record.sha256)
    values = {**asdict(record), "quarantine_id": quarantine_id, "state": "kept", "quarantined_at": now, "updated_at": now}
    new = insert_new(session, Quarantined, values, ["quarantine_id"])
    if new:
        detail = {"uri": record.uri, "trial_id": record.trial_id, "attempt": record.attempt}
        audit.write_entry(session, now, who="record", what="document_quarantined", subject=quarantine_id, why=record.reason, detail=detail)
    return new


def find(session: Session, *, everything: bool = False, campaign_id: str | None = None) -> list[QuarantineView]:
    """Documents in quarantine, oldest first; with `everything`, also released ones."""
    query = select(Quarantined).order_by(Quarantined.quarantined_at, Quarantined.quarantine_id)
    query = where_equal(query, (Quarantined.state, None if everything else "kept"), (Quarantined.campaign_id, campaign_id))
    return [view_of(QuarantineView, row) for row in session.scalars(query)]


def get(session: Session, quarantine_id: str) -> QuarantineView:
    """One document; LookupError if there is none of that id."""
    return view_of(QuarantineView, _row(session, quarantine_id))


def release(session: Session, now: datetime, quarantine_id: str, by: str, why: str) -> QuarantineView:
    """Accept a document of the quarantine; goes to the audit log. LookupError for an unknown id. Released again, nothing changes."""
    row = _row(session, quarantine_id)
    if row.state == "kept":
        row.state, row.updated_at = "released", now
        audit.write_entry(session, now, who=by, what="document_released", subject=quarantine_id, why=why)
        session.flush()
    return view_of(QuarantineView, row)


def _row(session: Session, quarantine_id: str) -> Quarantined:
    row = session.get(Quarantined, quarantine_id)
    if row is None:
        raise LookupError(f'the quarantine has no document "{quarantine_id}"; `plumbline archive quarantine list` shows all')
    return row
