"""The last valid declarations of each folder, in a table of the archive: see `declarations.last_valid`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from plumbline.archive.archive import NoArchive, existing_engine, open_archive
from plumbline.archive.engine import reading, utc_now, writing
from plumbline.archive.migrate import SchemaMismatch
from plumbline.archive.schema import KeptDeclarations
from plumbline.declarations import installation_paths
from plumbline.declarations.last_valid import KeptCopy, NotKept

P = ParamSpec("P")
T = TypeVar("T")


def _said(method: Callable[Concatenate[_InArchive, P], T]) -> Callable[Concatenate[_InArchive, P], T]:
    """Whatever the database says is NotKept."""

    @wraps(method)
    def asked(self: _InArchive, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return method(self, *args, **named)
        except (SQLAlchemyError, SchemaMismatch, ValueError, OSError) as error:
            raise NotKept(f"{error}".partition("\n")[0]) from error

    return asked


class _InArchive:
    """`declarations.last_valid.KeptDeclarations` in the installation's archive. Reading creates none; keeping does."""

    @_said
    def newest(self, folder: str) -> KeptCopy | None:
        try:
            engine = existing_engine(installation_paths().archive_url)
        except NoArchive:
            return None
        try:
            with reading(engine) as session:
                row = _row(session, folder)
                return None if row is None else KeptCopy(row.sha256, row.packed, row.broken_since)
        finally:
            engine.dispose()

    @_said
    def keep(self, folder: str, copy: KeptCopy) -> None:
        with open_archive() as archive, writing(archive.engine) as session:
            row, now = _row(session, folder), utc_now()
            if row is None:
                session.add(KeptDeclarations(folder=folder, sha256=copy.sha256, packed=copy.packed, kept_at=now, broken_since=None))
                return
            if row.sha256 != copy.sha256:
                row.sha256, row.packed, row.kept_at = copy.sha256, copy.packed, now
            row.broken_since = None

    @_said
    def note_broken(self, folder: str) -> datetime:
        with open_archive(create=False) as archive, writing(archive.engine) as session:
            row, now = _row(session, folder), utc_now()
            if row is None:
                return now
            if row.broken_since is None:
                row.broken_since = now
            return row.broken_since


def _row(session: Session, folder: str) -> KeptDeclarations | None:
    return session.scalars(select(KeptDeclarations).where(KeptDeclarations.folder == folder)).first()


KEPT = _InArchive()
