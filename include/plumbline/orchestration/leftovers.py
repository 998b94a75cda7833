"""Find and end what an earlier Airflow of the same home left behind, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

MARK = "PLUMBLINE_SERVER"
"""Environment variable with the start's own id: every descendant inherits it, whatever session it moves to."""
_PATIENCE_S = 10.0
_CLOCK_SLACK_S = 1.0


@dataclass(frozen=True)
class Record:
    """Who was started: written before anything else can go wrong, so that the next start can find it."""

    supervisor: int
    created: float
    server_id: str

    def write(self, file: Path) -> None:
        """Store the record, atomically."""
        draft = file.with_suffix(".part")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(file)


def read_record(file: Path) -> Record | None:
    """The record of the last start; None if there is none or it was cut short."""
    try:
        return Record(**json.loads(file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def leftovers(record: Record) -> list[psutil.Process]:
    """Living processes of that start: its supervisor, its session, and whatever carries its mark."""
    leader_is_ours = _leader_is_ours(record)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            in_session = leader_is_ours and os.getsid(process.pid) == record.supervisor
            if in_session or process.environ().get(MARK) == record.server_id:
                found.append(process)
    return found


def end(record: Record) -> list[int]:
    """End that start's leftovers, politely first; returns their pids. RuntimeError if some cannot be ended."""
    seen: list[int] = []
    for action in (psutil.Process.terminate, psutil.Process.kill):
        found = leftovers(record)
        seen += [p.pid for p in found if p.pid not in seen]
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                action(process)
        deadline = time.monotonic() + _PATIENCE_S
        while leftovers(record) and time.monotonic() < deadline:
            time.sleep(0.1)
    left = leftovers(record)
    if left:
        raise RuntimeError(f"cannot end processes {[p.pid for p in left]} of an earlier Airflow; end them by hand and try again")
    return seen


def _leader_is_ours(record: Record) -> bool:
    """A session id stays reserved while a member lives, so a missing leader is safe; a leader of another age is someone else."""
    try:
        return abs(psutil.Process(record.supervisor).create_time() - record.created) < _CLOCK_SLACK_S
    except psutil.NoSuchProcess:
        return True
