"""The archive: one object whose methods are each one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from sqlalchemy import Engine

from plumbline.archive import files, verify
from plumbline.archive.alone import alone
from plumbline.archive.bundle.export import export
from plumbline.archive.bundle.manifest import Exported, Imported
from plumbline.archive.bundle.take_in import Judge, take_in
from plumbline.archive.conclusions import Conclusions
from plumbline.archive.engine import make_engine, reading, writing
from plumbline.archive.glance import Glance
from plumbline.archive.keeping import Keeping
from plumbline.archive.measurements import Measurements
from plumbline.archive.migrate import prepare
from plumbline.archive.paging import Paging
from plumbline.archive.record import utc_now
from plumbline.archive.trends import Trends
from plumbline.archive.watched import Watched
from plumbline.declarations import places


def open_archive(url: str | None = None, *, migrate: bool | None = None) -> Archive:
    """The archive at `url` (default: the installation's), created if the database is empty.

    `migrate`: whether one of an older schema is migrated; if left out, only the installation's own file is, which no other program shares.
    ValueError for an address that cannot be an archive; OldSchema or UnknownSchema for one of another schema.
    """
    address = url or places().archive_url
    engine = make_engine(address)
    try:
        prepare(engine, places().own_archive_url == address if migrate is None else migrate)
    except BaseException:
        engine.dispose()
        raise
    return Archive(engine)


class Archive(Measurements, Conclusions, Watched, Paging, Glance, Trends, Keeping):
    """Everything that was ever measured and concluded. Safe to use from several processes at once; close it, or use `with`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def alone(self, what: str, patience_s: float) -> AbstractContextManager[bool]:
        """Hold a lock by name against every process that shares the archive; yields whether it was had in time. See `plumbline.archive.alone`."""
        return alone(self.engine, what, patience_s)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def export(self, folder: Path, campaigns: Sequence[str] | None = None) -> list[Exported]:
        """Write campaigns (all if None) as a bundle: see `plumbline.archive.bundle`. The folder must be new or empty.

        LookupError for an unknown campaign, BadBundle for a folder that is in use.
        """
        with reading(self.engine) as session:
            return export(session, folder, campaigns, utc_now())

    def import_(
        self, folder: Path, campaigns: Sequence[str] | None = None, *, by: str = "import", judge: Judge | None = None
    ) -> list[Imported]:
        """Take in a bundle's campaigns (all if None), each whole or not at all. What is there stays: again, nothing changes.

        Every row of a measurement is made from its document, never taken from the bundle; what `judge` rejects is rejected whatever the bundle
        says. The audit log names `by` whom, the folder and the manifest's SHA-256. A campaign that says something else than its documents, or
        than the archive, is refused with its reason. BadBundle if the bundle's files are not those of its manifest or exceed a bound, or if a
        newer version wrote it.
        """
        chosen = None if campaigns is None else list(campaigns)
        return take_in(lambda: writing(self.engine), folder, chosen, by=by, at=utc_now(), judge=judge, home=places().results_url)

    def verify(self, *, evidence: bool = False, share: tuple[int, int] = (0, 1)) -> list[str]:
        """What is broken in the archive, one sentence each; empty if it is sound. With `evidence`, raw files are read too: all of them,
        or those of a `share` (k, n) of the trials, such as (3, 30). Evidence that expired is not missed.
        """
        with reading(self.engine) as session:
            return [*verify.problems(session), *(files.damaged(session, share) if evidence else ())]
