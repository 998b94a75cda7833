"""Schemas: a new archive has that of the models, a stored one opens unchanged, and a newer program migrates it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError, OperationalError
from tests.data.result_documents import document, trial
from tests.fakes.next_schema import newer_program
from tests.golden import Golden

from plumbline.archive import FindingRecord, IncidentRecord, OldSchema, UnknownSchema, open_archive
from plumbline.archive.engine import make_engine, migrating
from plumbline.archive.migrate import check_revision, head, revision_of, upgrade
from plumbline.archive.schema import Base

STORED = Path(__file__).parents[2] / "data" / "archives" / f"schema-{head()}.sql"
"""An archive as SQL text, as it was stored with this schema; with a correction, a finding and a document in quarantine."""
FINDING = FindingRecord("f1", trial().series_key, "2025-11", "p", "price", "info", "dearer")


def stored(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "archive.db")) as connection:
        connection.executescript(STORED.read_text())
    return f"sqlite:///{folder / 'archive.db'}"


def test_models_and_schema_agree(archive_url: str) -> None:
    with open_archive(archive_url) as archive, archive.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
        assert revision_of(archive.engine) == head()


def test_opening_again_migrates_nothing(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.record(document(), uri="file:///store")
    with open_archive(archive_url) as archive:
        assert revision_of(archive.engine) == head()
        assert len(archive.trials()) == 1


def test_a_stored_archive_opens_with_its_rows(tmp_path: Path) -> None:
    with open_archive(stored(tmp_path)) as archive:
        assert revision_of(archive.engine) == head()
        assert [(t.attempt, t.corrected) for t in archive.trials()] == [(1, False), (1, True), (2, False)]
        assert archive.findings()[0].finding_id == "f1"
        assert len(archive.quarantined()) == 1
        assert archive.verify() == []


def test_a_new_archive_has_the_tables_indexes_and_triggers_of_a_stored_one(tmp_path: Path) -> None:
    open_archive(f"sqlite:///{tmp_path / 'new.db'}").close()
    stored(tmp_path)
    assert _schema(tmp_path / "new.db") == _schema(tmp_path / "archive.db")


def _schema(file: Path) -> dict[str, list[str]]:
    """Each object's definition; the constraints of a table in any order."""
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    words = {name: " ".join(sql.replace('"', "").split()).removesuffix(" )") for name, sql in rows}
    return {name: sorted(sql.split(", CONSTRAINT ")) for name, sql in words.items()}


@pytest.mark.parametrize("revision", ["0009", "0013"])
@pytest.mark.fault("an archive of before the first release is opened", ends="refused: OldSchema", keeps="the archive as it is")
def test_an_archive_of_before_the_first_release_is_refused(tmp_path: Path, golden: Golden, revision: str) -> None:
    url = stored(tmp_path)
    with closing(sqlite3.connect(tmp_path / "archive.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.commit()
    for migrate in (False, True):
        with pytest.raises(OldSchema) as error:
            open_archive(url, migrate=migrate)
    assert f"{tmp_path / 'archive.db'} has the schema {revision}" in str(error.value)
    golden("archive.too_old", str(error.value).replace(str(tmp_path), "/home/team").replace(revision, "0009"))
    with closing(sqlite3.connect(tmp_path / "archive.db")) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision,)]


def test_a_migration_keeps_every_row(archive_url: str, tmp_path: Path) -> None:
    measured = document()
    with open_archive(archive_url) as archive:
        archive.record(measured, uri="file:///store")
        archive.save_findings([FINDING])
        archive.save_incident(IncidentRecord("f1", "C1", "1.0", "open", "hash"))
        before, said = archive.trials(), archive.findings()
        with newer_program(tmp_path) as newer:
            upgrade(archive.engine)
            assert revision_of(archive.engine) == newer
            assert "later" in inspect(archive.engine).get_table_names()
            assert (archive.trials(), archive.findings()) == (before, said)
        assert archive.document(measured.trial.trial_id) == measured
        assert {i["name"] for i in inspect(archive.engine).get_indexes("findings")} >= {"ix_findings_provider_opened_at"}
        assert archive.verify() == []


@pytest.mark.fault("a newer program opens a shared archive of an older schema", ends="refused: OldSchema", keeps="the archive as it is")
def test_opening_does_not_migrate_a_shared_archive(archive_url: str, tmp_path: Path, golden: Golden) -> None:
    open_archive(archive_url).close()
    engine, before = make_engine(archive_url), head()
    with newer_program(tmp_path) as newer:
        with pytest.raises(OldSchema) as error:
            open_archive(archive_url)
        golden("archive.old_schema", str(error.value))
        assert revision_of(engine) == before
        open_archive(archive_url, migrate=True).close()
        assert revision_of(engine) == newer
    engine.dispose()


def test_the_installations_own_archive_is_migrated_when_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_ARCHIVE_URL", raising=False)
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    open_archive().close()
    with newer_program(tmp_path / "newer") as newer, open_archive() as archive:
        assert revision_of(archive.engine) == newer


@pytest.mark.fault("an older program opens an archive of a newer schema", ends="refused: UnknownSchema", keeps="the archive as it is")
def test_an_archive_of_a_newer_version_is_left_alone(archive_url: str, golden: Golden) -> None:
    with open_archive(archive_url) as archive, archive.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UnknownSchema) as error:
        open_archive(archive_url)
    golden("archive.newer_schema", str(error.value))
    engine = make_engine(archive_url)
    assert revision_of(engine) == "9999"
    engine.dispose()


def test_a_database_without_a_schema_is_old() -> None:
    with pytest.raises(OldSchema):
        check_revision(None)


def test_a_migration_that_breaks_a_reference_is_undone(tmp_path: Path) -> None:
    """SQLite's references are off while tables are rebuilt, so they are checked before the commit."""
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        archive.record(document(), uri="file:///store")
        with pytest.raises(OperationalError, match="point to nothing"), migrating(archive.engine) as connection:
            connection.execute(text("DELETE FROM campaigns"))
        assert len(archive.campaigns()) == 1
        assert archive.verify() == []


def test_checks_hold_what_the_models_name(archive_url: str) -> None:
    with open_archive(archive_url) as archive:
        archive.record(document(), uri="file:///store")
        assert archive.save_findings([FINDING]) == ("f1",)
        for wrong in ({"severity": "dire"}, {"kind": "rumour"}):
            with pytest.raises(IntegrityError):
                archive.save_findings([replace(FINDING, finding_id="f2", **wrong)])  # type: ignore[arg-type]


def test_campaigns_of_the_first_schema_get_the_purpose_that_their_name_and_reason_say(tmp_path: Path) -> None:
    file = tmp_path / "archive.db"
    rows = {"accept-1": "acceptance of nova", "od-1": "why not", "2026-12": "monthly rerun"}
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(STORED.with_name("schema-0014.sql").read_text())
        for name, reason in rows.items():
            connection.execute("INSERT INTO campaigns VALUES (?, ?, '2026-12-01 00:00:00', '2026-12-01 00:00:00')", (name, reason))
        connection.commit()
    with open_archive(f"sqlite:///{file}", migrate=True) as archive:
        found = {c.campaign_id: c.purpose for c in archive.campaigns()}
        assert found == {"2025-11": "monthly", "accept-1": "acceptance", "od-1": "on_demand", "2026-12": "monthly"}
    (tmp_path / "new").mkdir()
    stored(tmp_path / "new")
    assert _schema(file) == _schema(tmp_path / "new" / "archive.db")
