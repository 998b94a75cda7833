"""Names for the Python backend's shared memory, so that what a killed server left behind can be told from what is in use."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import psutil

FOLDER = Path("/dev/shm")
_NAME = re.compile(r"^plumbline-(\d+)-(\d+)-(\d+)-")


def _namespace() -> int:
    """Inode of our process namespace: /dev/shm can be shared by containers whose process ids mean different processes."""
    return Path("/proc/self/ns/pid").stat().st_ino


def _started(pid: int) -> int | None:
    """When the process started, in hundredths of a second of wall time; None if there is none any more."""
    try:
        process = psutil.Process(pid)
        # One that was killed may wait long for its parent to take note, in a container for ever.
        return None if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time() * 100)
    except psutil.NoSuchProcess:
        return None


def prefix() -> str:
    """The prefix for a server that this process starts: process namespace, process, and the moment it started."""
    return f"plumbline-{_namespace()}-{os.getpid()}-{_started(os.getpid())}-"


def remove(prefix_: str) -> None:
    """Remove the segments of one ended server."""
    for segment in _segments():
        if segment.name.startswith(prefix_):
            with suppress(FileNotFoundError):
                segment.unlink()


def sweep() -> list[str]:
    """Remove segments whose harness has ended without removing them (it was killed); returns their names."""
    removed = []
    for segment in _segments():
        match = _NAME.match(segment.name)
        if match is None or int(match[1]) != _namespace() or _started(int(match[2])) == int(match[3]):
            continue
        with suppress(FileNotFoundError, PermissionError):
            segment.unlink()
            removed.append(segment.name)
    return removed


def _segments() -> list[Path]:
    return list(FOLDER.glob("plumbline-*")) if FOLDER.is_dir() else []
