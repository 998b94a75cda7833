"""What the daily upkeep asks of the archive: each method is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Engine

from plumbline.archive import moved, retention, thinning
from plumbline.archive.engine import reading, writing
from plumbline.archive.moved import Moved
from plumbline.archive.record import utc_now
from plumbline.archive.retention import Aged, OldEvidence
from plumbline.archive.sizes import TableSize, table_sizes


class Keeping:
    """Retention of raw evidence, whose files the caller deletes: first expire, then delete, then say so; and which campaigns changed."""

    engine: Engine

    def aged_evidence(self, keep_s: float, store_url: str) -> Aged:
        """What of the store at `store_url` was measured more than `keep_s` seconds ago: what is due, what stays and why."""
        with reading(self.engine) as session:
            return retention.aged(session, keep_s, store_url, utc_now())

    def expire_evidence(self, keep_s: float, rule: str, store_url: str) -> Aged:
        """Say of what is due that it is kept no longer, by `rule` in words; from then on `verify` does not miss it. Goes to the audit log."""
        with writing(self.engine) as session:
            return retention.expire(session, keep_s, rule, store_url, utc_now())

    def expired_evidence(self, store_url: str) -> list[tuple[OldEvidence, datetime, str]]:
        """What expired and is not deleted yet, of the store at `store_url`: since when, and by which rule."""
        with reading(self.engine) as session:
            return retention.to_remove(session, store_url)

    def expired_files(self, trial_id: str, attempt: int) -> dict[str, tuple[datetime, str]]:
        """What of one attempt's evidence is kept no longer: file → since when, and by which rule."""
        with reading(self.engine) as session:
            return retention.of_attempt(session, trial_id, attempt)

    def evidence_removed(self, attempts: Sequence[OldEvidence]) -> None:
        """Say that the files of these attempts are deleted."""
        with writing(self.engine) as session:
            retention.removed(session, attempts, utc_now())

    def thin_snapshots(self, keep_s: float) -> int:
        """Delete snapshots older than `keep_s` seconds that say what their neighbours say; how many."""
        with writing(self.engine) as session:
            return thinning.thin_snapshots(session, utc_now() - timedelta(seconds=keep_s))

    def forget_quarantined(self, keep_s: float, below: str, rule: str) -> list[str]:
        """Forget documents quarantined more than `keep_s` seconds ago whose copy lies below a URL; the URLs, whose objects the caller deletes."""
        with writing(self.engine) as session:
            now = utc_now()
            return thinning.forget_quarantined(session, now - timedelta(seconds=keep_s), below, rule, now)

    def table_sizes(self) -> list[TableSize]:
        """Rows and bytes of every table, the largest first."""
        with reading(self.engine) as session:
            return table_sizes(session)

    def moved(self) -> list[Moved]:
        """Every campaign that has a trial: when it was last recorded into, and when anything that a bundle of it says last changed."""
        with reading(self.engine) as session:
            return moved.moved(session)
