"""Entries of the operations log: each state is kept, a retry adds none, and what cannot be true is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from plumbline.archive import Archive, open_archive
from plumbline.archive.bundle.importer import IMPORTED_SUFFIX
from plumbline.results.operations import LogEntry

OPENED = datetime(2026, 11, 2, 10, tzinfo=timezone.utc)
INCIDENT = LogEntry("lab-2core", "incident", "no node answers", OPENED, whose="provider", severity="P1")
HOUR = timedelta(hours=1)


def test_an_entry_is_completed_by_a_further_state(archive: Archive) -> None:
    opened = archive.log_entry(INCIDENT, by="ada")
    assert archive.log_entry(INCIDENT, by="bob") == opened, "a retry adds nothing"
    solved = replace(INCIDENT, answered=OPENED + HOUR, solved=OPENED + 2 * HOUR)
    archive.log_entry(solved, by="bob", entry_id=opened.entry_id)
    archive.log_entry(solved, by="cy", entry_id=opened.entry_id)
    assert [(e.revision, e.solved, e.recorded_by) for e in archive.operations_history(opened.entry_id)] == [
        (1, None, "ada"),
        (2, OPENED + 2 * HOUR, "bob"),
    ]
    (newest,) = archive.operations("lab-2core")
    assert (newest.revision, newest.what) == (2, "no node answers")
    assert archive.operations("lab-2core", "ticket") == archive.operations("another") == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"what": " "}, "expected 3 to 500 characters"),
        ({"severity": "x" * 501}, "expected 3 to 500 characters"),
        ({"solved": OPENED - HOUR}, "between opened"),
        ({"opened": datetime(2999, 1, 1, tzinfo=timezone.utc)}, "and now"),
    ],
)
def test_an_entry_that_cannot_be_true_is_refused(archive: Archive, change: dict[str, object], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        archive.log_entry(replace(INCIDENT, **change), by="ada")  # type: ignore[arg-type]
    assert archive.operations() == []


def test_maintenance_is_announced(archive: Archive) -> None:
    ahead = datetime.now(timezone.utc) + 24 * HOUR
    assert archive.log_entry(replace(INCIDENT, kind="maintenance", opened=ahead, solved=ahead + HOUR), by="ada").revision == 1


def test_a_change_names_its_entry(archive: Archive) -> None:
    known = archive.log_entry(INCIDENT, by="ada")
    with pytest.raises(ValueError, match=f"--id {known.entry_id}"):
        archive.log_entry(replace(INCIDENT, severity="P2"), by="ada")
    with pytest.raises(LookupError, match="has no entry"):
        archive.log_entry(INCIDENT, by="ada", entry_id="unknown")
    for other in (replace(INCIDENT, kind="ticket"), replace(INCIDENT, provider="another")):
        with pytest.raises(ValueError, match="or a new entry"):
            archive.log_entry(other, by="ada", entry_id=known.entry_id)


@pytest.mark.parametrize("statement", ["UPDATE operations_log SET whose = 'us'", "DELETE FROM operations_log"])
def test_the_database_refuses_to_change_an_entry(archive: Archive, statement: str) -> None:
    archive.log_entry(INCIDENT, by="ada")
    with pytest.raises(DBAPIError, match="append-only"), archive.engine.begin() as connection:
        connection.execute(text(statement))


def test_a_bundle_of_the_whole_archive_brings_the_log_and_says_that_it_was_imported(archive: Archive, tmp_path: Path) -> None:
    known = archive.log_entry(INCIDENT, by="ada")
    archive.log_entry(replace(INCIDENT, solved=OPENED + HOUR), by="ada", entry_id=known.entry_id)
    archive.export(tmp_path / "bundle")
    with open_archive(f"sqlite:///{tmp_path / 'other.db'}") as other:
        for _ in range(2):
            other.import_(tmp_path / "bundle")
        found = other.operations_history(known.entry_id)
    assert [replace(e, recorded_by="ada") for e in found] == archive.operations_history(known.entry_id)
    assert {e.recorded_by for e in found} == {f"ada{IMPORTED_SUFFIX}"}
