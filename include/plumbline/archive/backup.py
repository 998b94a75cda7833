"""A whole copy of a database while others write to it, and the way back: SQLite's own backup, or pg_dump and pg_restore.

Both directions are whole or not at all: a copy appears under its name once it is complete, and a restore is one transaction.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
import uuid
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Engine, inspect, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from plumbline.archive.engine import BUSY_TIMEOUT_S, make_engine

_MAGIC = {b"SQLite format 3\0": "sqlite", b"PGDMP": "postgresql"}
_PRIVATE = 0o600
_CLIENT = (
    "install PostgreSQL's client programs of the server's version or newer (Debian: apt-get install postgresql-client), or run this command "
    "in a container that has them"
)
# Everything in the schema that a newer or older version may have made; what an extension made stays.
_DROPS = text("""
    SELECT format('DROP %s IF EXISTS %s CASCADE;', kind, name) FROM (
        SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
               c.oid::regclass::text AS name, 'pg_class'::regclass AS class, c.oid
          FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
        UNION ALL
        SELECT 'FUNCTION', p.oid::regprocedure::text, 'pg_proc'::regclass, p.oid
          FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace AND p.prokind = 'f'
        UNION ALL
        SELECT 'TYPE', t.oid::regtype::text, 'pg_type'::regclass, t.oid
          FROM pg_type t WHERE t.typnamespace = current_schema()::regnamespace AND t.typtype = 'e'
    ) AS ours WHERE NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = ours.class AND d.objid = ours.oid AND d.deptype = 'e')
""")


class BackupError(RuntimeError):
    """A copy was not made, or not restored; the message says why and what to do. What was there before is as it was."""


@dataclass(frozen=True)
class Backup:
    """A copy: its file, size in bytes and SHA-256, and the schema (Alembic's revision) of the database; None if it has none."""

    file: Path
    bytes: int
    sha256: str
    schema: str | None


def backup(url: str, file: Path) -> Backup:
    """Copy the database at `url` into the new `file`, mode 0600. The copy is of one moment; writers go on meanwhile.

    BackupError if the file exists, the database is away, the disk is full, or pg_dump is missing or of an older version.
    """
    parsed = make_url(url)
    if file.exists():
        raise BackupError(f"{file} exists; expected the name of a new file: a backup never replaces another one")
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.part")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE))
        if parsed.get_backend_name() == "sqlite":
            _copy_sqlite(Path(str(parsed.database)), draft)
        else:
            _run_client("pg_dump", parsed, "--format=custom", "--no-password", "--file", str(draft))
        with draft.open("rb") as copy:
            digest = hashlib.sha256()
            while piece := copy.read(2**20):
                digest.update(piece)
            os.fsync(copy.fileno())
        schema = _schema(url)
        draft.replace(file)
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        raise BackupError(f"{file} was not written: {_line(error)}") from error
    finally:
        draft.unlink(missing_ok=True)
    return Backup(file, file.stat().st_size, digest.hexdigest(), schema)


def restore(url: str, file: Path, *, replace: bool = False) -> str | None:
    """Make the database at `url` what `file` holds; its schema afterwards.

    BackupError if the file is no backup of this kind of database or is damaged, or if the database holds rows and `replace` is not given.
    """
    parsed, kind = make_url(url), _kind(file)
    if kind != parsed.get_backend_name():
        raise BackupError(
            f"{file} is a backup of {kind} and the database is {parsed.get_backend_name()}; `plumbline archive export` and `import` move "
            "campaigns between them"
        )
    try:
        if kind == "sqlite":
            _restore_sqlite(Path(str(parsed.database)), file, replace)
        else:
            _restore_postgresql(parsed, file, replace)
        return _schema(url)
    except (OSError, sqlite3.Error, SQLAlchemyError) as error:
        raise BackupError(f"{file} was not restored: {_line(error)}") from error


def _kind(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            start = opened.read(16)
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {_line(error)}") from error
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return kind
    raise BackupError(f"{file} is not a backup; expected a file that `plumbline archive backup` wrote")


def _copy_sqlite(source: Path, target: Path) -> None:
    with closing(_sqlite(source, "rw")) as origin, closing(_sqlite(target, "rw")) as copy:
        origin.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file: a copy in WAL mode would have others beside it
        _check_sqlite(copy, source)


def _restore_sqlite(target: Path, file: Path, replace: bool) -> None:
    with closing(_sqlite(file, "ro&immutable=1")) as origin:
        _check_sqlite(origin, file)
        target.parent.mkdir(parents=True, exist_ok=True)
        with closing(_sqlite(target, "rwc")) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            _refuse_rows(tables, lambda table: database.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone(), replace, target)
            deadline = time.monotonic() + BUSY_TIMEOUT_S

            def impatient(*_: int) -> None:
                if time.monotonic() > deadline:
                    raise sqlite3.OperationalError(f"another process kept writing for {BUSY_TIMEOUT_S:g} s; stop it first")

            # Into the file that is there, as one transaction: who has it open sees the new content, and a crash leaves the old one.
            origin.backup(database, progress=impatient)


def _sqlite(file: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode={mode}", uri=True, timeout=BUSY_TIMEOUT_S)


def _check_sqlite(connection: sqlite3.Connection, file: Path) -> None:
    problems = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
    if problems != ["ok"]:
        raise BackupError(f"{file} is damaged: {problems[0]}")


def _restore_postgresql(url: URL, file: Path, replace: bool) -> None:
    engine = make_engine(url.render_as_string(hide_password=False))
    try:
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            _refuse_rows(tables, lambda table: connection.execute(text(f'SELECT 1 FROM "{table}" LIMIT 1')).first(), replace, url.database)
            drops = list(connection.execute(_DROPS).scalars())
    finally:
        engine.dispose()
    pg_restore, psql = _program("pg_restore"), _program("psql")
    arguments, environment = _connection(url)
    listing = [pg_restore, "--clean", "--if-exists", "--no-owner", "--no-privileges", "--file=-", str(file)]
    command = [psql, "--no-psqlrc", "--quiet", "--no-password", "--set=ON_ERROR_STOP=1", "--output=/dev/null", *arguments]
    with (
        tempfile.TemporaryFile() as words,
        subprocess.Popen(listing, stdout=subprocess.PIPE, stderr=words) as script,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=words, env=environment) as client,
    ):
        assert script.stdout is not None and client.stdin is not None
        with suppress(BrokenPipeError):  # psql ends at the first error, and says which
            # One transaction that is committed only once the whole dump was read: whatever ends before leaves what was there.
            begin = ["BEGIN;", "SET client_min_messages = warning;", f"SET lock_timeout = '{BUSY_TIMEOUT_S:g}s';", *drops, ""]
            client.stdin.write("\n".join(begin).encode())
            shutil.copyfileobj(script.stdout, client.stdin)
            if script.wait() == 0:
                client.stdin.write(b"COMMIT;\n")
        script.stdout.close()
        script.wait()
        with suppress(BrokenPipeError):
            client.stdin.close()
        client.wait()
        if client.returncode != 0 or script.returncode != 0:
            words.seek(0)
            raise BackupError(f"{file} was not restored, the database is as it was: {_first_error(words.read().decode(errors='replace'))}")


def _refuse_rows(tables: list[str], first_row: Any, replace: bool, target: object) -> None:
    filled = sorted(table for table in tables if table != "alembic_version" and first_row(table) is not None)
    if filled and not replace:
        raise BackupError(
            f"{target} is not empty ({', '.join(filled[:3])}{', …' if filled[3:] else ''}); give --replace to delete what it holds"
        )


def _first_error(words: str) -> str:
    lines = words.strip().splitlines()
    return next((line for line in lines if "error" in line.lower() or "fatal" in line.lower()), " ".join(lines[-1:]))


def _run_client(name: str, url: URL, *arguments: str) -> None:
    program = _program(name)
    target, environment = _connection(url)
    done = subprocess.run([program, *arguments, *target], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = " ".join(done.stderr.split())
        remedy = f"; {_CLIENT}" if "version mismatch" in words else ""
        raise BackupError(f"{name} ended with status {done.returncode}: {words}{remedy}")


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise BackupError(f"{name} is not on PATH; {_CLIENT}")
    return path


def _connection(url: URL) -> tuple[list[str], dict[str, str]]:
    """Arguments and environment by which libpq's programs reach the database; the password is in no argument, which others can read."""
    from psycopg.conninfo import make_conninfo

    query = {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}  # several hosts: a list
    words = {"host": url.host, "port": None if url.port is None else str(url.port), "user": url.username, "dbname": url.database, **query}
    environment = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    return ["--dbname", make_conninfo("", **{name: value for name, value in words.items() if value is not None})], environment


def _schema(url: str) -> str | None:
    """Alembic's revision, without changing a setting of the database as `make_engine` does for an archive."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        with closing(_sqlite(Path(str(parsed.database)), "rw")) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
                return None
            row = database.execute("SELECT version_num FROM alembic_version").fetchone()
            return None if row is None else str(row[0])
    engine: Engine = make_engine(url)
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table("alembic_version"):
                return None
            return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    finally:
        engine.dispose()


def _line(error: Exception) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())
