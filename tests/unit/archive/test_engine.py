"""Connections: SQLite's settings hold on every connection, and unusable addresses are named."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from tests.data.result_documents import document, trial
from tests.fakes import quick_archives

from plumbline.archive import Archive, engine, open_archive
from plumbline.archive.engine import reading, writing


def test_sqlite_runs_in_wal_mode_with_references_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_configure_sqlite", quick_archives.configure_sqlite)
    with open_archive(f"sqlite:///{tmp_path / 'deep' / 'er' / 'archive.db'}") as archive:
        for _ in range(2):
            with reading(archive.engine) as session:
                settings = {
                    name: session.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("journal_mode", "foreign_keys", "synchronous")
                }
                timeout = session.execute(text("PRAGMA busy_timeout")).scalar_one()
            assert settings == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2}
            assert timeout >= 10_000
            archive.close()  # the next round is a new connection


def test_references_are_enforced(archive: Archive) -> None:
    with pytest.raises(IntegrityError), writing(archive.engine) as session:
        session.execute(
            text("INSERT INTO metrics VALUES (99, 'steady', 'step_time', 'median', 1.0, 's', 1, 'lower_is_better', NULL, NULL)")
        )


def test_a_reader_sees_one_state_while_others_write(archive: Archive) -> None:
    count = text("SELECT count(*) FROM trials")
    archive.record(document(), uri="file:///store")
    with reading(archive.engine) as session:
        assert session.execute(count).scalar_one() == 1
        archive.record(document(trial(repeat=2)), uri="file:///store")
        assert session.execute(count).scalar_one() == 1
    with reading(archive.engine) as session:
        assert session.execute(count).scalar_one() == 2


def test_a_failed_write_leaves_nothing(archive: Archive) -> None:
    with pytest.raises(RuntimeError, match="on purpose"), writing(archive.engine) as session:
        session.execute(text("INSERT INTO audit (at, who, what, subject, why, detail) VALUES ('2025-01-01', 'a', 'b', 'c', 'd', '{}')"))
        raise RuntimeError("on purpose")
    assert archive.audit() == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("not an url", 'the archive\'s address "not an url" is not an URL; expected sqlite:///FILE'),
        ("mysql://host/db", 'names "mysql"; expected sqlite:///FILE or postgresql://'),
        ("sqlite://", "an archive in memory would be lost"),
        ("sqlite:///:memory:", "an archive in memory would be lost"),
    ],
)
def test_unusable_addresses_are_named(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_archive(url)


def test_a_file_that_is_no_archive_is_named(tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    file.write_text("this is not a database, only a text file that lies where one should be\n" * 50)
    with pytest.raises(ValueError, match=r"archive\.db") as error:
        open_archive(f"sqlite:///{file}")
    assert isinstance(error.value.__cause__, sqlite3.DatabaseError)
