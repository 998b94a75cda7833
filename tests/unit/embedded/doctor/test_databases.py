"""The checks of `plumbline doctor` that ask a database."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from plumbline.archive import open_archive
from plumbline.embedded.doctor.databases import archive_database


def test_an_empty_database_is_not_sent_to_a_migration(tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE other (id INTEGER)")
    found = archive_database(f"sqlite:///{file}")
    assert found.status == "unknown" and "migrate" not in found.remedy and "first campaign" in found.remedy
    made = f"sqlite:///{tmp_path / 'made.db'}"
    open_archive(made).close()
    assert archive_database(made).status == "ok"
