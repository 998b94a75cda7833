"""Let go what `keep` in upkeep.yaml declares: log files, pages and reports that can be written again, and rows that say nothing new."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.declarations import load, places
from plumbline.launch import stores
from plumbline.results.quarantine import FOLDER

if TYPE_CHECKING:
    from plumbline.archive import Archive

_log = logging.getLogger(__name__)
_DAY = 86400.0


@dataclass(frozen=True)
class Tidied:
    """What went of one part: `removed` files, folders or rows; `bytes` of files."""

    part: str
    removed: int
    bytes: int = 0


def tidy(archive: Archive, logs: Path, now: float | None = None) -> list[Tidied]:
    """Delete what is kept no longer; what went, part by part. `logs`: Airflow's folder of log files. `now`: seconds since the epoch.

    A part that is kept for ever is not looked at. OSError if the store does not answer.
    """
    keep, now = load().upkeep.keep, time.time() if now is None else now
    parts: dict[str, tuple[float | None, Callable[[float], Tidied]]] = {
        "logs": (keep.logs, lambda s: old_files(logs, now - s)),
        "data_docs": (keep.data_docs, lambda s: _old_folders("data_docs", places().data_docs, now - s)),
        "reports": (keep.reports, lambda s: _old_folders("reports", places().reports, now - s)),
        "quarantine": (keep.quarantine, lambda s: _quarantine(archive, s)),
        "snapshots": (keep.snapshots, lambda s: Tidied("snapshots", archive.thin_snapshots(s))),
    }
    done = [tidied(seconds) for seconds, tidied in parts.values() if seconds is not None]
    for one in done:
        _log.info("%s: %d removed, %d B", one.part, one.removed, one.bytes)
    return done


def old_files(folder: Path, before: float) -> Tidied:
    """Delete files below a folder that were last written before a time (seconds since the epoch), and folders that are empty then."""
    removed, size, emptied = 0, 0, set[Path]()
    for file in _files(folder):
        stat = _stat(file)
        if stat is not None and stat.st_mtime < before:
            file.unlink(missing_ok=True)
            removed, size = removed + 1, size + stat.st_size
            emptied.add(file.parent)
    for path in emptied:
        # Not a DAG's own folder: a task may be about to make its run's folder there.
        while path != folder and not path.name.startswith("dag_id=") and _remove_if_empty(path):
            path = path.parent
    return Tidied("logs", removed, size)


def folder_bytes(folder: Path) -> tuple[int, int]:
    """Files below a folder, and their bytes; links are not followed."""
    sizes = [stat.st_size for file in _files(folder) if (stat := _stat(file)) is not None]
    return len(sizes), sum(sizes)


def _old_folders(part: str, folder: Path, before: float) -> Tidied:
    """Delete the folders of campaigns in which nothing was written since a time; the newest one stays, whatever its age."""
    removed = size = 0
    entries = [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()] if folder.is_dir() else []
    written = {entry: max([entry.stat().st_mtime, *(s.st_mtime for f in _files(entry) if (s := _stat(f)))]) for entry in entries}
    for entry in sorted(entries, key=lambda entry: written[entry])[:-1]:
        if written[entry] < before:
            size += folder_bytes(entry)[1]
            shutil.rmtree(entry, ignore_errors=True)
            removed += 1
    return Tidied(part, removed, size)


def _quarantine(archive: Archive, keep_s: float) -> Tidied:
    home, below = stores.home(), f"{stores.home().url}/{FOLDER}"
    gone = archive.forget_quarantined(keep_s, below, f"keep.quarantine: {keep_s / _DAY:g}d")
    for uri in gone:
        path = uri.removeprefix(f"{home.url}/")
        home.remove(path)
        home.remove(f"{path}.reason.json")
    return Tidied("quarantine", len(gone))


def _files(folder: Path) -> Iterator[Path]:
    for path, _, names in os.walk(folder):
        yield from (Path(path) / name for name in names)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:  # whoever wrote it has deleted it since
        return None


def _remove_if_empty(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
