"""Taking in what another archive concluded. Where both have something to say of a finding or a series, the archive keeps its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from plumbline.archive import quarantine
from plumbline.archive.bundle.backing import Contradiction
from plumbline.archive.bundle.rows import Tables, table_of
from plumbline.archive.bundle.tables import Row
from plumbline.archive.inserts import insert_new
from plumbline.archive.judgements import AuditEntry, Baseline, Decision, Finding, Incident, Price
from plumbline.archive.models import Base, Quarantined
from plumbline.archive.observed import PriceReading, Snapshot
from plumbline.declarations import digest
from plumbline.results import addresses

_OF_NO_CAMPAIGN = ("decisions", "prices", "price_readings", "snapshots")
_TRIAL_ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,250}")
_KEYS: tuple[tuple[type[Base], tuple[str, ...]], ...] = (
    (Finding, ("finding_id",)),
    (Incident, ("finding_id", "channel")),
    (Quarantined, ("quarantine_id",)),
    (Decision, ("decision_id",)),
    (Price, ("price_id",)),
    (PriceReading, ("reading_id",)),
    (Snapshot, ("snapshot_id",)),
)


FOREIGN = " (imported)"
"""Ends the `who` of an entry that another archive's log says."""


def take_in(session: Session, found: Tables, campaign_id: str | None) -> tuple[str, ...]:
    """Add what is new of one campaign, or of none; what the archive kept as it had it, in words.

    These are claims of the other archive that no document backs. Contradiction for a row of another campaign, or of what the part does not hold.
    """
    _belong(found, campaign_id)
    notes: list[str] = []
    opened: set[str] = set()
    for model, key in _KEYS:
        listed = found.get(model.__tablename__, ())
        if model is Incident:  # a thread that the other archive has of a finding of this one says nothing of whether people here were told
            listed = [row for row in listed if row["finding_id"] in opened]
        known = [row for row in listed if not insert_new(session, model, row, key)]
        if model is Finding:
            opened = {row["finding_id"] for row in listed} - {row["finding_id"] for row in known}
            notes += [note for row in known if (note := _other_state(session, row))]
    notes += [note for row in found.get("baselines", ()) if (note := _baseline(session, row, found.get("audit", ())))]
    for row in found.get("audit", ()):
        _audit(session, row)
    return tuple(notes)


def _belong(found: Tables, campaign_id: str | None) -> None:
    for name in ("findings", "baselines", "quarantine"):
        for row in found.get(name, ()):
            if row["campaign_id"] != campaign_id:
                raise Contradiction(f"{name}: a row is of the campaign {row['campaign_id']}; expected {campaign_id or 'none'}")
    if campaign_id is not None and (other := next((name for name in _OF_NO_CAMPAIGN if found.get(name)), None)):
        raise Contradiction(f"{other} belongs to no campaign; expected it in the ledger")
    for row in found.get("quarantine", ()):
        content = [row["campaign_id"], row["trial_id"], row["attempt"], row["sha256"]]
        if row["quarantine_id"] != quarantine.id_of(*content) or not _TRIAL_ID.fullmatch(row["trial_id"]) or row["attempt"] < 1:
            raise Contradiction(f"quarantine: {row['quarantine_id']!r} is not the id of its campaign, trial, attempt and SHA-256")
        addresses.well_formed(row["uri"])
    for row in found.get("snapshots", ()):
        if digest(dict(sorted(row["facts"].items()))) != row["facts_hash"]:
            raise Contradiction(f"the facts of the snapshot {row['snapshot_id']} do not hash to {row['facts_hash']}")


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
    """Add an entry of the other archive's log, marked as such: it proves nothing here, and takes no key from an entry of this archive."""
    who = row["who"].removesuffix(FOREIGN)
    table: Any = table_of(AuditEntry)
    same = (table.c[name] == row[name] for name in ("at", "what", "subject", "why"))
    if session.execute(select(table.c.id).where(*same, table.c.who.in_([who, who + FOREIGN])).limit(1)).first() is None:
        session.execute(insert(AuditEntry), [{**row, "who": who + FOREIGN, "once_key": None}])
