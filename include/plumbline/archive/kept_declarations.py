"""Rows of the last valid declarations, one a folder; `declarations_keeper` opens the archive for them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive.schema import KeptDeclarations
from plumbline.declarations import installation_paths
from plumbline.declarations.last_valid import KeptCopy


def kept_copy(session: Session, folder: str) -> KeptCopy | None:
    """The copy of a folder; None without one."""
    row = _row(session, folder)
    return None if row is None else KeptCopy(row.sha256, row.packed, row.broken_since)


def keep_copy(session: Session, now: datetime, folder: str, copy: KeptCopy) -> None:
    """Replace the folder's copy, which is then not broken; the same bytes keep their time."""
    if (row := _row(session, folder)) is None:
        session.add(KeptDeclarations(folder=folder, sha256=copy.sha256, packed=copy.packed, kept_at=now, broken_since=None))
        return
    if row.sha256 != copy.sha256:
        row.sha256, row.packed, row.kept_at = copy.sha256, copy.packed, now
    row.broken_since = None


def note_broken(session: Session, now: datetime, folder: str) -> datetime:
    """Since when a folder with a copy is broken: now, if it was not noted."""
    if (row := _row(session, folder)) is None:
        return now
    row.broken_since = row.broken_since or now
    return row.broken_since


def declarations_kept_at(session: Session) -> datetime | None:
    """Since when the declarations in force are as they are; None if none were kept."""
    row = _row(session, str(installation_paths().config))
    return None if row is None else row.kept_at


def _row(session: Session, folder: str) -> KeptDeclarations | None:
    return session.scalars(select(KeptDeclarations).where(KeptDeclarations.folder == folder)).first()
