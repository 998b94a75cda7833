"""Rows of files that lie in the result store as reports, Data Docs and acceptance sheets; `archive.shelves` writes and reads the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import groupby

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from plumbline.archive.repository import view_of
from plumbline.archive.schema import WrittenFile


@dataclass(frozen=True)
class WrittenFileView:
    """`name`: of the folder, such as a campaign; `file`: its path there; `path`: the object's path below the store."""

    kind: str
    name: str
    file: str
    path: str
    sha256: str
    bytes: int
    written_at: datetime


@dataclass(frozen=True)
class NewFile:
    """A file that was written to the store: as of WrittenFileView."""

    file: str
    path: str
    sha256: str
    bytes: int


def written_file(session: Session, kind: str, name: str, file: str) -> WrittenFileView | None:
    """One file; None if it was not written, or is kept no longer."""
    row = session.get(WrittenFile, (kind, name, file))
    return None if row is None else view_of(WrittenFileView, row)


def written_list(session: Session, kind: str, name: str | None = None, file: str | None = None) -> list[WrittenFileView]:
    """Files of one kind by name and path; of one folder with `name`, of one path in each with `file`."""
    query = select(WrittenFile).where(WrittenFile.kind == kind).order_by(WrittenFile.name, WrittenFile.file)
    if name is not None:
        query = query.where(WrittenFile.name == name)
    if file is not None:
        query = query.where(WrittenFile.file == file)
    return [view_of(WrittenFileView, row) for row in session.scalars(query)]


def record_written(session: Session, now: datetime, kind: str, name: str, files: Sequence[NewFile]) -> list[str]:
    """Put files in the place of the folder's earlier ones; the paths of the objects that are in force no longer.

    A subfolder, such as `tables`, of which nothing was written now, stays as it is.
    """
    parts = {_part(one.file) for one in files}
    before = session.scalars(select(WrittenFile).where(WrittenFile.kind == kind, WrittenFile.name == name)).all()
    replaced = [row for row in before if _part(row.file) in parts]
    gone = [row.path for row in replaced]
    for row in replaced:
        session.delete(row)
    session.flush()
    session.add_all(WrittenFile(kind=kind, name=name, written_at=now, **asdict(one)) for one in files)
    return gone


def forget_written(session: Session, now: datetime, kind: str, before: datetime) -> list[WrittenFileView]:
    """Remove the folders in which nothing was written since a time, but the newest one; their files, whose objects the caller deletes."""
    rows = written_list(session, kind)
    folders = {name: list(files) for name, files in groupby(rows, lambda row: row.name)}
    last = {name: max(row.written_at for row in files) for name, files in folders.items()}
    due = [name for name in sorted(last, key=lambda name: last[name])[:-1] if last[name] < before]
    for name in due:
        session.execute(delete(WrittenFile).where(WrittenFile.kind == kind, WrittenFile.name == name))
    return [row for name in due for row in folders[name]]


def _part(file: str) -> str:
    return file.rpartition("/")[0]
