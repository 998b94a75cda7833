"""Export finished campaigns to the declared location, and import campaigns of another archive."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from plumbline.archive import Archive, open_archive
from plumbline.archive.bundle import ImportedCampaign
from plumbline.archive.bundle.manifest import MANIFEST_FILE, BundleManifest, load_manifest
from plumbline.archive.records import Action
from plumbline.archive.trials import CampaignChange
from plumbline.declarations import load_in_force
from plumbline.launch import connections
from plumbline.quality import check
from plumbline.results import Reason, ResultDocument, ResultStore

_log = logging.getLogger(__name__)
_QUIET = timedelta(days=1)
"""A campaign's slots are within a day: without a new record for longer it is finished."""
_OVERLAP = timedelta(minutes=10)
"""Records written just before an export may have been committed after it read them."""


def export_campaigns(now: datetime) -> list[str] | None:
    """Export every finished campaign that changed since its last export to `export.to`/<campaign>; their names. None without a declared location.

    Each is a bundle for `plumbline archive import`. OSError if the location does not answer, ValueError if its connection does not fit it; the
    next run continues.
    """
    declared = load_in_force().upkeep.export
    if declared is None:
        return None
    options = connections.store_options(declared.to, declared.connection) if declared.connection else None
    target = ResultStore(declared.to, options)
    with open_archive() as archive:
        done = []
        for campaign in archive.moved():
            exported = _last_export(target, campaign.campaign_id)
            if now - campaign.recorded_at >= _QUIET and (exported is None or exported.exported_at < campaign.changed_at + _OVERLAP):
                _log.info("%s: %d files written to %s", campaign.campaign_id, _write(archive, campaign, target, exported), target.url)
                done.append(campaign.campaign_id)
        return done


def _last_export(target: ResultStore, campaign_id: str) -> BundleManifest | None:
    from pydantic import ValidationError

    try:
        return BundleManifest.model_validate_json(target.get(f"{campaign_id}/{MANIFEST_FILE}"))
    except (FileNotFoundError, ValidationError):
        return None


def _write(archive: Archive, campaign: CampaignChange, target: ResultStore, exported: BundleManifest | None) -> int:
    """Write new files, the manifest last; their number."""
    known = _files(exported) if exported else {}
    with tempfile.TemporaryDirectory(prefix="plumbline-export-") as scratch:
        folder = Path(scratch) / "bundle"
        archive.export(folder, [campaign.campaign_id])
        new = [name for name, sha256 in _files(load_manifest(folder)).items() if known.get(name) != sha256]
        for name in (*new, MANIFEST_FILE):
            target.put(f"{campaign.campaign_id}/{name}", (folder / name).read_bytes())
    return len(new) + 1


def _files(manifest: BundleManifest) -> dict[str, str]:
    return {**manifest.ledger, **{name: sha256 for entry in manifest.campaigns.values() for name, sha256 in entry.files.items()}}


def import_bundle(archive: Archive, folder: Path, campaigns: Sequence[str] | None, by: str) -> list[ImportedCampaign]:
    """Import a bundle with the quality verdicts of this installation. Raises like Archive.import_."""
    return archive.import_(folder, campaigns, by=by, judge=quality_verdicts)


def quality_verdicts(documents: Sequence[ResultDocument]) -> Mapping[str, tuple[Action, Sequence[Reason]]]:
    """The verdict on each document, by `trial_id#attempt`, without Data Docs."""
    with tempfile.TemporaryDirectory(prefix="plumbline-import-") as pages:
        report = check(documents, [document.trial for document in documents], Path(pages), "import")
    return {name: (verdict.action, verdict.reasons) for name, verdict in report.verdicts.items()}
