"""Can a result store be used from here: one small object is written, read back and deleted."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import TypeVar

from plumbline.results.store import ResultStore
from plumbline.results.store_errors import line

PREFIX = ".plumbline-check-"
"""What the objects' names begin with for the moment that they live; no campaign can have such a name."""
_T = TypeVar("_T")


class StoreFault(OSError):
    """The store cannot be used; the message says which step failed, on which object, and how."""


def check(store: ResultStore) -> float:
    """Write, read back and delete one object of a new name; returns the seconds it took. Raises StoreFault."""
    path, content = f"{PREFIX}{uuid.uuid4().hex}", uuid.uuid4().bytes
    uri = store.uri(path)
    began = time.monotonic()
    _tried(uri, "written", lambda: store.put(path, content))
    try:
        found = _tried(uri, "read back", lambda: store.get(path))
    finally:
        _tried(uri, "deleted", lambda: store.remove(path))
    if found != content:
        raise StoreFault(f"{uri} was read back with other bytes than were written")
    if _tried(uri, "looked for", lambda: store.exists(path)):
        raise StoreFault(f"{uri} is still there after it was deleted; is the bucket locked against deletion?")
    return time.monotonic() - began


def _tried(uri: str, step: str, action: Callable[[], _T]) -> _T:
    try:
        return action()
    except Exception as error:  # each store's client has its own exceptions, and all of them mean that it cannot be used
        words = line(error)
        told = words if isinstance(error, (FileNotFoundError, PermissionError)) else f"{type(error).__name__}: {words}"
        raise StoreFault(f"{uri} could not be {step}: {told}") from error
