"""Taking in a bundle: what was measured enters whole or not at all, campaign by campaign, and every row of it is made from a document."""

from __future__ import annotations

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

from plumbline.archive import audit
from plumbline.archive.bundle import backing, conclusions, expired, rows, tables
from plumbline.archive.bundle.backing import Attempt, Contradiction, Frame
from plumbline.archive.bundle.export import below
from plumbline.archive.bundle.manifest import FILE, LEDGER, BadBundle, CampaignEntry, Imported, Manifest, check, load
from plumbline.archive.bundle.tables import Row
from plumbline.archive.inserts import insert_new
from plumbline.archive.migrate import known_revisions
from plumbline.archive.models import NATURAL_KEY, Base, Campaign, Correction, Document, Environment, Series, SeriesCampaign, Trial
from plumbline.archive.record import Refused
from plumbline.archive.views import Action
from plumbline.results import BadResult, Reason, ResultDocument, reading

_SAME = ("checksum", "status", "failure_class", "quality_action", "quality_reasons", "spec_hash", "criteria_hash", "environment_hash")
"""What must agree where both archives hold an attempt."""
_CLAIMS = (
    *("trials", "campaigns", "series", "series_campaigns", "environments", "corrections", expired.TABLE),
    *("findings", "incidents", "baselines", "quarantine", "audit", "decisions", "prices", "price_readings", "snapshots"),
)
"""Tables that are read; those of numbers, stages, telemetry and evidence are made from the documents instead."""
_BATCH = 100

Judge = Callable[[Sequence[ResultDocument]], Mapping[str, tuple[Action, Sequence[Reason]]]]
"""This installation's own verdict on documents, by `trial_id#attempt`."""


@dataclass(frozen=True)
class Import:
    """Who takes in which folder, whose manifest has this SHA-256, when; how documents are judged, and where this installation's store is."""

    folder: Path
    manifest_sha256: str
    by: str
    at: datetime
    judge: Judge | None
    home: str


def take_in(
    writing: Callable[[], AbstractContextManager[Session]],
    folder: Path,
    campaigns: list[str] | None,
    *,
    by: str,
    at: datetime,
    judge: Judge | None,
    home: str,
) -> list[Imported]:
    """Take in the campaigns (all if None), each in a transaction of its own; see Archive.import_."""
    manifest = load(folder)
    chosen = _chosen(manifest, folder, campaigns)
    check(folder, {**manifest.ledger, **{name: sha for entry in chosen.values() for name, sha in entry.files.items()}})
    order = Import(folder, reading.sha256_of(folder / FILE), by, at, judge, home)
    try:
        ledger = _read(folder, LEDGER, manifest.ledger)
    except BadResult as error:
        raise BadBundle(str(error)) from error
    done = []
    for campaign_id, entry in chosen.items():
        try:
            with writing() as session:
                done.append(_campaign(session, order, campaign_id, entry))
        except (Contradiction, Refused, BadResult, DataError, IntegrityError, OverflowError) as error:
            why = " ".join(str(getattr(error, "orig", None) or error).split())
            done.append(Imported(campaign_id, refused=why))
            with writing() as session:
                _note(session, order, "bundle_refused", campaign_id, why, {})
    with writing() as session:
        conclusions.take_in(session, ledger, None)
        if ledger_rows := {name: len(those) for name, those in ledger.items() if those}:
            _note(session, order, "bundle_imported", LEDGER, "what belongs to no campaign", ledger_rows)
    return done


def _note(session: Session, order: Import, what: str, subject: str, why: str, detail: Mapping[str, Any]) -> None:
    said = {"folder": str(order.folder), "manifest_sha256": order.manifest_sha256, **detail}
    audit.write(
        session, order.at, who=order.by, what=what, subject=subject, why=why, detail=said, once=f"{what} {order.manifest_sha256} {subject}"
    )


def _chosen(manifest: Manifest, folder: Path, campaigns: list[str] | None) -> dict[str, CampaignEntry]:
    if manifest.schema_revision not in known_revisions():
        raise BadBundle(
            f"{folder} was written with the schema {manifest.schema_revision}, which this version does not know; upgrade plumbline"
        )
    unknown = sorted(set(campaigns or ()) - set(manifest.campaigns))
    if unknown:
        raise LookupError(f'{folder} has no campaign "{unknown[0]}"; expected one of {", ".join(manifest.campaigns)}')
    return {name: entry for name, entry in manifest.campaigns.items() if campaigns is None or name in campaigns}


def _read(folder: Path, part: str, files: Collection[str]) -> rows.Tables:
    """The tables that the manifest names: a file that it does not name was put there by somebody else."""
    paths = {name: f"{part}/{name}.parquet" for name in _CLAIMS}
    return {name: tables.read(folder / path, Base.metadata.tables[name]) if path in files else [] for name, path in paths.items()}


def _campaign(session: Session, order: Import, campaign_id: str, entry: CampaignEntry) -> Imported:
    found = _read(order.folder, below(campaign_id), entry.files)
    claims = sorted(found["trials"], key=lambda row: row["id"])
    if not claims or len({row["id"] for row in claims}) != len(claims):
        raise Contradiction("its table of trials is empty or names a place twice")

    def attempts(those: Sequence[Row]) -> Iterator[Attempt]:
        return backing.attempts(order.folder, campaign_id, entry, those)

    # Twice through the documents: all of them have to hold, and to name their campaign and series, before a row is written. One at a time,
    # because a campaign's documents together need not fit into memory.
    frame, held = Frame(), _held(session, campaign_id)
    made: dict[int, Row] = {}
    for batch in _batches(attempts(claims)):
        stricter = _judged(order.judge, batch)
        for attempt in batch:
            frame.add(attempt.document)
            made[attempt.place] = {**attempt.row, **stricter.get(attempt.place, {})}
    frame.check(found)
    _frame(session, found)
    fresh = [claim for claim in claims if _key(claim) not in held]
    for claim in claims:
        if (there := held.get(_key(claim))) is not None:
            _agrees(f"{claim['trial_id']}#{claim['attempt']}", there, made[claim["id"]], _SAME)
    beside = backing.numbers_beside(order.folder, campaign_id, entry)
    for batch in _batches(attempts(fresh)):
        _insert(session, campaign_id, batch, made, beside)
    pks = _pks(session, campaign_id, claims)
    _corrections(session, found["corrections"], pks, {claim["id"]: claim for claim in claims})
    places = {claim["id"] for claim in fresh}
    expired.take_in(session, found[expired.TABLE], claims, pks, places, order.home)
    if len(fresh) == len(claims) and not held:
        _hash_holds(session, campaign_id, entry, claims)
    notes = [
        f"{claim['trial_id']}#{claim['attempt']}: {made[claim['id']]['quality_action']}ed here ({claim['quality_action']} in the bundle)"
        for claim in claims
        if made[claim["id"]]["quality_action"] != claim["quality_action"]
    ]
    notes += conclusions.take_in(session, found, campaign_id)
    if fresh or notes:
        detail = {"content_hash": entry.content_hash, "new": len(fresh), "known": len(claims) - len(fresh)}
        _note(session, order, "bundle_imported", campaign_id, f"{len(fresh)} new attempts", detail)
    return Imported(campaign_id, new=len(fresh), known=len(claims) - len(fresh), notes=tuple(notes))


def _batches(attempts: Iterable[Attempt]) -> Iterator[list[Attempt]]:
    rest = iter(attempts)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _judged(judge: Judge | None, batch: Sequence[Attempt]) -> dict[int, Row]:
    """Place → verdict, of the attempts that this installation rejects and the bundle does not: a verdict is no measurement."""
    ours = {a.place: a for a in batch if isinstance(a.document, ResultDocument) and a.row["quality_action"] != "reject"}
    if judge is None or not ours:
        return {}
    verdicts = judge([a.document for a in ours.values() if isinstance(a.document, ResultDocument)])
    found = {}
    for place, attempt in ours.items():
        action, reasons = verdicts[f"{attempt.row['trial_id']}#{attempt.row['attempt']}"]
        if action == "reject":
            found[place] = {"quality_action": action, "quality_reasons": [reason.model_dump() for reason in reasons]}
    return found


def _frame(session: Session, found: rows.Tables) -> None:
    """The campaign, its series and environments: made if they are not there, else they have to agree."""
    for model, key in (
        (Campaign, ("campaign_id",)),
        (Series, ("series_key",)),
        (SeriesCampaign, ("series_key", "campaign_id")),
        (Environment, ("environment_hash",)),
    ):
        table = rows.table_of(model)
        for row in found[model.__tablename__]:
            if insert_new(session, model, row, key):
                continue
            there = session.execute(select(table).where(*(table.c[name] == row[name] for name in key))).one()._mapping
            _agrees(f"{model.__tablename__} {' '.join(str(row[name]) for name in key)}", there, row, [c for c in row if c != "recorded_at"])


def _agrees(name: str, there: Any, row: Row, columns: Any) -> None:
    for column in columns:
        if there[column] != row.get(column):
            raise Contradiction(
                f"{name}: {column} is {row.get(column)}, but {there[column]} in the archive; measurements are never replaced"
            )


def _key(row: Any) -> tuple[Any, ...]:
    return tuple(row[name] for name in NATURAL_KEY)


def _held(session: Session, campaign_id: str) -> dict[tuple[Any, ...], Any]:
    table = rows.table_of(Trial)
    return {_key(row._mapping): row._mapping for row in session.execute(select(table).where(table.c.campaign_id == campaign_id))}


def _pks(session: Session, campaign_id: str, claims: Sequence[Row]) -> dict[int, int]:
    """The row number of every trial of the bundle by its place."""
    held = _held(session, campaign_id)
    return {claim["id"]: held[_key(claim)]["id"] for claim in claims}


def _insert(
    session: Session,
    campaign_id: str,
    batch: Sequence[Attempt],
    made: Mapping[int, Row],
    beside: Mapping[int, frozenset[tuple[str, str, str]]],
) -> None:
    """Insert attempts that are new, with all that belongs to them."""
    new = [{name: value for name, value in made[attempt.place].items() if name != "id"} for attempt in batch]
    session.execute(insert(Trial), new)
    pks = _pks(session, campaign_id, [attempt.row for attempt in batch])
    for attempt in batch:
        pk, version = pks[attempt.place], attempt.document.schema_version
        session.execute(insert(Document), [{"trial_pk": pk, "schema_version": version, "content": attempt.text}])
        for model, listed in attempt.parts(beside.get(attempt.place, frozenset())):
            if listed:
                session.execute(insert(model), [{"trial_pk": pk, **row} for row in listed])


def _hash_holds(session: Session, campaign_id: str, entry: CampaignEntry, claims: Sequence[Row]) -> None:
    """That the rows made from the documents are those that the other archive hashed, with the verdicts that it had."""
    now_there, documents = rows.measured(session, campaign_id)
    verdicts = {_key(claim): {name: claim[name] for name in ("quality_action", "quality_reasons")} for claim in claims}
    now_there["trials"] = [{**row, **verdicts[_key(row)]} for row in now_there["trials"]]
    if (found := rows.content_hash(now_there, documents)) != entry.content_hash:
        raise Contradiction(f"its documents' content hashes to {found}; the manifest says {entry.content_hash}")


def _corrections(session: Session, found: list[Row], pks: Mapping[int, int], claims: Mapping[int, Row]) -> None:
    for row in found:
        new, old = claims.get(row["trial_pk"]), claims.get(row["corrects"])
        if new is None or old is None or new["trial_id"] != old["trial_id"] or new["attempt"] <= old["attempt"]:
            raise Contradiction(f"corrections: row {row['trial_pk']} does not correct an earlier attempt of its own trial")
        values = {**row, "trial_pk": pks[row["trial_pk"]], "corrects": pks[row["corrects"]]}
        if not insert_new(session, Correction, values, ["corrects"]):
            standing = session.scalars(select(Correction.trial_pk).where(Correction.corrects == values["corrects"])).one()
            if standing != values["trial_pk"]:
                raise Contradiction("a measurement was corrected otherwise in the archive")
