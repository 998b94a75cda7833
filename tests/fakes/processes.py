"""Processes that a test starts or finds."""

from __future__ import annotations

import psutil


def lives(process: psutil.Process) -> bool:
    """Whether it has not ended; a zombie has, whoever takes note of it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
