"""Rows of the last valid declarations, one a folder; `declarations_keeper` opens the archive for them.

Statements of the table, not of its class: each parse of a DAG file asks, and a mapped class would import all of Airflow's models first.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.orm import Session

from plumbline.archive.schema import KeptDeclarations
from plumbline.declarations import installation_paths
from plumbline.declarations.last_valid import KeptCopy

_TABLE: Any = KeptDeclarations.__table__


def kept_copy(session: Session, folder: str) -> KeptCopy | None:
    """The copy of a folder; None without one."""
    row = _row(session, folder)
    return None if row is None else KeptCopy(row.sha256, row.packed, row.broken_since)


def keep_copy(session: Session, now: datetime, folder: str, copy: KeptCopy) -> None:
    """Replace the folder's copy, which is then not broken; the same bytes keep their time."""
    new = {"sha256": copy.sha256, "packed": copy.packed, "kept_at": now, "broken_since": None}
    if (row := _row(session, folder)) is None:
        session.execute(insert(_TABLE).values(folder=folder, **new))
    else:
        _change(session, folder, new if row.sha256 != copy.sha256 else {"broken_since": None})


def note_broken(session: Session, now: datetime, folder: str) -> datetime:
    """Since when a folder with a copy is broken: now, if it was not noted."""
    if (row := _row(session, folder)) is None:
        return now
    since: datetime = row.broken_since or now
    _change(session, folder, {"broken_since": since})
    return since


def declarations_kept_at(session: Session) -> datetime | None:
    """Since when the declarations in force are as they are; None if none were kept."""
    row = _row(session, str(installation_paths().config))
    return None if row is None else row.kept_at


def _row(session: Session, folder: str) -> Row[Any] | None:
    return session.execute(select(_TABLE).where(_TABLE.c.folder == folder)).first()


def _change(session: Session, folder: str, values: dict[str, Any]) -> None:
    session.execute(update(_TABLE).where(_TABLE.c.folder == folder).values(values))
