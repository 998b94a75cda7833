"""Which processes belong to a launch, and how all of them are ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from plumbline.launch.environment import TRIAL_TOKEN
from plumbline.launch.keeper import descendants, parents, send

_KILL_PATIENCE_S = 5.0


def start_of(pid: int) -> str | None:
    """What tells a process from a later one with the same pid: boot and start tick. None if there is no such process (or a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if stat[0] in "ZX" else f"{_boot_id()}/{stat[19]}"


@lru_cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def is_alive(pid: int, start: str) -> bool:
    """Whether this very process still runs."""
    return start_of(pid) == start


def members(token: str) -> set[int]:
    """Live processes that carry the launch's token in their environment, and everything below them."""
    wanted = f"{TRIAL_TOKEN}={token}".encode()
    parent_of = parents()
    carriers = set()
    for pid in parent_of:
        # Another user's process cannot be ours, and one that ended meanwhile no longer matters.
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                carriers.add(pid)
    return (carriers | descendants(carriers, parent_of)) - {os.getpid()}


def end(token: str, keeper: int, start: str, grace_s: float) -> set[int]:
    """End every process of a launch and return the ones that were met.

    The keeper is asked first (it gives the trial `grace_s` to clean up); what is then left, or what a dead keeper left, is killed.
    RuntimeError names processes that even SIGKILL did not end.
    """
    met = members(token)
    if is_alive(keeper, start):
        met.add(keeper)
        send({keeper}, signal.SIGTERM)
        _wait(lambda: is_alive(keeper, start), grace_s + _KILL_PATIENCE_S + 1.0)
    elif met:
        send(met, signal.SIGTERM)
        _wait(lambda: bool(members(token)), grace_s)
    deadline = time.monotonic() + _KILL_PATIENCE_S
    while left := members(token):
        met |= left
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes {sorted(left)} of a trial outlived SIGKILL; end them before the next trial is measured")
        send(left, signal.SIGKILL)
        time.sleep(0.05)
    return met


def _wait(busy: Callable[[], bool], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while busy() and time.monotonic() < deadline:
        time.sleep(0.05)
