"""Exports campaigns to a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive.bundle import tables
from plumbline.archive.bundle.manifest import LEDGER, MANIFEST_FILE, BadBundle, CampaignEntry, ExportedCampaign, Manifest
from plumbline.archive.migrate import head
from plumbline.archive.schema import Base, Campaign
from plumbline.results import bounded_json


def export_bundle(session: Session, folder: Path, campaigns: Sequence[str] | None, now: datetime) -> list[ExportedCampaign]:
    """Write the campaigns (all if None); see Archive.export."""
    if folder.exists() and any(folder.iterdir()):
        raise BadBundle(f"{folder} is not empty; expected a new folder for the export")
    campaign_ids = list(session.scalars(select(Campaign.campaign_id).order_by(Campaign.planned_at, Campaign.campaign_id)))
    unknown = sorted(set(campaigns or ()) - set(campaign_ids))
    if unknown:
        raise LookupError(f'the archive has no campaign "{unknown[0]}"; `plumbline campaigns` lists what is there')
    folder.mkdir(parents=True, exist_ok=True)
    entries = {name: _campaign(session, folder, name) for name in campaign_ids if campaigns is None or name in campaigns}
    ledger = _tables(folder, LEDGER, tables.ledger_rows(session, whole=campaigns is None))
    manifest = Manifest(schema_revision=head(), exported_at=now, campaigns=entries, ledger=ledger)
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return [ExportedCampaign(name, entry.trials, entry.content_hash) for name, entry in entries.items()]


def _campaign(session: Session, folder: Path, campaign_id: str) -> CampaignEntry:
    measured, documents = tables.measured_rows(session, campaign_id)
    other_tables = tables.conclusion_rows(session, measured, campaign_id) | tables.expired_rows(
        session, campaign_id, measured.get("trials", ())
    )
    files = _tables(folder, campaign_folder(campaign_id), {**measured, **other_tables})
    for trial in measured.get("trials", ()):
        if trial["id"] in documents:
            name = f"{campaign_folder(campaign_id)}/{document_path(trial['id'])}"
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(documents[trial["id"]], encoding="utf-8", newline="")
            files[name] = bounded_json.sha256_file(path)
    return CampaignEntry(trials=len(measured.get("trials", ())), content_hash=tables.content_hash(measured, documents), files=files)


def campaign_folder(campaign_id: str) -> str:
    """The campaign's folder in a bundle."""
    return f"campaigns/{campaign_id}"


def document_path(place: int) -> str:
    """Where the document of the trial at a place lies. By its place: names of outside results need not be names of files."""
    return f"documents/{place:06d}.json"


def _tables(folder: Path, part: str, rows: tables.Tables) -> dict[str, str]:
    files = {}
    for name, content in rows.items():
        path = f"{part}/{name}.parquet"
        tables.write_table(folder / path, Base.metadata.tables[name], content)
        files[path] = bounded_json.sha256_file(folder / path)
    return files
