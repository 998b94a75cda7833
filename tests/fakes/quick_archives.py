"""Archives open in a third of the time: tests open thousands. Processes that a test starts open theirs as usual.

SQLite does not wait for the disk, a new archive's schema is compiled to SQL once, and so is every statement.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, create_mock_engine

from plumbline.archive import archive, engine
from plumbline.archive.schema import Base

configure_sqlite, _make_engine, _create_all = engine._configure_sqlite, engine.make_engine, Base.metadata.create_all
_first: dict[str, Engine] = {}
_schema: dict[str, list[str]] = {}


def install() -> None:
    """For all archives that this process opens from now on."""
    engine._configure_sqlite = without_sync
    archive.make_engine = sharing_statements
    Base.metadata.create_all = create_tables  # type: ignore[method-assign]


def without_sync(connection: Any, record: Any) -> None:
    """A test's data need not survive a power cut."""
    configure_sqlite(connection, record)
    connection.execute("PRAGMA synchronous=OFF")


def sharing_statements(url: str) -> Engine:
    """An engine that finds the statements which SQLAlchemy compiled for other archives on the same kind of database."""
    made = _make_engine(url)
    first = _first.get(made.dialect.name)
    if first is None or "server_version_info" not in vars(first.dialect):  # none of them has been connected yet
        first = _first[made.dialect.name] = made
    made.dialect, made._compiled_cache = first.dialect, first._compiled_cache
    return made


def create_tables(connection: Connection, checkfirst: bool) -> None:
    """What `create_all` would execute."""
    dialect = connection.dialect
    if dialect.name not in _schema:
        made: list[str] = []
        recorder = create_mock_engine(f"{dialect.name}+{dialect.driver}://", lambda ddl, *_: made.append(str(ddl.compile(dialect=dialect))))
        _create_all(recorder, checkfirst=checkfirst)
        _schema[dialect.name] = made
    for statement in _schema[dialect.name]:
        connection.exec_driver_sql(statement)
