"""A campaign's rows as Parquet tables, in one order and numbering on every database, and their content hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import JSON, BigInteger, Column, ColumnElement, Date, Float, Integer, Table, or_, select
from sqlalchemy.orm import Session

from plumbline.archive.repository import insert_new
from plumbline.archive.schema import (
    NATURAL_KEY,
    AuditEntry,
    Base,
    Baseline,
    Campaign,
    Correction,
    Decision,
    Document,
    Environment,
    Evidence,
    Expired,
    Finding,
    Incident,
    Metric,
    Price,
    PriceReading,
    Quarantined,
    Series,
    SeriesCampaign,
    Snapshot,
    Stage,
    Telemetry,
    Trial,
    UtcDateTime,
)
from plumbline.results import InvalidResult, bounded_json, bounded_parquet

Row = dict[str, Any]
MAX_ROWS = 200_000
"""Of one table that becomes rows in memory, at some half a kilobyte each."""
MAX_BYTES = 64 * 2**20
_MAX_METRIC_ROWS = 20_000_000
"""Rows of a table that is read a batch at a time."""


def write_table(path: Path, table: Table, rows: Sequence[Row]) -> None:
    """One file with the rows' columns in the table's order; what is not a column of it is left out."""
    names = [column.name for column in table.columns if column.name in rows[0]]
    columns = [table.columns[name] for name in names]
    schema = pa.schema([(c.name, _type(c.type)) for c in columns])
    arrays = [[_encode(c.type, row[c.name]) for row in rows] for c in columns]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(dict(zip(names, arrays, strict=True)), schema=schema), path, compression="zstd")


def read_table(path: Path, table: Table) -> list[Row]:
    """The rows of a file, with the columns that this version's table has; none if there is no such file.

    InvalidResult, naming file, column and what is expected, for a file that exceeds a bound or holds what the column cannot.
    """
    if not path.exists():
        return []
    where, known = str(path), {column.name: column for column in table.columns}
    read_rows = bounded_parquet.read_table(path, where, columns=list(known), most_rows=MAX_ROWS, most_bytes=MAX_BYTES, whole=False)
    for field in read_rows.schema:
        if field.type != (expected := _type(known[field.name].type)):
            raise InvalidResult(f"{where}: {field.name} is {field.type}; expected {expected}")
    absent = [name for name in known if name not in read_rows.schema.names]
    # Tables that number their rows for themselves travel without `id`, but for trials, by whose number other tables name them.
    if lacking := [n for n in absent if not known[n].nullable and (n != "id" or table.name == "trials")]:
        raise InvalidResult(f"{where} has no column {', '.join(lacking)}; expected the columns of {table.name}")
    blank = dict.fromkeys(name for name in absent if name != "id")
    rows: list[Row] = [{**blank, **row} for row in read_rows.to_pylist()]
    return [{name: _decode(known[name], value, where) for name, value in row.items()} for row in rows]


def metric_keys(path: Path, metrics: Sequence[str]) -> Iterator[tuple[int, str, str, str]]:
    """trial_pk, phase, metric and statistic of the rows of `metrics.parquet` of these metrics."""
    columns = ("trial_pk", "phase", "metric", "statistic")
    for batch in bounded_parquet.read_batches(path, str(path), columns=columns, most_rows=_MAX_METRIC_ROWS, most_bytes=32 * MAX_BYTES):
        chosen = pa.compute.is_in(batch["metric"], value_set=pa.array(metrics, batch.schema.field("metric").type))
        for row in batch.filter(chosen).to_pylist():
            yield row["trial_pk"], row["phase"], row["metric"], row["statistic"]


def _type(kind: Any) -> Any:
    if isinstance(kind, UtcDateTime):
        return pa.timestamp("us", tz="UTC")
    if isinstance(kind, Date):
        return pa.date32()
    if isinstance(kind, Integer):
        return pa.int64()
    return pa.float64() if isinstance(kind, Float) else pa.string()


def _encode(kind: Any, value: Any) -> Any:
    return json.dumps(value, sort_keys=True, ensure_ascii=False) if isinstance(kind, JSON) and value is not None else value


def _decode(column: Column[Any], value: Any, where: str) -> Any:
    if value is None:
        if not column.nullable:
            raise InvalidResult(f"{where}: {column.name} is null; expected a value")
        return None
    if isinstance(column.type, JSON):
        return bounded_json.parse_value(value.encode(), f"{where}: {column.name}")
    if isinstance(value, str) and "\0" in value:
        raise InvalidResult(f"{where}: {column.name} holds a NUL character; expected text without one")
    if isinstance(column.type, Integer) and not isinstance(column.type, BigInteger) and not -(2**31) <= value < 2**31:
        raise InvalidResult(f"{where}: {column.name} is {value}; expected an integer of 32 bits")
    return value


TRIAL_TABLES: tuple[type[Base], ...] = (Metric, Stage, Telemetry, Evidence, Correction)
"""Tables whose rows belong to one trial each."""
_SHARED = frozenset({"campaigns", "series", "environments"})
"""Rows that several archives make for themselves: when each first did is not content."""

Tables = dict[str, list[Row]]


def table_of(model: type[Base]) -> Table:
    """The model's table."""
    table = model.__table__
    assert isinstance(table, Table)
    return table


def measured_rows(session: Session, campaign_id: str) -> tuple[Tables, dict[int, str]]:
    """What was measured, by table, and each trial's document by its place. Empty tables are left out."""
    trials = sorted(_select(session, Trial, Trial.campaign_id == campaign_id), key=lambda row: tuple(row[name] for name in NATURAL_KEY))
    place = {row["id"]: i for i, row in enumerate(trials, 1)}
    mine = Trial.campaign_id == campaign_id
    measured: Tables = {
        "campaigns": _select(session, Campaign, Campaign.campaign_id == campaign_id),
        "series": _select(
            session, Series, Series.series_key.in_(select(SeriesCampaign.series_key).where(SeriesCampaign.campaign_id == campaign_id))
        ),
        "series_campaigns": _select(session, SeriesCampaign, SeriesCampaign.campaign_id == campaign_id),
        "environments": _select(session, Environment, Environment.environment_hash.in_(select(Trial.environment_hash).where(mine))),
        "trials": [{**row, "id": place[row["id"]]} for row in trials],
    }
    ids = select(Trial.id).where(mine)
    for model in TRIAL_TABLES:
        rows = _select(session, model, table_of(model).c.trial_pk.in_(ids))
        measured[model.__tablename__] = [_renumbered(row, place) for row in rows]
    documents = {
        place[pk]: content for pk, content in session.execute(select(Document.trial_pk, Document.content).where(Document.trial_pk.in_(ids)))
    }
    return {name: _ordered(name, rows) for name, rows in measured.items() if rows}, dict(sorted(documents.items()))


def _renumbered(row: Row, place: Mapping[int, int]) -> Row:
    return {name: place[value] if name in ("trial_pk", "corrects") else value for name, value in row.items()}


def conclusion_rows(session: Session, tables: Tables, campaign_id: str) -> Tables:
    """What was concluded from the campaign: findings with their threads, baselines, quarantine, and what the audit log says of any of them."""
    findings = _select(session, Finding, Finding.campaign_id == campaign_id)
    ids = [row["finding_id"] for row in findings]
    quarantined = _select(session, Quarantined, Quarantined.campaign_id == campaign_id)
    subjects = {campaign_id, *ids, *(row["quarantine_id"] for row in quarantined)}
    for row in tables.get("trials", ()):
        subjects |= {row["trial_id"], f"{row['trial_id']}#{row['attempt']}"}
    keys = {row["series_key"] for row in tables.get("series", ())}
    log = [
        row
        for row in _in_chunks(session, AuditEntry, AuditEntry.subject, sorted(subjects | keys))
        if row["subject"] in subjects or row["detail"].get("campaign_id") == campaign_id
    ]
    conclusions: Tables = {
        "findings": findings,
        "incidents": _without_id(_in_chunks(session, Incident, Incident.finding_id, ids)),
        "baselines": _without_id(_select(session, Baseline, Baseline.campaign_id == campaign_id)),
        "quarantine": quarantined,
        "audit": _without_id(log),
    }
    return {name: rows for name, rows in conclusions.items() if rows}


def ledger_rows(session: Session, whole: bool) -> Tables:
    """What belongs to no single campaign; of a `whole` archive also its audit log and the findings that name no campaign, with
    their threads."""
    ledger: Tables = {"prices": _select(session, Price), "decisions": _select(session, Decision)}
    ledger |= {"price_readings": _select(session, PriceReading), "snapshots": _select(session, Snapshot)}
    if whole:
        findings = _select(session, Finding, Finding.campaign_id.is_(None))
        threads = _in_chunks(session, Incident, Incident.finding_id, [row["finding_id"] for row in findings])
        ledger |= {"findings": findings, "incidents": _without_id(threads), "audit": _without_id(_select(session, AuditEntry))}
    return {name: rows for name, rows in ledger.items() if rows}


def content_hash(tables: Tables, documents: Mapping[int, str]) -> str:
    """SHA-256 (hex) of what was measured: the same in every archive that holds the same rows and documents."""
    sha = hashlib.sha256()
    for name, rows in sorted(tables.items()):
        for row in rows:
            hashed = {k: v for k, v in row.items() if not (k == "recorded_at" and name in _SHARED)}
            sha.update(json.dumps([name, hashed], sort_keys=True, separators=(",", ":"), default=_iso).encode())
    for place, content in documents.items():
        sha.update(json.dumps(["documents", place, hashlib.sha256(content.encode()).hexdigest()]).encode())
    return sha.hexdigest()


def _iso(value: Any) -> str:
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


EXPIRED_TABLE = Expired.__tablename__


def expired_rows(session: Session, campaign_id: str, trials: Sequence[Row]) -> dict[str, list[Row]]:
    """The table, if the campaign has rows of it; trials by their place in the bundle."""
    key = [getattr(Trial, name) for name in NATURAL_KEY]
    places = {tuple(row[name] for name in NATURAL_KEY): row["id"] for row in trials}
    query = select(Expired, *key).join(Trial, Trial.id == Expired.trial_pk).where(Trial.campaign_id == campaign_id)
    names = [column.name for column in Expired.__table__.columns]
    rows = [
        {**{name: getattr(one, name) for name in names}, "trial_pk": places[tuple(named)]} for one, *named in session.execute(query).all()
    ]
    return {EXPIRED_TABLE: sorted(rows, key=lambda row: (row["trial_pk"], row["position"]))} if rows else {}


def import_expired(
    session: Session, expired: Sequence[Row], trials: Sequence[Row], pks: Mapping[int, int], fresh: Collection[int], home: str
) -> None:
    """Take over what is kept no longer, as deleted already: an import deletes nothing. `fresh`: places of the attempts that are new here.

    Of an attempt that was here before it says nothing, unless its files lie in another store than `home` and at the address that the archive
    has: only this installation says what of its own store is kept.
    """
    uris: dict[int, Any] = dict(session.execute(select(Trial.id, Trial.uri).where(Trial.id.in_(pks.values()))).tuples().all())
    same = {row["id"] for row in trials if uris[pks[row["id"]]] == row["uri"]}
    ours = {row["id"] for row in trials if row["id"] not in fresh and str(row["uri"]).startswith(f"{home.rstrip('/')}/")}
    for row in expired:
        if row["trial_pk"] in same - ours:
            values = {**row, "trial_pk": pks[row["trial_pk"]], "removed_at": row["removed_at"] or row["expired_at"]}
            insert_new(session, Expired, values, ["trial_pk", "position"])
