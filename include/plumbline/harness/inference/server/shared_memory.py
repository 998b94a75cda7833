"""Triton's shared memory: named by the process that started the server, and removed however that ends."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import psutil

SHARED_MEMORY_FOLDER = Path("/dev/shm")
_NAME = re.compile(r"^plumbline-(\d+)-(\d+)-(\d+)-")


def _namespace() -> int:
    """Inode of our process namespace: /dev/shm can be shared by containers whose process ids mean different processes."""
    return Path("/proc/self/ns/pid").stat().st_ino


def _process_start(pid: int) -> int | None:
    """When the process started, in hundredths of a second of wall time; None if there is none any more."""
    try:
        process = psutil.Process(pid)
        # One that was killed may wait long for its parent to take note, in a container for ever.
        return None if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time() * 100)
    except psutil.NoSuchProcess:
        return None


def shared_memory_prefix() -> str:
    """The prefix for a server that this process starts: process namespace, process, and the moment it started."""
    return f"plumbline-{_namespace()}-{os.getpid()}-{_process_start(os.getpid())}-"


def remove_shared_memory(prefix_: str) -> None:
    for segment in _segments():
        if segment.name.startswith(prefix_):
            with suppress(FileNotFoundError):
                segment.unlink()


def sweep_shared_memory() -> list[str]:
    """Remove segments whose harness has ended without removing them (it was killed), and end models that still use one; returns the
    segments' names.

    A model of Python ends itself when its server is gone, but not while it waits, with the interpreter's lock, for a lock in the segment
    that the server held when it was killed.
    """
    removed, owners = [], set()
    for segment in _segments():
        match = _NAME.match(segment.name)
        if match is None or int(match[1]) != _namespace() or _process_start(int(match[2])) == int(match[3]):
            continue
        owners.add(match[0])
        with suppress(FileNotFoundError, PermissionError):
            segment.unlink()
            removed.append(segment.name)
    for process in psutil.process_iter(["cmdline"]) if owners else ():
        if any(argument.startswith(tuple(owners)) for argument in process.info["cmdline"] or ()):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()
    return removed


def _segments() -> list[Path]:
    return list(SHARED_MEMORY_FOLDER.glob("plumbline-*")) if SHARED_MEMORY_FOLDER.is_dir() else []
