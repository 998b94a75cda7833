"""Let raw evidence go that was kept as long as declared and that nothing cites, and hold what is kept against its hashes. No Airflow in here."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from plumbline.declarations import load, places
from plumbline.launch import stores
from plumbline.results import expired

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.retention import Aged

_log = logging.getLogger(__name__)
_DAY = 86400.0
_BATCH = 50


class BrokenArchive(RuntimeError):
    """The archive does not hold; the message names what is broken and what to do."""


@dataclass(frozen=True)
class Removed:
    """What went by one run: `attempts` whose `files`, of `bytes` together, are deleted; also those that an earlier run had no time for."""

    attempts: int
    files: int
    bytes: int


def verify(today: date) -> int:
    """Check the whole archive, and of the raw evidence the share of this day; how many days a round over all of it takes.

    Raises BrokenArchive, after each problem went to the log.
    """
    from plumbline.archive import open_archive

    days: int = math.ceil(load().upkeep.evidence.read_every / _DAY)
    with open_archive() as archive:
        problems = archive.verify(evidence=True, share=(today.toordinal() % days, days))
    for problem in problems:
        _log.error("%s", problem)
    if problems:
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more in the log" if len(problems) > 5 else "")
        raise BrokenArchive(
            f"{len(problems)} broken: {shown}. `plumbline archive verify` checks everything again; docs/operate.md, "
            '"An archive that does not hold", says what to do'
        )
    return days


def rule() -> tuple[float, str] | None:
    """For how many seconds evidence is kept, and the same in words; None if for ever."""
    keep = load().upkeep.evidence.keep
    return None if keep is None else (keep, f"evidence.keep: {keep / _DAY:g}d")


def aged(archive: Archive) -> Aged | None:
    """What would go now, what stays and why; None if evidence is kept for ever. Changes nothing."""
    declared = rule()
    return None if declared is None else archive.aged_evidence(declared[0], places().results_url)


def expire(archive: Archive, tell: Callable[[str], None] = _log.info) -> Removed:
    """Let go what is due: said in the archive first, then in the store, then deleted, then said to be. Cut short, the next run goes on.

    `tell` hears of each attempt. OSError if the store does not answer.
    """
    declared, home = rule(), stores.home()
    if declared is not None:
        archive.expire_evidence(*declared, home.url)
    pending = archive.expired_evidence(home.url)
    for start in range(0, len(pending), _BATCH):
        batch = pending[start : start + _BATCH]
        for one, since, why in batch:
            folder = one.uri.removeprefix(f"{home.url}/")
            expired.put(home, folder, one.files, since, why)
            for file in one.files:
                home.remove(f"{folder}/{file}")
            tell(f"{one.trial_id}#{one.attempt}: {len(one.files)} files, {one.bytes:,} B gone ({why})")
        archive.evidence_removed([one for one, _, _ in batch])
    gone = [one for one, _, _ in pending]
    return Removed(len(gone), sum(len(one.files) for one in gone), sum(one.bytes for one in gone))
