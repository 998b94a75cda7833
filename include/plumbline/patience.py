"""How long this process waits for another one that writes the same archive. Apart from the archive: a command sets it before it imports SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

BUSY_TIMEOUT_S = 60.0
"""Seconds that a task waits. SQLite has one writer at a time; a write here takes milliseconds."""
_seconds = BUSY_TIMEOUT_S


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Connections that this process opens meanwhile wait so many seconds for another writer: a person at a terminal waits less than a task."""
    global _seconds
    before, _seconds = _seconds, seconds
    try:
        yield
    finally:
        _seconds = before


def patience_s() -> float:
    """Seconds that a new connection waits for another writer."""
    return _seconds
