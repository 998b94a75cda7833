"""Locks by name among all processes that share an archive.

The lock goes with its process, also when that is killed: a file's lock beside SQLite, an advisory lock of the session in PostgreSQL.
"""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

_POLL_S = 0.1


@contextmanager
def advisory_lock(engine: Engine, what: str, patience_s: float) -> Iterator[bool]:
    """Hold the lock named `what` (letters and digits); yields whether it was acquired within `patience_s` seconds."""
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
