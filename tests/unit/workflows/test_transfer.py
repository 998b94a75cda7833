"""A finished campaign is exported once, again when something of it changed, and another archive can take it in."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.data.result_documents import document, trial
from tests.fakes.installation import with_upkeep

from plumbline.archive import FindingRecord, open_archive
from plumbline.workflows.transfer import export_campaigns

SERIES = trial().series_key


@pytest.fixture(autouse=True)
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of its own that exports to a folder."""
    with_upkeep(tmp_path, monkeypatch, f'export: {{to: "{(tmp_path / "exports").as_uri()}"}}\n')
    return tmp_path / "exports"


def record(campaign: str, *, repeat: int = 1) -> None:
    with open_archive() as archive:
        archive.record(document(trial(campaign=campaign, repeat=repeat)), uri="file:///store")


def exported(days_later: float) -> list[str] | None:
    return export_campaigns(datetime.now(timezone.utc) + timedelta(days=days_later))


def written(target: Path) -> dict[str, int]:
    return {str(file.relative_to(target)): file.stat().st_mtime_ns for file in target.rglob("*") if file.is_file()}


def test_only_a_campaign_that_is_quiet_for_a_day_is_finished(target: Path) -> None:
    record("2025-11")
    assert exported(0.9) == []
    assert not target.exists()
    assert exported(1.1) == ["2025-11"]
    assert (target / "2025-11" / "manifest.json").exists()


def test_what_was_exported_can_be_taken_in(target: Path, tmp_path: Path) -> None:
    record("2025-11")
    record("2025-12")
    assert exported(2) == ["2025-11", "2025-12"]
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as other:
        for name in ("2025-11", "2025-12"):
            assert [(one.new, one.refused) for one in other.import_(target / name)] == [(1, None)]
        assert other.verify() == []


def an_hour_later(target: Path) -> None:
    """As if what was exported had been exported an hour after the archive last changed."""
    for file in target.glob("*/manifest.json"):
        manifest = json.loads(file.read_text())
        manifest["exported_at"] = (datetime.fromisoformat(manifest["exported_at"]) + timedelta(hours=1)).isoformat()
        file.write_text(json.dumps(manifest))


def test_again_writes_only_what_changed(target: Path, tmp_path: Path) -> None:
    record("2025-11")
    record("2025-12")
    exported(2)
    an_hour_later(target)
    before = written(target)
    assert exported(3) == [] and written(target) == before
    with open_archive() as archive:
        archive.save_findings([FindingRecord("f1", SERIES, "2025-11", "lab-2core", "performance", "warn", "slower")])
    with open_archive() as archive, archive.engine.begin() as connection:
        connection.execute(
            text("UPDATE findings SET updated_at = :at"), {"at": f"{datetime.now(timezone.utc) + timedelta(hours=2):%F %T.%f}"}
        )
    assert exported(3) == ["2025-11"]
    changed = {name for name, at in written(target).items() if before.get(name) != at}
    assert changed == {"2025-11/manifest.json", *(f"2025-11/campaigns/2025-11/{name}.jsonl" for name in ("findings", "audit"))}
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as other:
        other.import_(target / "2025-11")
        assert [finding.finding_id for finding in other.findings()] == ["f1"]


def test_what_changed_while_an_export_looked_is_written_by_the_next_one(target: Path) -> None:
    record("2025-11")
    assert exported(2) == exported(2) == ["2025-11"], "within minutes of the change nobody can tell whether it was seen"


@pytest.mark.fault("an export is cut short", ends="written again", keeps="the archive")
def test_one_that_was_cut_short_is_written_again(target: Path) -> None:
    record("2025-11")
    exported(2)
    manifest = target / "2025-11" / "manifest.json"
    whole = manifest.read_bytes()
    for left in (b"{", None):
        manifest.unlink() if left is None else manifest.write_bytes(left)
        assert exported(2) == ["2025-11"]
        assert len(manifest.read_bytes()) == len(whole)


def test_without_a_declaration_nothing_is_exported(target: Path, tmp_path: Path) -> None:
    record("2025-11")
    (tmp_path / "config" / "upkeep.yaml").write_text("evidence: {}\n")
    assert exported(2) is None
    assert not target.exists()
