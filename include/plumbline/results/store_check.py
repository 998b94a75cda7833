"""One object written, read back and deleted: whether a store can be used."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from plumbline.results.store import ResultStore
from plumbline.results.store_errors import one_line

CHECK_PREFIX = ".plumbline-check-"
"""Prefix of the check's objects; no campaign can have such a name."""
_T = TypeVar("_T")


_Step = Literal["write", "read", "compare", "delete"]
_DONE: Mapping[_Step, str] = {"write": "written", "read": "read back", "delete": "deleted"}


class StoreFault(OSError):
    """The store cannot be used. `step`: what failed."""

    def __init__(self, step: _Step, message: str) -> None:
        super().__init__(message)
        self.step = step


def check_access(store: ResultStore) -> float:
    """Write, read back and delete one object of a new name; returns the seconds it took. Raises StoreFault."""
    path, content = f"{CHECK_PREFIX}{uuid.uuid4().hex}", uuid.uuid4().bytes
    uri = store.uri(path)
    began = time.monotonic()
    _attempt_step(uri, "write", lambda: store.put(path, content))
    try:
        answer = _attempt_step(uri, "read", lambda: store.get(path))
    finally:
        _attempt_step(uri, "delete", lambda: store.remove(path))
    if answer != content:
        raise StoreFault("compare", f"{uri} returned other bytes than were written")
    if _attempt_step(uri, "read", lambda: store.exists(path)):
        raise StoreFault("delete", f"{uri} still exists after its deletion; is the bucket locked against deletion?")
    return time.monotonic() - began


def _attempt_step(uri: str, step: _Step, action: Callable[[], _T]) -> _T:
    try:
        return action()
    except Exception as error:  # each store's client has its own exceptions, and all of them mean that it cannot be used
        words = one_line(error)
        reason = words if isinstance(error, (FileNotFoundError, PermissionError)) else f"{type(error).__name__}: {words}"
        raise StoreFault(step, f"{uri} could not be {_DONE[step]}: {reason}") from error
