"""Processes of this machine: identify one, find those that carry a mark, end them, describe an end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

KILL_S = 5.0
_POLL_S = 0.05


@dataclass(frozen=True)
class ProcessId:
    """`start` (boot and start tick) distinguishes a process from a later one with the same pid."""

    pid: int
    start: str

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """None if there is no such process, or only a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if stat[0] in "ZX" else cls(pid, f"{_boot_id()}/{stat[19]}")

    @property
    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self


@lru_cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def is_live(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def tagged_processes(variable: str, value: str) -> list[psutil.Process]:
    """Live processes whose environment holds the variable with this value, and everything below them; without this process."""
    parent_of: dict[psutil.Process, int] = {}
    pids: set[int] = set()
    for process in psutil.process_iter():
        # Another user's process cannot be ours, and one that ended meanwhile no longer matters.
        with suppress(psutil.Error, OSError):
            if is_live(process):
                parent_of[process] = process.ppid()
                if process.environ().get(variable) == value:
                    pids.add(process.pid)
    while more := {process.pid for process, parent in parent_of.items() if parent in pids} - pids:
        pids |= more
    return [process for process in parent_of if process.pid in pids - {os.getpid()}]


def end_processes(find: Callable[[], Iterable[psutil.Process]], grace_s: float, kill_s: float = KILL_S) -> set[int]:
    """End what `find` returns: one SIGTERM each, and after `grace_s` SIGKILL until nothing is left. With `grace_s` 0 SIGKILL at once.

    Returns the pids that were met. RuntimeError names processes that are left after `kill_s` of SIGKILL.
    """
    ended: set[int] = set()
    signalled: set[psutil.Process] = set()
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline:
        left = set(find())
        if not left:
            return ended
        for process in left - signalled:  # a second SIGTERM makes some programs give up their own cleaning up
            _send(process, signal.SIGTERM)
        signalled |= left
        ended |= {process.pid for process in left}
        time.sleep(_POLL_S)
    deadline = time.monotonic() + kill_s
    while left := set(find()):
        ended |= {process.pid for process in left}
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes {sorted(process.pid for process in left)} are left after SIGKILL; end them by hand")
        for process in left:
            _send(process, signal.SIGKILL)
        time.sleep(_POLL_S)
    return ended


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.send_signal(number)


def kill_tree(pid: int) -> None:
    """SIGKILL to a child process and its descendants; returns when the descendants are gone. The caller waits for the process."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        below = process.children(recursive=True)
        for each in [*below, process]:
            _send(each, signal.SIGKILL)
        deadline = time.monotonic() + KILL_S
        while any(map(is_live, below)) and time.monotonic() < deadline:
            time.sleep(0.01)


def peak_resident_bytes(pid: int) -> int | None:
    """The most memory that a process had resident; None if it has ended."""
    try:
        peak = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").partition("VmHWM:")[2]
    except OSError:
        return None
    return int(peak.split(maxsplit=1)[0]) * 1024 if peak else None


def describe_exit(code: int, output: str = "") -> str:
    """How a process ended, with the last line of its output: `was ended by signal 9: …`, `ended with exit code 1`."""
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    last = output.strip().splitlines()[-1:]
    return f"{how}: {last[0]}" if last else how
