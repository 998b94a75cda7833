"""Which snapshots and quarantined documents go, and that the database refuses to change those that stay."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from plumbline.archive import Archive, QuarantineRecord, SnapshotRecord, retention

DAY = timedelta(days=1)
NOW = datetime.now(timezone.utc)


def snapshots(archive: Archive, drivers: str, kind: str = "cluster") -> None:
    """One a day, the last one today; each letter is a driver."""
    for age, driver in enumerate(reversed(drivers)):
        archive.save_snapshot(SnapshotRecord("lab", kind, NOW - age * DAY, {"driver.version": driver}))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_NEWEST_KEPT", 2)


def test_repeats_go_and_both_sides_of_a_change_stay(archive: Archive) -> None:
    snapshots(archive, "aaaaabbbbaa")
    assert archive.thin_snapshots(0.0) == 5
    assert "".join(s.facts["driver.version"] for s in archive.snapshots("lab")) == "aabbaa"
    assert archive.thin_snapshots(0.0) == 0
    assert archive.verify() == []


def test_young_ones_and_the_newest_stay(archive: Archive) -> None:
    snapshots(archive, "aaaaaaaa")
    assert archive.thin_snapshots((5.5 * DAY).total_seconds()) == 1
    assert len(archive.snapshots("lab")) == 7
    snapshots(archive, "aa", kind="probe")
    assert archive.thin_snapshots(0.0) == 4
    assert len(archive.snapshots("lab", "probe")) == 2


def test_a_snapshot_still_cannot_be_changed(archive: Archive) -> None:
    snapshots(archive, "a")
    with pytest.raises(DBAPIError, match="append-only"), archive.engine.begin() as connection:
        connection.execute(text("UPDATE snapshots SET provider = 'x'"))


def test_the_database_itself_lets_only_repeats_go(archive: Archive) -> None:
    snapshots(archive, "aaabb")
    first, repeat, before_change, after_change, last = archive.snapshots("lab")
    for one in (first, before_change, after_change, last):
        with pytest.raises(DBAPIError, match="append-only"), archive.engine.begin() as connection:
            connection.execute(text("DELETE FROM snapshots WHERE snapshot_id = :id"), {"id": one.snapshot_id})
    with archive.engine.begin() as connection:
        connection.execute(text("DELETE FROM snapshots WHERE snapshot_id = :id"), {"id": repeat.snapshot_id})
    assert len(archive.snapshots("lab")) == 4


def test_quarantined_documents_are_forgotten_by_age_and_store(archive: Archive) -> None:
    for number, uri in enumerate(("file:///store/quarantine/a", "file:///other/quarantine/b", "file:///store/quarantine/../trials/c")):
        archive.quarantine(QuarantineRecord("2025-11", f"t{number}", 1, uri, "0" * 64, "newer"))
    assert archive.forget_quarantined(3600.0, "file:///store/quarantine", "a rule") == []
    assert archive.forget_quarantined(-3600.0, "file:///store/quarantine", "a rule") == ["file:///store/quarantine/a"]
    assert [q.trial_id for q in archive.quarantined()] == ["t1", "t2"]
    entry = next(e for e in archive.audit() if e.what == "document_forgotten")
    assert (entry.why, entry.detail["uri"]) == ("a rule", "file:///store/quarantine/a")
