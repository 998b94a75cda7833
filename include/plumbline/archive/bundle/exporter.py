"""Exports campaigns to a bundle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from plumbline.archive.bundle.lines import write_lines
from plumbline.archive.bundle.manifest import (
    ATTEMPTS_FILE,
    EXPIRED_FILE,
    LEDGER,
    MANIFEST_FILE,
    BadBundle,
    BundleManifest,
    CampaignEntry,
    ExportedCampaign,
    campaign_folder,
)
from plumbline.archive.migrate import head
from plumbline.archive.repository import batches
from plumbline.archive.schema import (
    NATURAL_KEY,
    AuditEntry,
    AvailabilityCheck,
    Base,
    Baseline,
    Campaign,
    Correction,
    Decision,
    Document,
    Expired,
    Finding,
    Incident,
    OperationsLog,
    Price,
    PriceReading,
    Quarantined,
    Snapshot,
    Trial,
)
from plumbline.whole_file import sha256_file

Row = dict[str, Any]


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
    ledger = {
        f"{model.__tablename__}.jsonl": _rows(session, model) for model in (Price, Decision, PriceReading, Snapshot, AvailabilityCheck)
    }
    if campaigns is None:
        findings = _rows(session, Finding, Finding.campaign_id.is_(None))
        ledger |= {"findings.jsonl": findings, "incidents.jsonl": _threads(session, findings), "audit.jsonl": _rows(session, AuditEntry)}
        ledger["operations_log.jsonl"] = _rows(session, OperationsLog)
    manifest = BundleManifest(format=2, schema_revision=head(), exported_at=now, campaigns=entries, ledger=_write(folder, LEDGER, ledger))
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return [
        ExportedCampaign(name, entry.trials, entry.files[f"{campaign_folder(name)}/{ATTEMPTS_FILE}"]) for name, entry in entries.items()
    ]


def _campaign(session: Session, folder: Path, campaign_id: str) -> CampaignEntry:
    below = campaign_folder(campaign_id)
    trials = list(session.scalars(select(Trial).where(Trial.campaign_id == campaign_id)))
    # As they were recorded: the first one makes the campaign. In Python, because databases sort text by their own collations.
    trials.sort(key=lambda trial: (trial.recorded_at, *(getattr(trial, name) for name in NATURAL_KEY)))
    ids = select(Trial.id).where(Trial.campaign_id == campaign_id)
    corrections = {row.trial_pk: row for row in session.scalars(select(Correction).where(Correction.trial_pk.in_(ids)))}
    attempts, files = {trial.id: trial.attempt for trial in trials}, {}
    lines: list[Row] = []
    names = {trial.id: f"{place:06d}.json" for place, trial in enumerate(trials, 1)}
    for trial in trials:
        file = folder / below / "documents" / names[trial.id]
        content = session.scalar(select(Document.content).where(Document.trial_pk == trial.id))
        if content is None:
            raise BadBundle(
                f"{trial.trial_id}#{trial.attempt}: its document is missing in the archive; `plumbline archive verify` shows all"
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8", newline="")
        sha256 = files[f"{below}/documents/{file.name}"] = sha256_file(file)
        line: Row = {"document": file.name, "sha256": sha256, "action": trial.quality_action, "reasons": trial.quality_reasons}
        line |= {"uri": trial.uri, "recorded_at": trial.recorded_at}
        if (made := corrections.get(trial.id)) is not None:
            line["correction"] = {"attempt": attempts[made.corrects], "at": made.corrected_at, "by": made.corrected_by, "why": made.why}
        lines.append(line)
    expired = [
        {**{name: value for name, value in row.items() if name != "trial_pk"}, "document": names[row["trial_pk"]]}
        for row in _rows(session, Expired, Expired.trial_pk.in_(ids))
    ]
    parts = {ATTEMPTS_FILE: lines, EXPIRED_FILE: expired, **_conclusions(session, trials, campaign_id)}
    return CampaignEntry(trials=len(trials), files={**files, **_write(folder, below, parts)})


def _conclusions(session: Session, trials: Sequence[Trial], campaign_id: str) -> dict[str, list[Row]]:
    """What was concluded from the campaign: findings with their threads, baselines, quarantine, and what the audit log says of any of them."""
    findings = _rows(session, Finding, Finding.campaign_id == campaign_id)
    quarantined = _rows(session, Quarantined, Quarantined.campaign_id == campaign_id)
    subjects = {campaign_id, *(row["finding_id"] for row in findings), *(row["quarantine_id"] for row in quarantined)}
    subjects |= {name for trial in trials for name in (trial.trial_id, f"{trial.trial_id}#{trial.attempt}")}
    log = _rows_of(session, AuditEntry, AuditEntry.subject, sorted(subjects | {trial.series_key for trial in trials}))
    return {
        "findings.jsonl": findings,
        "incidents.jsonl": _threads(session, findings),
        "baselines.jsonl": _rows(session, Baseline, Baseline.campaign_id == campaign_id),
        "quarantine.jsonl": quarantined,
        "audit.jsonl": [row for row in log if row["subject"] in subjects or row["detail"].get("campaign_id") == campaign_id],
    }


def _threads(session: Session, findings: Iterable[Row]) -> list[Row]:
    return _rows_of(session, Incident, Incident.finding_id, [row["finding_id"] for row in findings])


def _rows(session: Session, model: type[Base], *where: ColumnElement[bool]) -> list[Row]:
    """The rows in the order of their key, without a number that the table gave them."""
    table = model.__table__
    query = select(table).where(*where).order_by(*table.primary_key)
    return [{name: value for name, value in row._mapping.items() if name != "id"} for row in session.execute(query)]


def _rows_of(session: Session, model: type[Base], column: Any, values: Sequence[str]) -> list[Row]:
    return [row for batch in batches(values) for row in _rows(session, model, column.in_(batch))]


def _write(folder: Path, part: str, files: dict[str, list[Row]]) -> dict[str, str]:
    """Write the files that have lines; returns their paths and SHA-256s."""
    written = {}
    for name, lines in files.items():
        if lines or name == ATTEMPTS_FILE:
            write_lines(folder / part / name, lines)
            written[f"{part}/{name}"] = sha256_file(folder / part / name)
    return written
