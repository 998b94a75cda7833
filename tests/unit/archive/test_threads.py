"""What was said in a finding's thread, and findings that are left in peace for a while."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import text

from plumbline.archive import Archive, FindingRecord, IncidentRecord, WrongState, open_archive

DEARER = FindingRecord("f1", "", None, "lab-2core", "price", "warn", "dearer", {"finding_id": "f1"})
TOMORROW = datetime.now(timezone.utc) + timedelta(days=1)


@pytest.fixture
def known(archive: Archive) -> Archive:
    archive.save_findings([DEARER])
    return archive


def test_what_was_said_comes_back_as_it_was_noted(known: Archive) -> None:
    said = {"opened": {"at": "2026-11-20T00:00:00+00:00", "ts": "1.0"}}
    known.save_incident(IncidentRecord("f1", "C1", "1.0", "open", "h", "warn", said))
    known.save_incident(IncidentRecord("f1", "C2", "", "posting", ""))
    first, second = known.incidents("f1")
    assert (first.severity, first.posts, second.severity, second.posts) == ("warn", said, "", {})
    known.save_incident(IncidentRecord("f1", "C1", "1.0", "open", "h2", "page", {**said, "escalated": {"at": "x", "ts": ""}}))
    assert known.incidents("f1")[0].posts["escalated"] == {"at": "x", "ts": ""} and known.incidents("f1")[0].severity == "page"


def test_a_snooze_is_kept_and_logged_once_and_ends_by_another(known: Archive) -> None:
    assert known.finding("f1").snoozed_until is None
    assert known.snooze_finding("f1", TOMORROW, "ada", "the provider knows").snoozed_until == TOMORROW
    known.snooze_finding("f1", TOMORROW, "ada", "again")
    assert known.snooze_finding("f1", datetime(2020, 1, 1, tzinfo=timezone.utc), "bob", "not after all").snoozed_until is None
    assert [(e.who, e.what) for e in known.audit("f1")] == [
        ("drift", "finding_opened"),
        ("ada", "finding_snoozed"),
        ("bob", "finding_woken"),
    ]
    assert known.audit("f1")[1].detail["until"] == TOMORROW.isoformat()


def test_a_snooze_ends_when_the_finding_becomes_graver(known: Archive) -> None:
    known.snooze_finding("f1", TOMORROW, "ada", "the provider knows")
    known.continue_finding(replace(DEARER, severity="info"), "2026-11-21", "as before")
    known.continue_finding(DEARER, "2026-11-22", "as before")
    assert known.finding("f1").snoozed_until is None
    known.snooze_finding("f1", TOMORROW, "ada", "the provider still knows")
    known.continue_finding(DEARER, "2026-11-23", "as before")
    assert known.finding("f1").snoozed_until == TOMORROW
    known.continue_finding(replace(DEARER, severity="page"), "2026-11-24", "much dearer")
    assert known.finding("f1").snoozed_until is None
    woken = [e for e in known.audit("f1") if e.what == "finding_woken"]
    assert woken[-1].why == "it became graver" and woken[-1].detail == {"severity": "page", "before": "warn"}


def test_what_cannot_be_snoozed(known: Archive) -> None:
    with pytest.raises(LookupError, match='no finding "f9"'):
        known.snooze_finding("f9", TOMORROW, "ada", "x")
    with pytest.raises(ValueError, match="why is empty"):
        known.snooze_finding("f1", TOMORROW, "ada", " ")
    known.set_finding_state("f1", "resolved", by="ada", why="gone")
    with pytest.raises(WrongState, match="f1 is resolved"):
        known.snooze_finding("f1", TOMORROW, "ada", "x")


def test_threads_and_snoozes_travel_with_the_archive(known: Archive, tmp_path: Path) -> None:
    known.save_incident(IncidentRecord("f1", "C1", "1.0", "open", "h", "warn", {"opened": {"at": "x", "ts": "1.0"}}))
    known.save_incident(IncidentRecord("f1", "C2", "", "posting", ""))
    known.snooze_finding("f1", TOMORROW, "ada", "the provider knows")
    known.export(tmp_path / "bundle")
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as other:
        other.import_(tmp_path / "bundle")
        assert other.incidents() == known.incidents() and other.finding("f1").snoozed_until == TOMORROW


@pytest.mark.fault("the holder of a lock is killed", ends="the next one takes it", keeps="one writer at a time")
def test_one_process_at_a_time_and_the_next_one_when_it_was_killed(archive: Archive, archive_url: str) -> None:
    holds = (
        "import sys, time; from plumbline.archive import open_archive\n"
        f"with open_archive({archive_url!r}).alone('alerts', 5) as had: print(had, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        with archive.alone("alerts", 0.2) as had:
            assert not had
        with archive.alone("export", 0.2) as had:
            assert had
        other.kill()
        other.wait()
        with archive.alone("alerts", 30) as had:
            assert had
    with archive.alone("alerts", 0) as had, archive.engine.connect() as connection:
        assert had and connection.execute(text("SELECT 1")).scalar_one() == 1
