"""Imports a bundle: each campaign entirely or not at all, every measured row rebuilt from its document."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import Session

from plumbline.archive import audit, quarantine
from plumbline.archive.bundle import documents, tables
from plumbline.archive.bundle.documents import Attempt, Contradiction, Frame
from plumbline.archive.bundle.exporter import campaign_folder
from plumbline.archive.bundle.manifest import (
    LEDGER,
    MANIFEST_FILE,
    BadBundle,
    CampaignEntry,
    ImportedCampaign,
    Manifest,
    check_files,
    load_manifest,
)
from plumbline.archive.bundle.tables import Row, Tables, table_of
from plumbline.archive.migrate import head
from plumbline.archive.recording import Refused
from plumbline.archive.records import Action
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
    Finding,
    Incident,
    Price,
    PriceReading,
    Quarantined,
    Series,
    SeriesCampaign,
    Snapshot,
    Trial,
)
from plumbline.declarations import digest
from plumbline.results import InvalidResult, Reason, ResultDocument, bounded_json, evidence_files

_MUST_AGREE = ("checksum", "status", "failure_class", "quality_action", "quality_reasons", "spec_hash", "criteria_hash", "environment_hash")
"""What must agree where both archives hold an attempt."""
_READ_TABLES = (
    *("trials", "campaigns", "series", "series_campaigns", "environments", "corrections", tables.EXPIRED_TABLE),
    *("findings", "incidents", "baselines", "quarantine", "audit", "decisions", "prices", "price_readings", "snapshots"),
)
"""Tables that are read; those of numbers, stages, telemetry and evidence are made from the documents instead."""
_BATCH = 100

CheckQuality = Callable[[Sequence[ResultDocument]], Mapping[str, tuple[Action, Sequence[Reason]]]]
"""This installation's own verdict on documents, by `trial_id#attempt`."""


@dataclass(frozen=True)
class ImportContext:
    """Who takes in which folder, whose manifest has this SHA-256, when; how documents are judged, and where this installation's store is."""

    folder: Path
    manifest_sha256: str
    by: str
    at: datetime
    judge: CheckQuality | None
    home: str


def import_bundle(
    writing: Callable[[], AbstractContextManager[Session]],
    folder: Path,
    campaigns: list[str] | None,
    *,
    by: str,
    at: datetime,
    judge: CheckQuality | None,
    home: str,
) -> list[ImportedCampaign]:
    """Take in the campaigns (all if None), each in a transaction of its own; see Archive.import_."""
    manifest = load_manifest(folder)
    chosen = _select_campaigns(manifest, folder, campaigns)
    check_files(folder, {**manifest.ledger, **{name: sha for entry in chosen.values() for name, sha in entry.files.items()}})
    order = ImportContext(folder, bounded_json.sha256_file(folder / MANIFEST_FILE), by, at, judge, home)
    try:
        ledger = _read(folder, LEDGER, manifest.ledger)
    except InvalidResult as error:
        raise BadBundle(str(error)) from error
    done = []
    for campaign_id, entry in chosen.items():
        try:
            with writing() as session:
                done.append(_campaign(session, order, campaign_id, entry))
        except (Contradiction, Refused, InvalidResult, DataError, IntegrityError, OverflowError) as error:
            why = " ".join(str(getattr(error, "orig", None) or error).split())
            done.append(ImportedCampaign(campaign_id, refused=why))
            with writing() as session:
                _write_audit(session, order, "bundle_refused", campaign_id, why, {})
    with writing() as session:
        import_conclusions(session, ledger, None)
        if ledger_rows := {name: len(those) for name, those in ledger.items() if those}:
            _write_audit(session, order, "bundle_imported", LEDGER, "what belongs to no campaign", ledger_rows)
    return done


def _write_audit(session: Session, order: ImportContext, what: str, subject: str, why: str, detail: Mapping[str, Any]) -> None:
    note = {"folder": str(order.folder), "manifest_sha256": order.manifest_sha256, **detail}
    audit.write_entry(
        session, order.at, who=order.by, what=what, subject=subject, why=why, detail=note, once=f"{what} {order.manifest_sha256} {subject}"
    )


def _select_campaigns(manifest: Manifest, folder: Path, campaigns: list[str] | None) -> dict[str, CampaignEntry]:
    if manifest.schema_revision > head():
        raise BadBundle(
            f"{folder} was written with the schema {manifest.schema_revision}, which this version does not know; upgrade plumbline"
        )
    unknown = sorted(set(campaigns or ()) - set(manifest.campaigns))
    if unknown:
        raise LookupError(f'{folder} has no campaign "{unknown[0]}"; expected one of {", ".join(manifest.campaigns)}')
    return {name: entry for name, entry in manifest.campaigns.items() if campaigns is None or name in campaigns}


def _read(folder: Path, part: str, files: Collection[str]) -> tables.Tables:
    """The tables that the manifest names; other files are foreign and are not read."""
    paths = {name: f"{part}/{name}.parquet" for name in _READ_TABLES}
    return {name: tables.read_table(folder / path, Base.metadata.tables[name]) if path in files else [] for name, path in paths.items()}


def _campaign(session: Session, order: ImportContext, campaign_id: str, entry: CampaignEntry) -> ImportedCampaign:
    measured = _read(order.folder, campaign_folder(campaign_id), entry.files)
    claims = sorted(measured["trials"], key=lambda row: row["id"])
    if not claims or len({row["id"] for row in claims}) != len(claims):
        raise Contradiction("its table of trials is empty or names a place twice")

    def attempts(those: Sequence[Row]) -> Iterator[Attempt]:
        return documents.read_attempts(order.folder, campaign_id, entry, those)

    # Twice through the documents: all of them have to hold, and to name their campaign and series, before a row is written. One at a time,
    # because a campaign's documents together need not fit into memory.
    frame, existing = Frame(), _existing_trials(session, campaign_id)
    rows_of_trials: dict[int, Row] = {}
    for batch in _batches(attempts(claims)):
        stricter = _stricter_verdicts(order.judge, batch)
        for attempt in batch:
            frame.add(attempt.document)
            rows_of_trials[attempt.place] = {**attempt.row, **stricter.get(attempt.place, {})}
    frame.check(measured)
    _insert_frame(session, measured)
    fresh = [claim for claim in claims if _key(claim) not in existing]
    for claim in claims:
        if (there := existing.get(_key(claim))) is not None:
            _check_agreement(f"{claim['trial_id']}#{claim['attempt']}", there, rows_of_trials[claim["id"]], _MUST_AGREE)
    launch_metrics = documents.launch_metric_keys(order.folder, campaign_id, entry)
    for batch in _batches(attempts(fresh)):
        _insert(session, campaign_id, batch, rows_of_trials, launch_metrics)
    pks = _trial_pks(session, campaign_id, claims)
    _insert_corrections(session, measured["corrections"], pks, {claim["id"]: claim for claim in claims})
    places = {claim["id"] for claim in fresh}
    tables.import_expired(session, measured[tables.EXPIRED_TABLE], claims, pks, places, order.home)
    if len(fresh) == len(claims) and not existing:
        _check_content_hash(session, campaign_id, entry, claims)
    notes = [
        f"{claim['trial_id']}#{claim['attempt']}: {rows_of_trials[claim['id']]['quality_action']}ed here ({claim['quality_action']} in the bundle)"
        for claim in claims
        if rows_of_trials[claim["id"]]["quality_action"] != claim["quality_action"]
    ]
    notes += import_conclusions(session, measured, campaign_id)
    if fresh or notes:
        detail = {"content_hash": entry.content_hash, "new": len(fresh), "known": len(claims) - len(fresh)}
        _write_audit(session, order, "bundle_imported", campaign_id, f"{len(fresh)} new attempts", detail)
    return ImportedCampaign(campaign_id, new=len(fresh), known=len(claims) - len(fresh), notes=tuple(notes))


def _batches(attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    rest = iter(attempts)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _stricter_verdicts(judge: CheckQuality | None, batch: Sequence[Attempt]) -> dict[int, Row]:
    """Place → verdict, of the attempts that this installation rejects and the bundle does not: a verdict is no measurement."""
    ours = {a.place: a for a in batch if isinstance(a.document, ResultDocument) and a.row["quality_action"] != "reject"}
    if judge is None or not ours:
        return {}
    verdicts = judge([a.document for a in ours.values() if isinstance(a.document, ResultDocument)])
    stricter = {}
    for place, attempt in ours.items():
        action, reasons = verdicts[f"{attempt.row['trial_id']}#{attempt.row['attempt']}"]
        if action == "reject":
            stricter[place] = {"quality_action": action, "quality_reasons": [reason.model_dump() for reason in reasons]}
    return stricter


def _insert_frame(session: Session, measured: tables.Tables) -> None:
    """The campaign, its series and environments: made if they are not there, else they have to agree."""
    for model, key in (
        (Campaign, ("campaign_id",)),
        (Series, ("series_key",)),
        (SeriesCampaign, ("series_key", "campaign_id")),
        (Environment, ("environment_hash",)),
    ):
        table = tables.table_of(model)
        for row in measured[model.__tablename__]:
            if insert_new(session, model, row, key):
                continue
            there = session.execute(select(table).where(*(table.c[name] == row[name] for name in key))).one()._mapping
            _check_agreement(
                f"{model.__tablename__} {' '.join(str(row[name]) for name in key)}", there, row, [c for c in row if c != "recorded_at"]
            )


def _check_agreement(name: str, there: Any, row: Row, columns: Any) -> None:
    for column in columns:
        if there[column] != row.get(column):
            raise Contradiction(
                f"{name}: {column} is {row.get(column)}, but {there[column]} in the archive; measurements are never replaced"
            )


def _key(row: Any) -> tuple[Any, ...]:
    return tuple(row[name] for name in NATURAL_KEY)


def _existing_trials(session: Session, campaign_id: str) -> dict[tuple[Any, ...], Any]:
    table = tables.table_of(Trial)
    return {_key(row._mapping): row._mapping for row in session.execute(select(table).where(table.c.campaign_id == campaign_id))}


def _trial_pks(session: Session, campaign_id: str, claims: Sequence[Row]) -> dict[int, int]:
    """The row number of every trial of the bundle by its place."""
    existing = _existing_trials(session, campaign_id)
    return {claim["id"]: existing[_key(claim)]["id"] for claim in claims}


def _insert(
    session: Session,
    campaign_id: str,
    batch: Sequence[Attempt],
    rows_of_trials: Mapping[int, Row],
    launch_metrics: Mapping[int, frozenset[tuple[str, str, str]]],
) -> None:
    """Insert attempts that are new, with all that belongs to them."""
    new = [{name: value for name, value in rows_of_trials[attempt.place].items() if name != "id"} for attempt in batch]
    session.execute(insert(Trial), new)
    pks = _trial_pks(session, campaign_id, [attempt.row for attempt in batch])
    for attempt in batch:
        pk, version = pks[attempt.place], attempt.document.schema_version
        session.execute(insert(Document), [{"trial_pk": pk, "schema_version": version, "content": attempt.text}])
        for model, listed in attempt.parts(launch_metrics.get(attempt.place, frozenset())):
            if listed:
                session.execute(insert(model), [{"trial_pk": pk, **row} for row in listed])


def _check_content_hash(session: Session, campaign_id: str, entry: CampaignEntry, claims: Sequence[Row]) -> None:
    """That the rows made from the documents are those that the other archive hashed, with the verdicts that it had."""
    now_there, documents = tables.measured_rows(session, campaign_id)
    verdicts = {_key(claim): {name: claim[name] for name in ("quality_action", "quality_reasons")} for claim in claims}
    now_there["trials"] = [{**row, **verdicts[_key(row)]} for row in now_there["trials"]]
    if (actual := tables.content_hash(now_there, documents)) != entry.content_hash:
        raise Contradiction(f"its documents' content hashes to {actual}; the manifest says {entry.content_hash}")


def _insert_corrections(session: Session, corrections: list[Row], pks: Mapping[int, int], claims: Mapping[int, Row]) -> None:
    for row in corrections:
        new, old = claims.get(row["trial_pk"]), claims.get(row["corrects"])
        if new is None or old is None or new["trial_id"] != old["trial_id"] or new["attempt"] <= old["attempt"]:
            raise Contradiction(f"corrections: row {row['trial_pk']} does not correct an earlier attempt of its own trial")
        values = {**row, "trial_pk": pks[row["trial_pk"]], "corrects": pks[row["corrects"]]}
        if not insert_new(session, Correction, values, ["corrects"]):
            corrected_by = session.scalars(select(Correction.trial_pk).where(Correction.corrects == values["corrects"])).one()
            if corrected_by != values["trial_pk"]:
                raise Contradiction("a measurement was corrected otherwise in the archive")


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


IMPORTED_SUFFIX = " (imported)"
"""Ends the `who` of an entry that another archive's log says."""


def import_conclusions(session: Session, conclusions: Tables, campaign_id: str | None) -> tuple[str, ...]:
    """Add what is new of one campaign, or of none; what the archive kept as it had it, in words.

    These are claims of the other archive that no document backs. Contradiction for a row of another campaign, or of what the part does not hold.
    """
    _check_campaign(conclusions, campaign_id)
    notes: list[str] = []
    opened: set[str] = set()
    for model, key in _KEYS:
        listed = conclusions.get(model.__tablename__, ())
        if model is Incident:  # a thread that the other archive has of a finding of this one says nothing of whether people here were told
            listed = [row for row in listed if row["finding_id"] in opened]
        known = [row for row in listed if not insert_new(session, model, row, key)]
        if model is Finding:
            opened = {row["finding_id"] for row in listed} - {row["finding_id"] for row in known}
            notes += [note for row in known if (note := _other_state(session, row))]
    notes += [note for row in conclusions.get("baselines", ()) if (note := _import_baseline(session, row, conclusions.get("audit", ())))]
    for row in conclusions.get("audit", ()):
        _import_audit(session, row)
    return tuple(notes)


def _check_campaign(conclusions: Tables, campaign_id: str | None) -> None:
    for name in ("findings", "baselines", "quarantine"):
        for row in conclusions.get(name, ()):
            if row["campaign_id"] != campaign_id:
                raise Contradiction(f"{name}: a row is of the campaign {row['campaign_id']}; expected {campaign_id or 'none'}")
    if campaign_id is not None and (other := next((name for name in _OF_NO_CAMPAIGN if conclusions.get(name)), None)):
        raise Contradiction(f"{other} belongs to no campaign; expected it in the ledger")
    for row in conclusions.get("quarantine", ()):
        content = [row["campaign_id"], row["trial_id"], row["attempt"], row["sha256"]]
        if row["quarantine_id"] != quarantine.id_of(*content) or not _TRIAL_ID.fullmatch(row["trial_id"]) or row["attempt"] < 1:
            raise Contradiction(f"quarantine: {row['quarantine_id']!r} is not the id of its campaign, trial, attempt and SHA-256")
        evidence_files.check_address_form(row["uri"])
    for row in conclusions.get("snapshots", ()):
        if digest(dict(sorted(row["facts"].items()))) != row["facts_hash"]:
            raise Contradiction(f"the facts of the snapshot {row['snapshot_id']} do not hash to {row['facts_hash']}")


def _other_state(session: Session, row: Row) -> str | None:
    state = session.scalars(select(Finding.state).where(Finding.finding_id == row["finding_id"])).one()
    return None if state == row["state"] else f"finding {row['finding_id']} stays {state} ({row['state']} in the bundle)"


def _import_baseline(session: Session, row: Row, log: Sequence[Row]) -> str | None:
    query = select(Baseline).where(Baseline.series_key == row["series_key"]).order_by(Baseline.accepted_at, Baseline.id)
    mine = session.execute(query).scalars().all()
    if any((b.campaign_id, b.rule, b.accepted_at) == (row["campaign_id"], row["rule"], row["accepted_at"]) for b in mine):
        return None
    # A series is bootstrapped in one archive, and what it is held against moves only by a decision that somebody made in this one.
    if not _continues_baseline(row, mine, log) and (
        (row["rule"] == "bootstrap" and any(b.rule == "bootstrap" for b in mine))
        or (row["superseded_at"] is None and any(b.superseded_at is None for b in mine))
    ):
        return f"baseline of {row['series_key']}: the archive keeps its own, not {row['campaign_id']}"
    session.execute(insert(Baseline), [row])
    return None


def _continues_baseline(row: Row, mine: Sequence[Baseline], log: Sequence[Row]) -> bool:
    """Whether the bundle's row joined, by the bootstrap rule, exactly the baseline that the archive has of it so far."""
    bootstrapped = [b for b in mine if b.rule == "bootstrap"]
    alike = all((b.superseded_at is None) == (row["superseded_at"] is None) for b in bootstrapped)
    past = (entry["detail"] for entry in log if (entry["what"], entry["subject"]) == ("baseline_accepted", row["series_key"]))
    return (
        bool(bootstrapped)
        and alike
        and {"campaign_id": row["campaign_id"], "rule": row["rule"], "before": [b.campaign_id for b in bootstrapped]} in past
    )


def _import_audit(session: Session, row: Row) -> None:
    """Add an entry of the other archive's log, marked as such: it proves nothing here, and takes no key from an entry of this archive."""
    who = row["who"].removesuffix(IMPORTED_SUFFIX)
    table: Any = table_of(AuditEntry)
    same = (table.c[name] == row[name] for name in ("at", "what", "subject", "why"))
    if session.execute(select(table.c.id).where(*same, table.c.who.in_([who, who + IMPORTED_SUFFIX])).limit(1)).first() is None:
        session.execute(insert(AuditEntry), [{**row, "who": who + IMPORTED_SUFFIX, "once_key": None}])
