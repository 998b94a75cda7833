"""Writing a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive.bundle import expired, rows, tables
from plumbline.archive.bundle.manifest import FILE, LEDGER, BadBundle, CampaignEntry, Exported, Manifest
from plumbline.archive.migrate import head
from plumbline.archive.models import Base, Campaign
from plumbline.results import reading


def export(session: Session, folder: Path, campaigns: Sequence[str] | None, now: datetime) -> list[Exported]:
    """Write the campaigns (all if None); see Archive.export."""
    if folder.exists() and any(folder.iterdir()):
        raise BadBundle(f"{folder} is not empty; expected a new folder for the export")
    held = list(session.scalars(select(Campaign.campaign_id).order_by(Campaign.planned_at, Campaign.campaign_id)))
    unknown = sorted(set(campaigns or ()) - set(held))
    if unknown:
        raise LookupError(f'the archive has no campaign "{unknown[0]}"; `plumbline campaigns` lists what is there')
    folder.mkdir(parents=True, exist_ok=True)
    entries = {name: _campaign(session, folder, name) for name in held if campaigns is None or name in campaigns}
    ledger = _tables(folder, LEDGER, rows.ledger(session, whole=campaigns is None))
    manifest = Manifest(schema_revision=head(), exported_at=now, campaigns=entries, ledger=ledger)
    (folder / FILE).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return [Exported(name, entry.trials, entry.content_hash) for name, entry in entries.items()]


def _campaign(session: Session, folder: Path, campaign_id: str) -> CampaignEntry:
    found, documents = rows.measured(session, campaign_id)
    beside = rows.judged(session, found, campaign_id) | expired.rows(session, campaign_id, found.get("trials", ()))
    files = _tables(folder, below(campaign_id), {**found, **beside})
    for trial in found.get("trials", ()):
        if trial["id"] in documents:
            name = f"{below(campaign_id)}/{document_file(trial['id'])}"
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(documents[trial["id"]], encoding="utf-8", newline="")
            files[name] = reading.sha256_of(path)
    return CampaignEntry(trials=len(found.get("trials", ())), content_hash=rows.content_hash(found, documents), files=files)


def below(campaign_id: str) -> str:
    """The campaign's folder in a bundle."""
    return f"campaigns/{campaign_id}"


def document_file(place: int) -> str:
    """Where the document of the trial at a place lies. By its place: names of outside results need not be names of files."""
    return f"documents/{place:06d}.json"


def _tables(folder: Path, part: str, found: rows.Tables) -> dict[str, str]:
    files = {}
    for name, content in found.items():
        path = f"{part}/{name}.parquet"
        tables.write(folder / path, Base.metadata.tables[name], content)
        files[path] = reading.sha256_of(folder / path)
    return files
