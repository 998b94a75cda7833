"""The archive's database goes away, or has no room left, at any point of a write; the same process then goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError, OperationalError
from tests.data.result_documents import document, trial
from tests.fakes.archive_writer import URI
from tests.fakes.postgres_server import PostgresServer

from plumbline.archive import Archive, open_archive


def record(archive: Archive, repeat: int) -> object:
    return archive.record(document(trial(repeat=repeat)), uri=URI)


def correct(archive: Archive, repeat: int) -> object:
    return archive.correct(document(trial(repeat=repeat, attempt=2)), 1, by="ada", why="a test", uri=URI)


@contextmanager
def cut_before(archive: Archive, statement: int) -> Iterator[list[int]]:
    """End the connection's server process before the n-th statement of the archive (`commit` counts as one), as a restart of PostgreSQL
    does. Yields the process ids that were ended: none if there were fewer statements."""
    left, ended = statement, list[int]()

    def step(connection: Connection, *_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            backend = connection.connection.dbapi_connection.info.backend_pid  # type: ignore[union-attr]
            ended.append(backend)
            with archive.engine.connect() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": backend})

    event.listen(archive.engine, "before_cursor_execute", step)
    event.listen(archive.engine, "commit", step)
    try:
        yield ended
    finally:
        event.remove(archive.engine, "before_cursor_execute", step)
        event.remove(archive.engine, "commit", step)


@pytest.mark.fault(
    "PostgreSQL restarts before any statement of a write", ends="an error; a rerun completes it", keeps="whole trials or none"
)
@pytest.mark.parametrize("write", [record, pytest.param(correct, marks=pytest.mark.full)])
def test_a_connection_cut_before_any_statement_costs_the_write_alone(
    postgres_server: PostgresServer,
    write: Callable[[Archive, int], object],
) -> None:
    with open_archive(postgres_server.new_database()) as archive:
        for statement in range(1, 100):
            if write is correct:
                record(archive, statement)
            before = len(archive.trials())
            with cut_before(archive, statement) as ended:
                try:
                    write(archive, statement)
                except DBAPIError as error:
                    assert error.connection_invalidated
                else:
                    assert not ended, "a write whose connection was cut must not report that it is done"
                    break
            assert len(archive.trials()) == before
            assert write(archive, statement) == "inserted", "the same process goes on with a new connection"
        assert statement > 12, "the connection was to be cut before each statement"
        assert archive.verify() == []


@pytest.mark.fault("the disk of the SQLite archive is full", ends="an error; a rerun completes it", keeps="whole trials or none")
def test_a_full_disk_at_any_page_costs_the_write_alone(tmp_path: Path) -> None:
    with open_archive(f"sqlite:///{tmp_path / 'archive.db'}") as archive:
        recorded, full = 0, 0
        while full < 10:
            _room(archive, 0)
            try:
                record(archive, recorded + 1)  # until the pages that are there have no room for another
            except OperationalError as error:
                assert "full" in str(error.orig)
                full += 1
                assert len(archive.trials()) == recorded
                _room(archive, 100)
                assert record(archive, recorded + 1) == "inserted"
            recorded += 1
        assert [t.repeat for t in archive.trials()] == list(range(1, recorded + 1))
        assert archive.verify() == []


def _room(archive: Archive, pages: int) -> None:
    """Let the archive's file grow by so many pages and no further."""
    with archive.engine.connect() as connection:
        there = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={there + pages}")
