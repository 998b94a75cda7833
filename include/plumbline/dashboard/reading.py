"""The archive, opened so that a page cannot change it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from sqlalchemy import event, make_url

from plumbline.archive import Archive
from plumbline.archive.engine import make_engine
from plumbline.archive.migrate import check_revision, revision_of
from plumbline.dashboard.access import ArchiveWithoutMoney


class NoArchive(LookupError):
    """There is no archive yet: nothing was ever recorded. Looking must not create one."""


class Reader:
    """Hands out a read-only archive. Keeps its connections, and opens anew when the file was replaced."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._open: tuple[int, Archive] | None = None

    def archive(self, money: bool = True) -> Archive:
        """The archive, without prices for those who may not see `money`; NoArchive if its file is not there. The database itself refuses every write through it.

        SchemaMismatch while it has another schema than this version: a page waits for a migration, it does not make one.
        """
        archive = self._current()
        revision = revision_of(archive.engine)
        if revision is not None:  # a database without one is no archive, which the first question says
            check_revision(revision)
        return archive if money else ArchiveWithoutMoney(archive.engine)

    def _current(self) -> Archive:
        identity = self._identity()
        with self._lock:
            if self._open is not None and self._open[0] == identity:
                return self._open[1]
            if self._open is not None:
                self._open[1].close()
            self._open = (identity, Archive(_read_only(self.url)))
            return self._open[1]

    def _identity(self) -> int:
        parsed = make_url(self.url)
        if parsed.get_backend_name() != "sqlite":
            return 0
        try:
            return Path(str(parsed.database)).stat().st_ino
        except FileNotFoundError:
            raise NoArchive(f"{parsed.database} is not there yet") from None


def _read_only(url: str) -> Any:
    engine = make_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "checkout", _query_only)
        return engine
    return engine.execution_options(postgresql_readonly=True)


def _query_only(connection: Any, _record: Any, _proxy: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA query_only=ON")
    cursor.close()
