"""Rows that may go: environment checks that found nothing new, and documents in quarantine past their time."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.models import Quarantined
from plumbline.archive.observed import Snapshot
from plumbline.archive.retention import WHO

_NEWEST = 200
"""Of each provider and kind that stay whatever their age: figures of probes are compared with those of earlier ones."""
_BATCH = 500


def thin_snapshots(session: Session, before: datetime) -> int:
    """Delete snapshots taken before a time whose facts equal those of their neighbours; how many. Both sides of each change stay."""
    columns = (Snapshot.snapshot_id, Snapshot.provider, Snapshot.kind, Snapshot.taken_at, Snapshot.facts_hash)
    rows = session.execute(select(*columns).order_by(Snapshot.provider, Snapshot.kind, Snapshot.taken_at, Snapshot.snapshot_id)).all()
    due: list[str] = []
    for _, group in groupby(rows, lambda row: (row.provider, row.kind)):
        checks = list(group)
        for earlier, row, later in zip(checks, checks[1:], checks[2 : len(checks) - _NEWEST + 1], strict=False):
            if row.taken_at < before and earlier.facts_hash == row.facts_hash == later.facts_hash:
                due.append(row.snapshot_id)
    for start in range(0, len(due), _BATCH):
        session.execute(delete(Snapshot).where(Snapshot.snapshot_id.in_(due[start : start + _BATCH])))
    return len(due)


def forget_quarantined(session: Session, before: datetime, below: str, rule: str, now: datetime) -> list[str]:
    """Delete the rows of documents quarantined before a time whose copy lies below the URL `below`; the copies' URLs, for whoever deletes them.

    The audit log keeps what each one was.
    """
    found = session.scalars(select(Quarantined).where(Quarantined.quarantined_at < before).order_by(Quarantined.quarantine_id)).all()
    gone = [row for row in found if row.uri.startswith(f"{below}/") and ".." not in row.uri.split("/")]
    for row in gone:
        detail = {"uri": row.uri, "sha256": row.sha256, "trial_id": row.trial_id, "attempt": row.attempt, "state": row.state}
        audit.write(session, now, who=WHO, what="document_forgotten", subject=row.quarantine_id, why=rule, detail=detail)
        session.delete(row)
    return [row.uri for row in gone]
