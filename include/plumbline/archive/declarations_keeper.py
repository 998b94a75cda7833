"""Keeps the last valid declarations in the installation's archive: what `declarations.last_valid` names by KEPT_BY."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from plumbline.archive.archive import Archive, NoArchive, existing_engine, open_archive
from plumbline.archive.migrate import SchemaMismatch
from plumbline.declarations import installation_paths
from plumbline.declarations.last_valid import KeptCopy, NotKept


@contextmanager
def _opened(create: bool) -> Iterator[Archive]:
    """Whatever the database says is NotKept. Without `create` an archive of another schema is asked as it is."""
    try:
        with open_archive() if create else Archive(existing_engine(installation_paths().archive_url)) as archive:
            yield archive
    except (SQLAlchemyError, SchemaMismatch, ValueError, OSError) as error:
        raise NotKept(f"{error}".partition("\n")[0]) from error


class _InArchive:
    """`declarations.last_valid.KeptDeclarations`. Reading creates no archive; keeping does."""

    def newest(self, folder: str) -> KeptCopy | None:
        try:
            with _opened(create=False) as archive:
                return archive.kept_copy(folder)
        except NoArchive:
            return None

    def keep(self, folder: str, copy: KeptCopy) -> None:
        with _opened(create=True) as archive:
            archive.keep_copy(folder, copy)

    def note_broken(self, folder: str) -> datetime:
        with _opened(create=True) as archive:
            return archive.note_broken(folder)


KEPT = _InArchive()
