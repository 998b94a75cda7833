"""Taking in what another archive concluded. Where both have something to say of a finding or a series, the archive keeps its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from plumbline.archive.bundle.rows import Tables, table_of
from plumbline.archive.bundle.tables import Row
from plumbline.archive.inserts import insert_new
from plumbline.archive.judgements import AuditEntry, Baseline, Decision, Finding, Incident, Price
from plumbline.archive.models import Base, Quarantined
from plumbline.archive.observed import PriceReading, Snapshot

_KEYS: tuple[tuple[type[Base], tuple[str, ...]], ...] = (
    (Finding, ("finding_id",)),
    (Incident, ("finding_id", "channel")),
    (Quarantined, ("quarantine_id",)),
    (Decision, ("decision_id",)),
    (Price, ("price_id",)),
    (PriceReading, ("reading_id",)),
    (Snapshot, ("snapshot_id",)),
)


def take_in(session: Session, found: Tables) -> tuple[str, ...]:
    """Add what is new; what the archive kept as it had it, in words."""
    notes: list[str] = []
    for model, key in _KEYS:
        known = [row for row in found.get(model.__tablename__, ()) if not insert_new(session, model, row, key)]
        if model is Finding:
            notes += [note for row in known if (note := _other_state(session, row))]
    notes += [note for row in found.get("baselines", ()) if (note := _baseline(session, row, found.get("audit", ())))]
    for row in found.get("audit", ()):
        _audit(session, row)
    return tuple(notes)


def _other_state(session: Session, row: Row) -> str | None:
    state = session.scalars(select(Finding.state).where(Finding.finding_id == row["finding_id"])).one()
    return None if state == row["state"] else f"finding {row['finding_id']} stays {state} ({row['state']} in the bundle)"


def _baseline(session: Session, row: Row, log: Sequence[Row]) -> str | None:
    query = select(Baseline).where(Baseline.series_key == row["series_key"]).order_by(Baseline.accepted_at, Baseline.id)
    mine = session.execute(query).scalars().all()
    if any((b.campaign_id, b.rule, b.accepted_at) == (row["campaign_id"], row["rule"], row["accepted_at"]) for b in mine):
        return None
    # A series is bootstrapped in one archive, and what it is held against moves only by a decision that somebody made in this one.
    if not _joins(row, mine, log) and (
        (row["rule"] == "bootstrap" and any(b.rule == "bootstrap" for b in mine))
        or (row["superseded_at"] is None and any(b.superseded_at is None for b in mine))
    ):
        return f"baseline of {row['series_key']}: the archive keeps its own, not {row['campaign_id']}"
    session.execute(insert(Baseline), [row])
    return None


def _joins(row: Row, mine: Sequence[Baseline], log: Sequence[Row]) -> bool:
    """Whether the bundle's row joined, by the bootstrap rule, exactly the baseline that the archive has of it so far."""
    held = [b for b in mine if b.rule == "bootstrap"]
    alike = all((b.superseded_at is None) == (row["superseded_at"] is None) for b in held)
    said = (entry["detail"] for entry in log if (entry["what"], entry["subject"]) == ("baseline_accepted", row["series_key"]))
    return (
        bool(held) and alike and {"campaign_id": row["campaign_id"], "rule": row["rule"], "before": [b.campaign_id for b in held]} in said
    )


def _audit(session: Session, row: Row) -> None:
    if row["once_key"] is not None:
        insert_new(session, AuditEntry, row, ["once_key"])
        return
    table: Any = table_of(AuditEntry)
    same = (table.c[name] == row[name] for name in ("at", "who", "what", "subject", "why"))
    if session.execute(select(table.c.id).where(*same, table.c.once_key.is_(None)).limit(1)).first() is None:
        session.execute(insert(AuditEntry), [row])
