"""Taking in a bundle: what was measured enters whole or not at all, campaign by campaign."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from plumbline.archive import verify
from plumbline.archive.bundle import conclusions, expired, rows, tables
from plumbline.archive.bundle.export import below, document_file
from plumbline.archive.bundle.manifest import LEDGER, BadBundle, CampaignEntry, Imported, Manifest, check, load
from plumbline.archive.bundle.tables import Row
from plumbline.archive.inserts import insert_new
from plumbline.archive.migrate import known_revisions
from plumbline.archive.models import NATURAL_KEY, Base, Campaign, Correction, Document, Environment, Series, SeriesCampaign, Trial
from plumbline.declarations import digest

_SAME = ("checksum", "status", "failure_class", "quality_action", "quality_reasons", "spec_hash", "criteria_hash", "environment_hash")
"""What must agree where both archives hold an attempt."""
_BATCH = 200


class Contradiction(ValueError):
    """The campaign says something else than the archive; nothing of it is taken in."""


def take_in(writing: Callable[[], AbstractContextManager[Session]], folder: Path, campaigns: list[str] | None) -> list[Imported]:
    """Take in the campaigns (all if None), each in a transaction of its own; see Archive.import_."""
    manifest = load(folder)
    chosen = _chosen(manifest, folder, campaigns)
    check(folder, {**manifest.ledger, **{name: sha for entry in chosen.values() for name, sha in entry.files.items()}})
    done = []
    for campaign_id, entry in chosen.items():
        try:
            with writing() as session:
                done.append(_campaign(session, folder, campaign_id, entry))
        except Contradiction as error:
            done.append(Imported(campaign_id, refused=str(error)))
    with writing() as session:
        conclusions.take_in(session, _read(folder, LEDGER, manifest.ledger))
    return done


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
    paths = {name: f"{part}/{name}.parquet" for name in Base.metadata.tables}
    return {name: tables.read(folder / path, Base.metadata.tables[name]) if path in files else [] for name, path in paths.items()}


def _campaign(session: Session, folder: Path, campaign_id: str, entry: CampaignEntry) -> Imported:
    found = _read(folder, below(campaign_id), entry.files)
    _frame(session, found)
    held = _held(session, campaign_id)
    fresh = []
    for trial in found["trials"]:
        there = held.get(_key(trial))
        if there is None:
            fresh.append(trial)
        else:
            _agrees(f"{trial['trial_id']}#{trial['attempt']}", there, trial, _SAME)
    pks = _insert(session, folder, campaign_id, entry, found, fresh)
    _corrections(session, found["corrections"], pks)
    expired.take_in(session, found[expired.TABLE], found["trials"], pks)
    _believed(session, [pks[trial["id"]] for trial in fresh])
    if len(fresh) == len(found["trials"]) and not held:
        now_there = rows.content_hash(*rows.measured(session, campaign_id))
        if now_there != entry.content_hash:
            raise Contradiction(f"its content hashes to {now_there}; the manifest says {entry.content_hash}")
    notes = conclusions.take_in(session, found)
    return Imported(campaign_id, new=len(fresh), known=len(found["trials"]) - len(fresh), notes=notes)


def _frame(session: Session, found: rows.Tables) -> None:
    """The campaign, its series and environments: made if they are not there, else they have to agree."""
    for row in found["environments"]:
        if digest(dict(sorted(row["facts"].items()))) != row["environment_hash"]:
            raise Contradiction(f"the facts of environment {row['environment_hash']} do not hash to it")
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


def _insert(session: Session, folder: Path, campaign_id: str, entry: CampaignEntry, found: rows.Tables, fresh: list[Row]) -> dict[int, int]:
    """Insert the trials that are new, with all that belongs to them; the row number of every trial of the bundle by its place."""
    if fresh:
        session.execute(insert(Trial), [{name: value for name, value in row.items() if name != "id"} for row in fresh])
    held = _held(session, campaign_id)
    pks = {row["id"]: held[_key(row)]["id"] for row in found["trials"]}
    places = {row["id"] for row in fresh}
    for model in rows.OF_TRIALS:
        if model is Correction:
            continue
        mine = [{**row, "trial_pk": pks[row["trial_pk"]]} for row in found[model.__tablename__] if row["trial_pk"] in places]
        if mine:
            session.execute(insert(model), mine)
    named = {place: f"{below(campaign_id)}/{document_file(place)}" for place in sorted(places)}
    documents = list(_documents(folder, {place: name for place, name in named.items() if name in entry.files}, pks))
    if documents:
        session.execute(insert(Document), documents)
    return pks


def _documents(folder: Path, files: Mapping[int, str], pks: Mapping[int, int]) -> Iterator[Row]:
    for place, name in files.items():
        content = (folder / name).read_bytes().decode()
        yield {"trial_pk": pks[place], "schema_version": json.loads(content).get("schema_version", 1), "content": content}


def _corrections(session: Session, found: list[Row], pks: dict[int, int]) -> None:
    for row in found:
        values = {**row, "trial_pk": pks[row["trial_pk"]], "corrects": pks[row["corrects"]]}
        if not insert_new(session, Correction, values, ["corrects"]):
            standing = session.scalars(select(Correction.trial_pk).where(Correction.corrects == values["corrects"])).one()
            if standing != values["trial_pk"]:
                raise Contradiction("a measurement was corrected otherwise in the archive")


def _believed(session: Session, pks: list[int]) -> None:
    """Every new row says what its document says: the bundle's hashes show that it is as it was written, not that it was written honestly."""
    session.flush()
    for i in range(0, len(pks), _BATCH):
        for trial in session.scalars(select(Trial).where(Trial.id.in_(pks[i : i + _BATCH]))):
            for problem in verify.trial_problems(session, trial):
                raise Contradiction(problem)
        session.expunge_all()
