"""A whole copy of a database while others write to it, and the way back: SQLite's `VACUUM INTO`, or pg_dump and pg_restore."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, inspect, make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from plumbline.archive.engine import create_private, one_line
from plumbline.archive.migrate import revision_of, revisions
from plumbline.patience import patience_s
from plumbline.whole_file import sha256_file, whole_file

_MAGIC = {b"SQLite format 3\0": "sqlite", b"PGDMP": "postgresql"}
_OWN_TABLES, _AIRFLOWS_TABLES = {"alembic_version", "trials", "documents"}, {"alembic_version", "dag_run", "task_instance"}
_CLIENT = "install PostgreSQL's client programs of the server's version or newer (Debian: apt-get install postgresql-client)"


class BackupError(RuntimeError):
    """A backup or a restore failed and changed nothing; the message gives the reason and the remedy."""


@dataclass(frozen=True)
class Backup:
    """A copy: its file, size in bytes and SHA-256, and the schema (Alembic's revision) of the database; None if it has none."""

    file: Path
    bytes: int
    sha256: str
    schema: str | None


def backup(url: str, file: Path) -> Backup:
    """Copy the database at `url` into the new `file`, mode 0600, whole or not at all. The copy is of one moment; writers go on meanwhile.

    BackupError if the file exists, the database is away, the disk is full, or pg_dump is missing or of an older version.
    """
    parsed = make_url(url)
    if file.exists():
        raise BackupError(f"{file} exists; expected the name of a new file: a backup never replaces another one")
    try:
        with whole_file(file, durable=True) as draft:
            draft.touch(0o600, exist_ok=False)
            if parsed.get_backend_name() == "sqlite":
                with closing(_sqlite(Path(str(parsed.database)), "rw")) as database:
                    database.execute("VACUUM INTO ?", [str(draft)])
            else:
                _run("pg_dump", "--format=custom", "--no-password", "--file", str(draft), url=parsed)
            return Backup(file, draft.stat().st_size, sha256_file(draft), revision_of(_engine(parsed)))
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        raise BackupError(f"{file} was not written: {one_line(error)}") from error


@dataclass(frozen=True)
class Restored:
    """The database's schema now, and the copy of the rows that it held before; None if it held none."""

    schema: str | None
    kept: Path | None = None


def restore(url: str, file: Path, *, replace: bool = False, airflow: bool = False) -> Restored:
    """Replace the database at `url` by the content of `file`, in one transaction; rows that it holds are copied into a new file before.

    BackupError if the file is no backup of this database (the archive's, or Airflow's), is damaged or of an unknown schema, or if the database
    holds rows and `replace` is not given.
    """
    parsed = make_url(url)
    try:
        with file.open("rb") as opened:
            start = opened.read(16)
        kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
        if kind != (backend := parsed.get_backend_name()):
            what = f"a backup of {kind}" if kind else "not a backup"
            raise BackupError(f"{file} is {what}; expected what `plumbline archive backup` wrote of a database of {backend}")
        _check_content(file, kind, airflow)
        kept = None
        if kind == "sqlite":
            Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
            create_private(Path(str(parsed.database)))
        tables, filled = _tables(_engine(parsed))
        if filled is not None and not replace:
            raise BackupError(f"{_engine(parsed).url} is not empty ({filled}); give --replace to delete what it holds")
        if filled is not None:
            beside = Path(str(parsed.database)) if kind == "sqlite" else file
            kept = beside.with_name(f"{beside.name}.{datetime.now(timezone.utc):%Y%m%d-%H%M%S-%f}.replaced")
            backup(url, kept)
        _restore_sqlite(parsed, file) if kind == "sqlite" else _restore_postgresql(parsed, file, tables)
        return Restored(revision_of(_engine(parsed)), kept)
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        raise BackupError(f"{file} was not restored: {one_line(error)}") from error


def _check_content(file: Path, kind: str, airflow: bool) -> None:
    if kind == "sqlite":
        with closing(_sqlite(file, "ro&immutable=1")) as origin:
            if (problem := origin.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise BackupError(f"{file} is damaged: {problem}")
            tables = {name for (name,) in origin.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            found = origin.execute("SELECT version_num FROM alembic_version").fetchone() if "alembic_version" in tables else None
            revision = found[0] if found else None
    else:
        tables = set(re.findall(r" TABLE \S+ (\S+) ", _run("pg_restore", "--list", str(file))))
        rows = _run("pg_restore", "--data-only", "--table=alembic_version", "--file=-", str(file))
        found = re.search(r"^COPY .*\n(\S+)\n", rows, re.MULTILINE)
        revision = found[1] if found else None
    expected, what = (_AIRFLOWS_TABLES, "Airflow's database") if airflow else (_OWN_TABLES, "the archive")
    if missing := sorted(expected - tables):
        raise BackupError(f"{file} is no backup of {what}: it has no table {missing[0]}; nothing was changed")
    if not airflow and revision not in revisions():
        raise BackupError(f"{file} has the schema {revision}, which this version does not know; nothing was changed")


def _restore_sqlite(url: URL, file: Path) -> None:
    target = Path(str(url.database))
    with closing(_sqlite(file, "ro&immutable=1")) as origin:
        deadline = time.monotonic() + patience_s()

        def impatient(*_: int) -> None:
            if time.monotonic() > deadline:
                raise sqlite3.OperationalError(f"another process kept writing for {patience_s():g} s; stop it first")

        with closing(_sqlite(target, "rwc")) as database:  # into the file that is there: who has it open sees the new content
            origin.backup(database, progress=impatient)


def _restore_postgresql(url: URL, file: Path, tables: list[str]) -> None:
    engine = _engine(url)
    drops = [f'DROP TABLE IF EXISTS "{name}" CASCADE' for name in tables]
    drops += [f'DROP TYPE IF EXISTS "{enum["name"]}" CASCADE' for enum in inspect(engine).get_enums()]  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.sql"
        _run("pg_restore", "--clean", "--if-exists", "--no-owner", "--no-privileges", "--file", str(script), str(file))
        # What a newer version made goes with it, in the one transaction that brings back the rest.
        first = (f"--command={statement}" for statement in (f"SET lock_timeout = '{patience_s():g}s'", *drops))
        quiet = ("--no-psqlrc", "--quiet", "--no-password", "--set=ON_ERROR_STOP=1", "--output=/dev/null")
        _run("psql", *quiet, "--single-transaction", *first, f"--file={script}", url=url)


def _tables(engine: Engine) -> tuple[list[str], str | None]:
    """The database's tables, and the first that holds rows; None if all are empty."""
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        rows = (
            name for name in tables if name != "alembic_version" and connection.execute(text(f'SELECT 1 FROM "{name}" LIMIT 1')).first()
        )
        return tables, next(rows, None)


def _run(name: str, *arguments: str, url: URL | None = None) -> str:
    """The output of a client program, run at `url` if given; the password is in no argument, which others can read."""
    from psycopg.conninfo import make_conninfo

    if (program := shutil.which(name)) is None:
        raise BackupError(f"{name} is not on PATH; {_CLIENT}")
    command, environment = [program, *arguments], dict(os.environ)
    if url is not None:
        query = {key: value if isinstance(value, str) else ",".join(value) for key, value in url.query.items()}  # several hosts: a list
        server: dict[str, Any] = {"host": url.host, "port": url.port, "user": url.username, "dbname": url.database, **query}
        command += ["--dbname", make_conninfo(**server)]
        environment |= {"PGPASSWORD": str(url.password)} if url.password else {}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [" ".join(line.split()) for line in done.stderr.splitlines()]
        why = next((line for line in lines if "error" in line.lower()), " ".join(lines))
        remedy = f"; {_CLIENT}" if "version mismatch" in done.stderr else ""
        raise BackupError(f"{name} ended with status {done.returncode}, the database is as it was: {why}{remedy}")
    return done.stdout


def _engine(url: URL) -> Engine:
    """An engine without the settings of an archive: Airflow's database keeps its own."""
    return create_engine(url if url.get_backend_name() == "sqlite" else url.set(drivername="postgresql+psycopg"), poolclass=NullPool)


def _sqlite(file: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode={mode}", uri=True, timeout=patience_s())
