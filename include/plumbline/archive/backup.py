"""A whole copy of a database while others write to it, and the way back: SQLite's `VACUUM INTO`, or pg_dump and pg_restore."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Engine, create_engine, inspect, make_url, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from plumbline.archive.engine import BUSY_TIMEOUT_S
from plumbline.archive.migrate import revision_of
from plumbline.whole_file import sha256_file, whole_file

_MAGIC = {b"SQLite format 3\0": "sqlite", b"PGDMP": "postgresql"}
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
        raise BackupError(f"{file} was not written: {_line(error)}") from error


def restore(url: str, file: Path, *, replace: bool = False) -> str | None:
    """Replace the database at `url` by the content of `file`, in one transaction; returns the schema.

    BackupError if the file is no backup of this kind of database or is damaged, or if the database holds rows and `replace` is not given.
    """
    parsed = make_url(url)
    try:
        with file.open("rb") as opened:
            start = opened.read(16)
        kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
        if kind != (backend := parsed.get_backend_name()):
            what = f"a backup of {kind}" if kind else "not a backup"
            raise BackupError(f"{file} is {what}; expected what `plumbline archive backup` wrote of a database of {backend}")
        _restore_sqlite(parsed, file, replace) if kind == "sqlite" else _restore_postgresql(parsed, file, replace)
        return revision_of(_engine(parsed))
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        raise BackupError(f"{file} was not restored: {_line(error)}") from error


def _restore_sqlite(url: URL, file: Path, replace: bool) -> None:
    target = Path(str(url.database))
    with closing(_sqlite(file, "ro&immutable=1")) as origin:
        if (problem := origin.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
            raise BackupError(f"{file} is damaged: {problem}")
        target.parent.mkdir(parents=True, exist_ok=True)
        _tables(_engine(url), replace)
        deadline = time.monotonic() + BUSY_TIMEOUT_S

        def impatient(*_: int) -> None:
            if time.monotonic() > deadline:
                raise sqlite3.OperationalError(f"another process kept writing for {BUSY_TIMEOUT_S:g} s; stop it first")

        with closing(_sqlite(target, "rwc")) as database:  # into the file that is there: who has it open sees the new content
            origin.backup(database, progress=impatient)


def _restore_postgresql(url: URL, file: Path, replace: bool) -> None:
    engine = _engine(url)
    drops = [f'DROP TABLE IF EXISTS "{name}" CASCADE' for name in _tables(engine, replace)]
    drops += [f'DROP TYPE IF EXISTS "{enum["name"]}" CASCADE' for enum in inspect(engine).get_enums()]  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.sql"
        _run("pg_restore", "--clean", "--if-exists", "--no-owner", "--no-privileges", "--file", str(script), str(file))
        # What a newer version made goes with it, in the one transaction that brings back the rest.
        first = (f"--command={statement}" for statement in (f"SET lock_timeout = '{BUSY_TIMEOUT_S:g}s'", *drops))
        quiet = ("--no-psqlrc", "--quiet", "--no-password", "--set=ON_ERROR_STOP=1", "--output=/dev/null")
        _run("psql", *quiet, "--single-transaction", *first, f"--file={script}", url=url)


def _tables(engine: Engine, replace: bool) -> list[str]:
    """The database's tables; BackupError if one holds rows that are not to be replaced."""
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        for table in () if replace else (table for table in tables if table != "alembic_version"):
            if connection.execute(text(f'SELECT 1 FROM "{table}" LIMIT 1')).first() is not None:
                raise BackupError(f"{engine.url} is not empty ({table}); give --replace to delete what it holds")
    return tables


def _run(name: str, *arguments: str, url: URL | None = None) -> None:
    """Run a client program, at `url` if given; the password is in no argument, which others can read."""
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


def _engine(url: URL) -> Engine:
    """An engine without the settings of an archive: Airflow's database keeps its own."""
    return create_engine(url if url.get_backend_name() == "sqlite" else url.set(drivername="postgresql+psycopg"), poolclass=NullPool)


def _sqlite(file: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode={mode}", uri=True, timeout=BUSY_TIMEOUT_S)


def _line(error: Exception) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())
