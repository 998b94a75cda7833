"""What each table of the archive takes on disk."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import inspect, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

_SQLITE = text("SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name GROUP BY m.tbl_name")
_POSTGRESQL = text("""
    SELECT relname, pg_total_relation_size(oid) FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
""")


@dataclass(frozen=True)
class TableSize:
    """A table's rows, and bytes with its indexes; None where SQLite was built without dbstat."""

    table: str
    rows: int
    bytes: int | None


def table_sizes(session: Session) -> list[TableSize]:
    """Every table, the largest first."""
    names = inspect(session.connection()).get_table_names()
    rows = {name: int(session.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one()) for name in names}
    try:
        query = _SQLITE if session.get_bind().dialect.name == "sqlite" else _POSTGRESQL
        sizes = {str(name): int(size) for name, size in session.execute(query)}
    except OperationalError:
        sizes = {}
    found = [TableSize(name, count, sizes.get(name)) for name, count in rows.items()]
    return sorted(found, key=lambda one: (-(one.bytes or 0), -one.rows, one.table))
