"""Everything that an archive holds of one campaign, in one order and with one numbering whatever the database, and its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from sqlalchemy import ColumnElement, Table, or_, select
from sqlalchemy.orm import Session

from plumbline.archive.bundle.tables import Row
from plumbline.archive.judgements import AuditEntry, Baseline, Decision, Finding, Incident, Price
from plumbline.archive.models import (
    NATURAL_KEY,
    Base,
    Campaign,
    Correction,
    Document,
    Environment,
    Evidence,
    Metric,
    Quarantined,
    Series,
    SeriesCampaign,
    Stage,
    Telemetry,
    Trial,
)
from plumbline.archive.observed import PriceReading, Snapshot

OF_TRIALS: tuple[type[Base], ...] = (Metric, Stage, Telemetry, Evidence, Correction)
"""Tables whose rows belong to one trial each."""
_SHARED = frozenset({"campaigns", "series", "environments"})
"""Rows that several archives make for themselves: when each first did is not content."""

Tables = dict[str, list[Row]]


def table_of(model: type[Base]) -> Table:
    """The model's table."""
    table = model.__table__
    assert isinstance(table, Table)
    return table


def measured(session: Session, campaign_id: str) -> tuple[Tables, dict[int, str]]:
    """What was measured, by table, and each trial's document by its place. Empty tables are left out."""
    trials = sorted(_select(session, Trial, Trial.campaign_id == campaign_id), key=lambda row: tuple(row[name] for name in NATURAL_KEY))
    place = {row["id"]: i for i, row in enumerate(trials, 1)}
    mine = Trial.campaign_id == campaign_id
    found: Tables = {
        "campaigns": _select(session, Campaign, Campaign.campaign_id == campaign_id),
        "series": _select(
            session, Series, Series.series_key.in_(select(SeriesCampaign.series_key).where(SeriesCampaign.campaign_id == campaign_id))
        ),
        "series_campaigns": _select(session, SeriesCampaign, SeriesCampaign.campaign_id == campaign_id),
        "environments": _select(session, Environment, Environment.environment_hash.in_(select(Trial.environment_hash).where(mine))),
        "trials": [{**row, "id": place[row["id"]]} for row in trials],
    }
    ids = select(Trial.id).where(mine)
    for model in OF_TRIALS:
        rows = _select(session, model, table_of(model).c.trial_pk.in_(ids))
        found[model.__tablename__] = [_placed(row, place) for row in rows]
    documents = {
        place[pk]: content for pk, content in session.execute(select(Document.trial_pk, Document.content).where(Document.trial_pk.in_(ids)))
    }
    return {name: _ordered(name, rows) for name, rows in found.items() if rows}, dict(sorted(documents.items()))


def _placed(row: Row, place: Mapping[int, int]) -> Row:
    return {name: place[value] if name in ("trial_pk", "corrects") else value for name, value in row.items()}


def judged(session: Session, tables: Tables, campaign_id: str) -> Tables:
    """What was concluded from the campaign: findings with their threads, baselines, quarantine, and what the audit log says of any of them."""
    findings = _select(session, Finding, Finding.campaign_id == campaign_id)
    ids = [row["finding_id"] for row in findings]
    held = _select(session, Quarantined, Quarantined.campaign_id == campaign_id)
    subjects = {campaign_id, *ids, *(row["quarantine_id"] for row in held)}
    for row in tables.get("trials", ()):
        subjects |= {row["trial_id"], f"{row['trial_id']}#{row['attempt']}"}
    keys = {row["series_key"] for row in tables.get("series", ())}
    log = [
        row
        for row in _in_chunks(session, AuditEntry, AuditEntry.subject, sorted(subjects | keys))
        if row["subject"] in subjects or row["detail"].get("campaign_id") == campaign_id
    ]
    found: Tables = {
        "findings": findings,
        "incidents": _without_id(_in_chunks(session, Incident, Incident.finding_id, ids)),
        "baselines": _without_id(_select(session, Baseline, Baseline.campaign_id == campaign_id)),
        "quarantine": held,
        "audit": _without_id(log),
    }
    return {name: rows for name, rows in found.items() if rows}


def ledger(session: Session, whole: bool) -> Tables:
    """What belongs to no single campaign; of a `whole` archive also its audit log and the findings that name no campaign, with
    their threads."""
    found: Tables = {"prices": _select(session, Price), "decisions": _select(session, Decision)}
    found |= {"price_readings": _select(session, PriceReading), "snapshots": _select(session, Snapshot)}
    if whole:
        findings = _select(session, Finding, Finding.campaign_id.is_(None))
        threads = _in_chunks(session, Incident, Incident.finding_id, [row["finding_id"] for row in findings])
        found |= {"findings": findings, "incidents": _without_id(threads), "audit": _without_id(_select(session, AuditEntry))}
    return {name: rows for name, rows in found.items() if rows}


def content_hash(tables: Tables, documents: Mapping[int, str]) -> str:
    """SHA-256 (hex) of what was measured: the same in every archive that holds the same rows and documents."""
    sha = hashlib.sha256()
    for name, rows in sorted(tables.items()):
        for row in rows:
            kept = {k: v for k, v in row.items() if not (k == "recorded_at" and name in _SHARED)}
            sha.update(json.dumps([name, kept], sort_keys=True, separators=(",", ":"), default=_plain).encode())
    for place, content in documents.items():
        sha.update(json.dumps(["documents", place, hashlib.sha256(content.encode()).hexdigest()]).encode())
    return sha.hexdigest()


def _plain(value: Any) -> str:
    assert isinstance(value, date)  # a datetime is one
    return value.isoformat()


def _select(session: Session, model: type[Base], *where: ColumnElement[bool]) -> list[Row]:
    table = table_of(model)
    return [dict(row._mapping) for row in session.execute(select(table).where(*where))]


def _in_chunks(session: Session, model: type[Base], column: Any, values: Sequence[str], size: int = 500) -> list[Row]:
    return [row for i in range(0, len(values), size) for row in _select(session, model, or_(column.in_(values[i : i + size])))]


def _ordered(name: str, rows: list[Row]) -> list[Row]:
    # In Python: databases sort text by their own collations.
    keys = [column.name for column in Base.metadata.tables[name].primary_key]
    return sorted(rows, key=lambda row: tuple(row[key] for key in keys))


def _without_id(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]
