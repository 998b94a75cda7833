"""What was worked out of decisions, kept for as long as nothing changes that they rest on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from datetime import date
from typing import Any, TypeVar, cast

from plumbline.archive import Archive
from plumbline.declarations import Declarations

T = TypeVar("T")
MOST = 64
"""Answers kept; each slider that somebody moves is one."""


class Choices:
    """Answers by what was asked. A new trial, an accepted price, a changed declaration and another day each begin anew: an answer is never
    older than what it rests on, and the second one who asks does not wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._basis: tuple[Archive, Declarations, date, tuple[int, int, int]] | None = None
        self._known: dict[Hashable, Any] = {}

    def kept(self, archive: Archive, declared: Declarations, on: date, asked: Hashable, make: Callable[[], T]) -> T:
        """The answer to `asked`, from `make` if it is not known."""
        state = archive.as_of()
        with self._lock:
            before = self._basis
            same = before is not None and before[0] is archive and before[1] is declared and before[2:] == (on, state)
            if not same:
                self._basis, self._known = (archive, declared, on, state), {}
            if asked in self._known:
                return cast(T, self._known[asked])
        made = make()  # not under the lock: one long answer must not keep the others waiting
        with self._lock:
            if self._basis is not None and self._basis[0] is archive and self._basis[1] is declared and self._basis[2:] == (on, state):
                self._known[asked] = made
                while len(self._known) > MOST:
                    del self._known[next(iter(self._known))]
        return made
