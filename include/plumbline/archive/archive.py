"""The archive: connects to SQLite or PostgreSQL and gives access to its repositories."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from plumbline.archive import verification
from plumbline.archive.advisory_lock import advisory_lock
from plumbline.archive.audit import AuditLog
from plumbline.archive.baselines import Baselines
from plumbline.archive.engine import check_url, make_engine, reading, reads, utc_now, writing
from plumbline.archive.findings import Findings
from plumbline.archive.identifiers import Identifiers
from plumbline.archive.migrate import prepare, revision_of
from plumbline.archive.pages import Overview, Paging
from plumbline.archive.prices import Prices
from plumbline.archive.published import PublishedResults
from plumbline.archive.quarantine import Quarantine
from plumbline.archive.recording import Recording
from plumbline.archive.retention import Retention
from plumbline.archive.samples import Samples
from plumbline.archive.trends import Trends
from plumbline.archive.trials import Trials
from plumbline.declarations import Provider, installation_paths
from plumbline.declarations.addresses import earlier_database, store_url

if TYPE_CHECKING:
    from plumbline.archive.bundle.importer import CheckQuality
    from plumbline.archive.bundle.manifest import ExportedCampaign, ImportedCampaign


class NoArchive(LookupError):
    """Nothing was ever recorded at the archive's address; nothing was created there."""


def open_archive(url: str | None = None, *, migrate: bool | None = None, create: bool = True) -> Archive:
    """The archive at `url` (default: the installation's), created if the database is empty and `create` is true.

    `migrate`: whether one of an older schema is migrated; if left out, only the installation's own file is, which no other program shares.
    ValueError for an address that cannot be an archive; OldSchema or UnknownSchema for one of another schema; NoArchive without `create`.
    """
    here = installation_paths()
    address = url or here.archive_url
    if own := check_url(address) == check_url(here.own_archive_url):
        _refuse_misplaced(here.home)
    engine = make_engine(address) if create else existing_engine(address)
    try:
        prepare(engine, own if migrate is None else migrate)
    except BaseException:
        engine.dispose()
        raise
    archive = Archive(engine)
    archive.declare_metrics()
    return archive


def _refuse_misplaced(home: Path) -> None:
    """ValueError if earlier versions put the archive of this home elsewhere, as its results' addresses show: a new one would begin without them."""
    file = home / "archive.db"
    if file.exists() or (earlier := earlier_database(file)) is None:
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{earlier.as_uri()}?mode=ro", uri=True)) as database:
        below = f"{store_url(home)}/"
        if database.execute("SELECT 1 FROM trials WHERE substr(uri, 1, ?) = ? LIMIT 1", (len(below), below)).fetchone():
            raise ValueError(f"earlier versions put this archive at {earlier}; expected it at {file}: stop what runs, then move it")


def existing_engine(url: str) -> Engine:
    """An engine for the archive at `url`, whatever its schema; NoArchive if there is none, and nothing is created."""
    require_file(url)  # before the engine, which creates the folder
    engine = make_engine(url)
    try:
        if revision_of(engine) is None:
            raise NoArchive(engine.url.render_as_string())
    except BaseException:
        engine.dispose()
        raise
    return engine


def require_file(url: str) -> None:
    """NoArchive if `url` is that of a SQLite file which is missing or empty; a server is not asked."""
    parsed = check_url(url)
    if parsed.get_backend_name() == "sqlite":
        file = Path(str(parsed.database))
        if not file.exists() or (file.is_file() and not file.stat().st_size):
            raise NoArchive(str(file))


class Archive(
    Recording,
    PublishedResults,
    Quarantine,
    Trials,
    Samples,
    Baselines,
    Findings,
    Prices,
    AuditLog,
    Paging,
    Overview,
    Trends,
    Retention,
    Identifiers,
):
    """All measurements and conclusions. Several processes may use it at once; close it, or use `with`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def alone(self, what: str, patience_s: float) -> AbstractContextManager[bool]:
        """Hold an advisory lock by name among all processes that share the archive; yields whether it was acquired in time."""
        return advisory_lock(self.engine, what, patience_s)

    def visible(self, provider: Provider) -> Provider:
        """The provider of a stored trial, whose own prices count where it is no longer declared, as far as this archive's reader may see it."""
        return provider

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    def export(self, folder: Path, campaigns: Sequence[str] | None = None) -> list[ExportedCampaign]:
        """Write campaigns (all if None) as a bundle: see `plumbline.archive.bundle`. The folder must be new or empty.

        LookupError for an unknown campaign, BadBundle for a folder that is in use.
        """
        from plumbline.archive.bundle.exporter import export_bundle  # pyarrow takes as long to import as a small command runs

        with reading(self.engine) as session:
            return export_bundle(session, folder, campaigns, utc_now())

    def import_(
        self, folder: Path, campaigns: Sequence[str] | None = None, *, by: str = "import", judge: CheckQuality | None = None
    ) -> list[ImportedCampaign]:
        """Take in a bundle's campaigns (all if None), each whole or not at all. Existing rows stay, so a repeat changes nothing.

        Every row of a measurement is made from its document, never taken from the bundle; what `judge` rejects is rejected whatever the bundle
        says. The audit log names `by` whom, the folder and the manifest's SHA-256. A campaign that says something else than its documents, or
        than the archive, is refused with its reason. BadBundle if the bundle's files are not those of its manifest or exceed a bound, or if a
        newer version wrote it.
        """
        from plumbline.archive.bundle.importer import import_bundle

        chosen = None if campaigns is None else list(campaigns)
        return import_bundle(
            lambda: writing(self.engine), folder, chosen, by=by, at=utc_now(), judge=judge, home=installation_paths().results_url
        )

    def verify(self, *, evidence: bool = False, share: tuple[int, int] = (0, 1)) -> list[str]:
        """Damage in the archive, one sentence each; empty if it is sound. With `evidence`, raw files are read too: all of them,
        or those of a `share` (k, n) of the trials, such as (3, 30). Evidence that expired is not missed; see also `files_elsewhere`.
        """
        with reading(self.engine) as session:
            return [*verification.row_problems(session), *(verification.file_problems(session, share) if evidence else ())]

    def check_writable(self) -> None:
        """SQLAlchemyError if nothing can be written here, such as into a file without permission."""
        with writing(self.engine) as session:
            session.connection()

    files_elsewhere = reads(verification.files_elsewhere)
