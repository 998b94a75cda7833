"""Inserts that tolerate an existing key, race-free on SQLite and PostgreSQL; filters, pages by key, and rows as plain data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import and_, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from plumbline.archive.schema import Base

Query = TypeVar("Query")
"""A `Select`."""
View = TypeVar("View")
Item = TypeVar("Item")
Row = TypeVar("Row")
Span = tuple[datetime | None, datetime | None]
"""Begin and end (exclusive); None: open."""


def batches(of: Iterable[Item], size: int = 500) -> Iterator[list[Item]]:
    """The items in lists of at most `size`: databases take some thousands of values in one statement."""
    rest = iter(of)
    while batch := list(islice(rest, size)):
        yield batch


def view_of(kind: type[View], row: Base) -> View:
    """A row as plain data: a dataclass whose fields are named like columns."""
    return kind(**{name: getattr(row, name) for name in kind.__dataclass_fields__})  # type: ignore[attr-defined]


def where_equal(query: Query, *pairs: tuple[Any, object]) -> Query:
    """The rows whose (column, value) are equal; a value of None is no condition, a collection one of several values."""
    narrowed: Any = query
    for column, value in pairs:
        if value is not None:
            several = isinstance(value, Collection) and not isinstance(value, str)
            narrowed = narrowed.where(column.in_(value) if several else column == value)
    return cast(Query, narrowed)


def where_within(query: Query, column: Any, between: Span) -> Query:
    """The rows whose time is in the span."""
    narrowed: Any = query
    begin, end = between
    narrowed = narrowed if begin is None else narrowed.where(column >= begin)
    return cast(Query, narrowed if end is None else narrowed.where(column < end))


@dataclass(frozen=True)
class Slice(Generic[Item]):
    """A page of rows; `after` selects the next page, None after the last one."""

    rows: tuple[Item, ...]
    after: str | None


def cut(rows: Sequence[Row], limit: int, key: Callable[[Row], object], view: Callable[[Row], Item]) -> Slice[Item]:
    """A page from rows read with `limit` + 1; `key`: the row's key, after which the next page begins."""
    return Slice(tuple(view(row) for row in rows[:limit]), str(key(rows[limit - 1])) if len(rows) > limit else None)


def page_after(
    session: Session, query: Query, order: Sequence[Any], after: Any, limit: int, view: Callable[[Any], Item], missing: str
) -> Slice[Item]:
    """A page of rows in an `order` of columns, some of them descending; the last one is what `after` names.

    `after`: the key of the previous page's last row, by which an index finds the next one; LookupError, which says what is `missing`, for an
    unknown one.
    """
    asked: Any = query
    columns = [getattr(column, "element", column) for column in order]
    key = columns[-1].key
    if after is not None:
        last = session.get(asked.column_descriptions[0]["entity"], after)
        if last is None:
            raise LookupError(missing)
        place = [(column, getattr(last, column.key), ordered is not column) for column, ordered in zip(columns, order, strict=True)]
        beyond = (column < value if down else column > value for column, value, down in place)
        same = [column == value for column, value, _ in place]
        asked = asked.where(or_(*(and_(*same[:depth], one) for depth, one in enumerate(beyond))))
    rows = session.scalars(asked.order_by(*order).limit(limit + 1)).all()
    return cut(rows, limit, lambda row: getattr(row, key), view)


def insert_new(session: Session, model: type[Base], values: dict[str, Any], key: Sequence[str]) -> bool:
    """Insert a row unless one with the same `key` columns exists; whether it was inserted.

    A concurrent writer of the same key is waited for: afterwards its row is visible.
    """
    statement = _insert_or_skip(session.get_bind().dialect.name, model, tuple(key))
    return session.execute(statement, values).first() is not None


def insert_missing(session: Session, model: type[Base], rows: Sequence[dict[str, Any]], key: Sequence[str]) -> None:
    """Insert those rows that are new, in one statement."""
    if rows:
        session.execute(_maker(session.get_bind().dialect.name)(model).on_conflict_do_nothing(index_elements=list(key)), list(rows))


@cache
def _insert_or_skip(dialect: str, model: type[Base], key: tuple[str, ...]) -> Any:
    """Made once and of the table, not of the class: to make and to expand it takes longer than to execute it."""
    table = model.__table__
    return _maker(dialect)(table).on_conflict_do_nothing(index_elements=list(key)).returning(*list(table.primary_key)[:1])


def _maker(dialect: str) -> Any:
    return postgresql.insert if dialect == "postgresql" else sqlite.insert
