"""Connections, transactions and locks of the archive, on SQLite (WAL mode) and PostgreSQL."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.orm import Session

from plumbline.patience import patience_s

_ROOM = 2**20
_MIGRATING = "plumbline_migrating"
_WRITING = "plumbline_writing"


def make_engine(url: str) -> Engine:
    """An engine for `sqlite:///FILE` (its folder is created) or `postgresql://…`; ValueError for anything else."""
    parsed = check_url(url)
    if parsed.get_backend_name() == "sqlite":
        Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed, connect_args={"timeout": patience_s(), "check_same_thread": False})
        event.listen(engine, "do_connect", lambda *_: create_private(Path(str(parsed.database))))
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        _use_wal(engine)
        return engine
    try:
        return create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise ValueError(f"an archive on PostgreSQL needs its driver ({error}); install psycopg[binary]") from error


def create_private(file: Path) -> None:
    """Create a SQLite file that is missing, mode 0600 from the first moment, as its -wal and -shm then are. SQLite itself says what prevents it."""
    with suppress(OSError):
        os.close(os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def check_url(url: str) -> URL:
    """The parsed address of an archive; ValueError for an address that no archive can have."""
    expected = "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ValueError(f'the archive\'s address "{url}" is not an URL; {expected}') from error
    if url.startswith("sqlite:///") and not parsed.query:
        parsed = parsed.set(database=unquote(url.removeprefix("sqlite:///")))  # SQLAlchemy 2.0 (Python 3.10) decodes nothing
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise ValueError(f'the archive\'s address names "{backend}"; {expected}')
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise ValueError(f"an archive in memory would be lost with the process; {expected}")
    return parsed


def _configure_sqlite(connection: Any, _record: Any) -> None:
    # SQLAlchemy's "begin" event starts transactions: the driver's own implicit ones begin too late to be race-safe.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={int(patience_s() * 1000)}")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA synchronous=FULL")  # a recorded trial survives a power cut
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the write lock at once: one that began as a reader cannot be upgraded while another writes, and would fail.
    options = connection.get_execution_options()
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_WRITING) or options.get(_MIGRATING) else "BEGIN")


def _use_wal(engine: Engine) -> None:
    deadline = time.monotonic() + patience_s()
    while True:
        try:
            raw = engine.raw_connection()
            try:
                cursor = raw.cursor()
                if str(cursor.execute("PRAGMA journal_mode").fetchone()[0]).lower() == "wal":
                    return
                cursor.execute("PRAGMA journal_mode=WAL")
            finally:
                raw.close()
        except engine.dialect.loaded_dbapi.DatabaseError as error:
            # SQLite does not wait by its busy timeout when two processes switch a new file to WAL at once.
            database = str(engine.url.database)
            if "disk I/O error" in str(error) and shutil.disk_usage(Path(database).parent).free < _ROOM:
                # What SQLite says where it cannot make the small files of WAL mode beside the archive.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), database) from error
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise ValueError(f"the archive {engine.url} cannot be opened: {error}") from error
            time.sleep(0.05)


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """A session that sees one consistent state of the archive, whatever is written meanwhile."""
    options = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
    with Session(engine.execution_options(**options)) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """A session whose changes are committed together at the end, or not at all."""
    with Session(engine.execution_options(**{_WRITING: True})) as session, session.begin():
        yield session


P = ParamSpec("P")
T = TypeVar("T")


class HasEngine(Protocol):
    """The class whose methods `reads` and `writes` make."""

    engine: Engine


def reads(question: Callable[Concatenate[Session, P], T]) -> Callable[Concatenate[HasEngine, P], T]:
    """A method that answers within one `reading` session."""

    @wraps(question)
    def method(archive: HasEngine, /, *args: P.args, **named: P.kwargs) -> T:
        with reading(archive.engine) as session:
            return question(session, *args, **named)

    return method


def writes(change: Callable[Concatenate[Session, datetime, P], T]) -> Callable[Concatenate[HasEngine, P], T]:
    """A method that makes a change at the present time within one `writing` session."""

    @wraps(change)
    def method(archive: HasEngine, /, *args: P.args, **named: P.kwargs) -> T:
        with writing(archive.engine) as session:
            return change(session, utc_now(), *args, **named)

    return method


def one_line(error: Exception) -> str:
    """An error in one line; of a database's, without SQLAlchemy's words around it."""
    return " ".join(str(getattr(error, "orig", None) or error).split())


def utc_now() -> datetime:
    """The archive's clock."""
    return datetime.now(timezone.utc)


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """A transaction that no other migration overlaps: two processes that open a new archive at once migrate it once."""
    with engine.connect().execution_options(**{_MIGRATING: True}) as connection:
        if engine.dialect.name == "sqlite":
            # Rebuilding a table (SQLite cannot alter most things) must not trip the rows that point to it; it is checked before the commit.
            raw = connection.connection.cursor()
            raw.execute("PRAGMA foreign_keys=OFF")
            try:
                with connection.begin():
                    yield connection
                    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
                    if broken:
                        raise OperationalError("PRAGMA foreign_key_check", None, ValueError(f"{len(broken)} rows point to nothing"))
            finally:
                raw.execute("PRAGMA foreign_keys=ON")
            return
        with connection.begin():
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            yield connection


_LOCK = 0x706C756D62  # "plumb": any number will do as long as all versions use the same


_POLL_S = 0.1


@contextmanager
def advisory_lock(engine: Engine, what: str, patience_s: float) -> Iterator[bool]:
    """Hold the lock named `what` (letters and digits) among all processes that share the archive; yields whether it was acquired within `patience_s`
    seconds. It goes with its process, also when that is killed: a file's lock beside SQLite, an advisory lock of the session in PostgreSQL."""
    lock = _file_lock if engine.dialect.name == "sqlite" else _session_lock
    with lock(engine, what, time.monotonic() + patience_s) as had:
        yield had


@contextmanager
def _file_lock(engine: Engine, what: str, deadline: float) -> Iterator[bool]:
    path = Path(f"{engine.url.database}.{what}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield _acquire(take, deadline)
    finally:
        os.close(descriptor)  # the file stays: whoever removed it would let a second process lock another one of the same name


@contextmanager
def _session_lock(engine: Engine, what: str, deadline: float) -> Iterator[bool]:
    key = zlib.crc32(f"plumbline {what}".encode())
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:

        def take() -> bool:
            return bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar_one())

        had = _acquire(take, deadline)
        try:
            yield had
        finally:
            if had:  # the connection goes back to a pool and would keep the lock
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": key})


def _acquire(take: Callable[[], bool], deadline: float) -> bool:
    while not take():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
