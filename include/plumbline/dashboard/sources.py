"""The sources of pages: the archive (read only), the declarations, and a cache of computed answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from datetime import date
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Engine, event
from sqlalchemy.exc import SQLAlchemyError

from plumbline.archive import Archive, SchemaMismatch
from plumbline.archive.engine import check_url, make_engine
from plumbline.archive.migrate import check_revision, revision_of
from plumbline.dashboard.access import ArchiveWithoutCosts, without_costs
from plumbline.declarations import BrokenFiles, DeclarationError, Declarations, installation_paths, load_in_force
from plumbline.declarations.archive_address import WrongAddress
from plumbline.declarations.last_valid import digest_of, snapshot


class MissingArchive(LookupError):
    """There is no archive yet; reading must not create one."""


class ArchiveReader:
    """Hands out a read-only archive. Keeps its connections and reopens a replaced file."""

    def __init__(self, url: str | None = None) -> None:
        """`url`: the installation's if left out, read at the first question: it may be wrong, which a page says."""
        self._url = url
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
        return archive if money else ArchiveWithoutCosts(archive.engine)

    def all_simulated(self) -> bool:
        """Whether there are results and none of them was measured; False while the archive cannot be read."""
        try:
            return self.archive().simulated_only()
        except (MissingArchive, SchemaMismatch, SQLAlchemyError, WrongAddress):
            return False

    @property
    def url(self) -> str:
        """The archive's address; raises WrongAddress."""
        if self._url is None:
            self._url = installation_paths().archive_url
        return self._url

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
        parsed = check_url(self.url)
        if parsed.get_backend_name() != "sqlite":
            return 0
        try:
            return Path(str(parsed.database)).stat().st_ino
        except FileNotFoundError:
            raise MissingArchive(f"{parsed.database} does not exist yet") from None


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


class DeclarationsReader:
    """Hands out the declarations as they were at most `fresh_s` seconds ago; while a file of them is broken, the last valid ones, as Airflow works by
    them. DeclarationError if none were kept."""

    def __init__(self, fresh_s: float = 2.0) -> None:
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._checked_at = 0.0
        self._cached: tuple[str, Declarations] | None = None

    def now(self, money: bool = True) -> Declarations:
        """The present declarations, without prices for users who may not see `money`."""
        declarations = self._read()
        return declarations if money else without_costs(declarations)

    def broken(self) -> BrokenFiles | None:
        """Why the last valid declarations are shown; None while the present ones are, or none can be."""
        try:
            return self._read().broken
        except DeclarationError:
            return None

    def _read(self) -> Declarations:
        with self._lock:
            if self._cached is not None and time.monotonic() - self._checked_at < self._fresh_s:
                return self._cached[1]
            # By their bytes: a file of the same size and time may be another one.
            files = snapshot(installation_paths().config)
            known = "" if files is None else digest_of(files)
            if self._cached is None or self._cached[0] != known or not known:
                self._cached = None
                self._cached = (known, load_in_force())
            self._checked_at = time.monotonic()
            return self._cached[1]


T = TypeVar("T")
Basis = tuple[Engine, Declarations, date, tuple[int, int, int]]
"""The basis of an answer: an archive with its state, declarations, a day."""
CACHED_ANSWERS = 64
"""Each moved slider is one entry, and each filter of the heat map."""


class AnswerCache:
    """Answers by query. A new trial, an accepted price, a changed declaration or another day empties it."""

    def __init__(self, most: int = CACHED_ANSWERS) -> None:
        """`most`: so many answers are kept, the newest."""
        self._most = most
        self._lock = threading.Lock()
        self._basis: Basis | None = None
        self._answers: dict[Hashable, Any] = {}

    def get(self, archive: Archive, declared: Declarations, on: date, query: Hashable, make: Callable[[], T]) -> T:
        """The answer to `query`, from `make` if it is not cached."""
        basis = (archive.engine, declared, on, archive.as_of())
        with self._lock:
            if not self._rests_on(basis):
                self._basis, self._answers = basis, {}
            if query in self._answers:
                return cast(T, self._answers[query])
        answer = make()  # not under the lock: one long answer must not keep the others waiting
        with self._lock:
            if self._rests_on(basis):
                self._answers[query] = answer
                while len(self._answers) > self._most:
                    del self._answers[next(iter(self._answers))]
        return answer

    def get_if(self, wait: bool, archive: Archive, declared: Declarations, on: date, query: Hashable, make: Callable[[], T]) -> T | None:
        """The same; None for an answer that is not cached, unless the caller can `wait` for it."""
        if wait:
            return self.get(archive, declared, on, query, make)
        basis = (archive.engine, declared, on, archive.as_of())
        with self._lock:
            return cast("T | None", self._answers.get(query)) if self._rests_on(basis) else None

    def _rests_on(self, basis: Basis) -> bool:
        current = self._basis
        return current is not None and current[0] is basis[0] and current[1] is basis[1] and current[2:] == basis[2:]
