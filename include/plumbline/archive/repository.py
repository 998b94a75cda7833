"""Inserts that tolerate an existing key, race-free on SQLite and PostgreSQL; filters, and rows as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from plumbline.archive.schema import Base

Query = TypeVar("Query")
"""A `Select` of anything."""
View = TypeVar("View")
Span = tuple[datetime | None, datetime | None]
"""From, and up to but not including; None: open."""


def view_of(kind: type[View], row: Base) -> View:
    """A row as plain data: a dataclass whose fields are named like columns."""
    return kind(**{name: getattr(row, name) for name in kind.__dataclass_fields__})  # type: ignore[attr-defined]


def where_equal(query: Query, *pairs: tuple[Any, object]) -> Query:
    """The rows whose (column, value) are equal; a value of None is no condition, a tuple one of several values."""
    narrowed: Any = query
    for column, value in pairs:
        if value is not None:
            narrowed = narrowed.where(column.in_(value) if isinstance(value, tuple) else column == value)
    return cast(Query, narrowed)


def where_within(query: Query, column: Any, between: Span) -> Query:
    """The rows whose time is in the span."""
    narrowed: Any = query
    begin, end = between
    narrowed = narrowed if begin is None else narrowed.where(column >= begin)
    return cast(Query, narrowed if end is None else narrowed.where(column < end))


def insert_new(session: Session, model: type[Base], values: dict[str, Any], key: Sequence[str]) -> bool:
    """Insert a row unless one with the same `key` columns exists; whether it was inserted.

    A concurrent writer of the same key is waited for: afterwards its row is visible.
    """
    statement = _insert_or_skip(session.get_bind().dialect.name, model, tuple(key))
    return session.execute(statement, values).first() is not None


def insert_missing(session: Session, model: type[Base], rows: Sequence[dict[str, Any]], key: Sequence[str]) -> None:
    """The same for many rows in one statement, for who need not know which of them were new."""
    if rows:
        session.execute(_maker(session.get_bind().dialect.name)(model).on_conflict_do_nothing(index_elements=list(key)), list(rows))


@cache
def _insert_or_skip(dialect: str, model: type[Base], key: tuple[str, ...]) -> Any:
    """Made once and of the table, not of the class: to make and to expand it takes longer than to execute it."""
    table = model.__table__
    return _maker(dialect)(table).on_conflict_do_nothing(index_elements=list(key)).returning(*list(table.primary_key)[:1])


def _maker(dialect: str) -> Any:
    return postgresql.insert if dialect == "postgresql" else sqlite.insert
