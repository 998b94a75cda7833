"""Verify the archive, expire raw evidence, delete old files, and report storage sizes."""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from plumbline.archive import Archive, open_archive
from plumbline.archive.retention import DueEvidence, TableSize
from plumbline.archive.shelves import shelf
from plumbline.declarations import installation_paths, load_in_force
from plumbline.declarations.addresses import path_below
from plumbline.declarations.dag_ids import in_shared_airflow, is_our_dag
from plumbline.declarations.storage import SHELVES, ShelfKind, shelf_prefix
from plumbline.launch import stores
from plumbline.metrics.formatting import format_count
from plumbline.results import evidence_files
from plumbline.results.quarantine import QUARANTINE_FOLDER

_log = logging.getLogger(__name__)
_DAY = 86400.0
_BATCH = 50


class BrokenArchive(RuntimeError):
    """The archive is damaged; the message names the problems and the remedy."""


@dataclass(frozen=True)
class ExpiredFiles:
    """Deleted by one run: `files` of `attempts`, `bytes` in total, including those that an earlier run left."""

    attempts: int
    files: int
    bytes: int


def verify_archive(today: date) -> int:
    """Check the whole archive and the day's share of the raw evidence; the number of days until all evidence is checked.

    BrokenArchive after logging each problem.
    """
    days: int = math.ceil(load_in_force().upkeep.evidence.read_every / _DAY)
    with open_archive() as archive:
        problems = archive.verify(evidence=True, share=(today.toordinal() % days, days))
        elsewhere = archive.files_elsewhere()
    if elsewhere:
        _log.info("%s", elsewhere_line(elsewhere))
    for problem in problems:
        _log.error("%s", problem)
    if problems:
        summary = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more in the log" if len(problems) > 5 else "")
        raise BrokenArchive(
            f'{format_count(len(problems), "problem")}: {summary}. `plumbline archive verify` checks everything again; docs/operate.md, "Repair the archive"'
        )
    return days


def elsewhere_line(files: int) -> str:
    return f"{format_count(files, 'file')} of evidence elsewhere: outside PLUMBLINE_RESULTS_URL and upkeep.yaml's evidence.stores, not read"


def retention_rule() -> tuple[float, str] | None:
    """Seconds for which evidence is kept, and the rule's text; None if for ever."""
    keep = load_in_force().upkeep.evidence.keep
    return None if keep is None else (keep, f"evidence.keep: {keep / _DAY:g}d")


def expired_evidence(archive: Archive) -> DueEvidence | None:
    """The evidence that is due, and what stays and why; None if evidence is kept for ever."""
    declared = retention_rule()
    return None if declared is None else archive.aged_evidence(declared[0], installation_paths().results_url)


def expire_evidence(archive: Archive, tell: Callable[[str], None] = _log.info) -> ExpiredFiles:
    """Delete due evidence: recorded in the archive, then in the store, then deleted, then confirmed, so that the next run can continue.

    `tell` receives a line for each attempt. OSError if the store does not answer.
    """
    declared, home = retention_rule(), stores.home()
    if declared is not None:
        archive.expire_evidence(*declared, home.url)
    pending = archive.expired_evidence(home.url)
    for start in range(0, len(pending), _BATCH):
        batch = pending[start : start + _BATCH]
        for one, since, why in batch:
            folder = str(path_below(one.uri, home.url))
            evidence_files.record_expired(home, folder, one.files, since, why)
            for file in one.files:
                home.remove(f"{folder}/{file}")
            tell(f"{one.trial_id}#{one.attempt}: {len(one.files)} files, {one.bytes:,} B deleted ({why})")
        archive.evidence_removed([one for one, _, _ in batch])
    gone = [one for one, _, _ in pending]
    return ExpiredFiles(len(gone), sum(len(one.files) for one in gone), sum(one.bytes for one in gone))


@dataclass(frozen=True)
class DeletedFiles:
    """`removed`: files, folders or rows of the part; `bytes` of files."""

    part: str
    removed: int
    bytes: int = 0


def delete_old_data(archive: Archive, logs: Path, now: float | None = None) -> list[DeletedFiles]:
    """Delete data past its retention, part by part. `logs`: Airflow's folder of log files. `now`: seconds since the epoch.

    OSError if the store does not answer.
    """
    keep, now = load_in_force().upkeep.keep, time.time() if now is None else now
    parts: dict[str, tuple[float | None, Callable[[float], DeletedFiles]]] = {
        "logs": (keep.logs, lambda s: delete_old_logs(logs, now - s)),
        "data_docs": (keep.data_docs, lambda s: _old_folders(archive, "data_docs", now - s)),
        "reports": (keep.reports, lambda s: _old_folders(archive, "reports", now - s)),
        "quarantine": (keep.quarantine, lambda s: _quarantine(archive, s)),
        "snapshots": (keep.snapshots, lambda s: DeletedFiles("snapshots", archive.thin_snapshots(s))),
        "observations": (keep.observations, lambda s: DeletedFiles("observations", archive.forget_availability_checks(s))),
    }
    done = [tidied(seconds) for seconds, tidied in parts.values() if seconds is not None]
    for one in done:
        _log.info("%s: %d removed, %d B", one.part, one.removed, one.bytes)
    return done


def delete_old_logs(folder: Path, before: float) -> DeletedFiles:
    """As `delete_old_files`; in an Airflow that others use too, of our own DAGs alone."""
    if not in_shared_airflow():
        return delete_old_files(folder, before)
    ours = [each for each in folder.glob("dag_id=*") if is_our_dag(each.name.removeprefix("dag_id="))]
    done = [delete_old_files(each, before) for each in ours]
    return DeletedFiles("logs", sum(one.removed for one in done), sum(one.bytes for one in done))


def delete_old_files(folder: Path, before: float) -> DeletedFiles:
    """Delete files below a folder that were last written before a time (seconds since the epoch), and folders that are empty then."""
    removed, size, emptied = 0, 0, set[Path]()
    for file, stat in _files(folder):
        if stat.st_mtime < before:
            file.unlink(missing_ok=True)
            removed, size = removed + 1, size + stat.st_size
            emptied.add(file.parent)
    for path in emptied:
        # Not a DAG's own folder: a task may be creating its run's folder there.
        while path != folder and not path.name.startswith("dag_id=") and _remove_if_empty(path):
            path = path.parent
    return DeletedFiles("logs", removed, size)


def folder_bytes(folder: Path) -> tuple[int, int]:
    """Files below a folder, and their bytes; links are not followed."""
    sizes = [stat.st_size for _, stat in _files(folder)]
    return len(sizes), sum(sizes)


def _old_folders(archive: Archive, kind: ShelfKind, before: float) -> DeletedFiles:
    """Delete the folders of campaigns in which nothing was written since a time; the newest one stays, whatever its age."""
    done = shelf(kind, lambda: nullcontext(archive)).delete_older(before)
    return DeletedFiles(kind, done.names, done.bytes)


def _quarantine(archive: Archive, keep_s: float) -> DeletedFiles:
    home, below = stores.home(), f"{stores.home().url}/{QUARANTINE_FOLDER}"
    gone = archive.forget_quarantined(keep_s, below, f"keep.quarantine: {keep_s / _DAY:g}d")
    for uri in gone:
        path = str(path_below(uri, home.url))
        home.remove(path)
        home.remove(f"{path}.reason.json")
    return DeletedFiles("quarantine", len(gone))


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path, _, names in os.walk(folder):
        for file in (Path(path) / name for name in names):
            with suppress(FileNotFoundError):  # deleted since
                yield file, file.lstat()


def _remove_if_empty(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


FOR_EVER = "for ever"


@dataclass(frozen=True)
class StoragePart:
    """`bytes`: None if the database does not report them; `keep`: how long the part is kept, as text."""

    part: str
    where: str
    files: int
    bytes: int | None
    keep: str


@dataclass(frozen=True)
class StorageSizes:
    parts: tuple[StoragePart, ...]
    tables: tuple[TableSize, ...]


def storage_sizes(archive: Archive) -> StorageSizes:
    """DeclarationError if upkeep.yaml cannot be read; OSError if the store does not answer."""
    upkeep, here = load_in_force().upkeep, installation_paths()
    keep = upkeep.keep
    tables = tuple(archive.table_sizes())
    known = [table.bytes for table in tables if table.bytes is not None]
    address = archive.engine.url.render_as_string(hide_password=True)
    parts = [
        StoragePart(
            "tables", address, len(tables), sum(known) if known else None, f"{FOR_EVER}; repeated snapshots {_words(keep.snapshots)}"
        )
    ]
    parts += _store(_words(upkeep.evidence.keep), _words(keep.quarantine))
    folders = (
        ("logs", here.airflow_home / "logs", _words(keep.logs)),
        ("cache", here.cache, "safe to delete"),
        ("work", here.work, "while a trial runs"),
    )
    kept = {"reports": _words(keep.reports), "data_docs": _words(keep.data_docs)}
    parts += [StoragePart(kind, *shelf(kind, lambda: nullcontext(archive)).size(), kept.get(kind, FOR_EVER)) for kind in SHELVES]
    parts += [StoragePart(name, str(folder), *folder_bytes(folder), retention) for name, folder, retention in folders]
    return StorageSizes(tuple(parts), tables)


def _store(evidence: str, quarantine: str) -> list[StoragePart]:
    home = stores.home()
    files, size = Counter[str](), Counter[str]()
    shelves = tuple(f"{shelf_prefix(kind)}/" for kind in SHELVES)
    for path, length in home.objects():
        if path.startswith(shelves):
            continue
        part = "quarantine" if path.startswith(f"{QUARANTINE_FOLDER}/") else "evidence" if "/evidence/" in path else "store"
        files[part] += 1
        size[part] += length
    retention = {"store": FOR_EVER, "evidence": evidence, "quarantine": quarantine}
    return [StoragePart(name, home.url, files[name], size[name], retention[name]) for name in retention]


def _words(keep_s: float | None) -> str:
    return FOR_EVER if keep_s is None else f"{keep_s / _DAY:g}d"
