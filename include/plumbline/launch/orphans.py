"""Launches whose launcher was killed: known by their pidfiles, verified, ended, and their scratch space removed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from plumbline.launch import tree

GRACE_S = 5.0


@dataclass(frozen=True)
class Running:
    """A pidfile's content: who runs what. A pid alone proves nothing, so each comes with the start of its process."""

    trial_id: str
    token: str
    launcher: int
    launcher_start: str
    keeper: int
    keeper_start: str
    folders: tuple[str, ...]


@contextmanager
def recorded(pidfile: Path, running: Running) -> Iterator[None]:
    """Keep the pidfile while the trial runs. Written whole or not at all."""
    draft = pidfile.with_suffix(".pid.part")
    draft.write_text(json.dumps(asdict(running), indent=1), encoding="utf-8")
    draft.replace(pidfile)
    try:
        yield
    finally:
        pidfile.unlink(missing_ok=True)


def sweep(work: Path) -> list[int]:
    """End what launchers that are gone left running, remove their scratch folders, and return the pids that were ended.

    A trial whose launcher still lives is left alone. No process is signalled unless it carries the launch's own token or is the very
    process (pid and start) that the pidfile names.
    """
    ended: set[int] = set()
    for pidfile in sorted(work.glob("*.pid")) if work.is_dir() else ():
        running = _read(pidfile)
        if running is None or tree.is_alive(running.launcher, running.launcher_start):
            continue
        ended |= tree.end(running.token, running.keeper, running.keeper_start, GRACE_S)
        for folder in running.folders:
            shutil.rmtree(folder, ignore_errors=True)
        pidfile.unlink(missing_ok=True)
    return sorted(ended)


def _read(pidfile: Path) -> Running | None:
    """The pidfile's content; None for one that a launcher just removed or that another user wrote: it names folders to delete."""
    try:
        if pidfile.lstat().st_uid != os.getuid():
            return None
        data = json.loads(pidfile.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or set(data) != {field.name for field in fields(Running)}:
        return None
    return Running(**{**data, "folders": tuple(data["folders"])})


def me() -> tuple[int, str]:
    """This process, as a pidfile names it."""
    pid = os.getpid()
    start = tree.start_of(pid)
    assert start is not None
    return pid, start
