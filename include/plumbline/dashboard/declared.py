"""The installation's declarations, read once until a file of them changes: to read and check all of them takes a tenth of a second, and to
ask hundreds of files whether they changed some milliseconds."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from plumbline.dashboard.access import without_money
from plumbline.declarations import Declarations, load, places

Stamp = tuple[tuple[str, int, int], ...]


class Declared:
    """Hands out the declarations as they were at most `fresh_s` seconds ago. DeclarationError as long as a file of them does not hold, as
    `load` raises it."""

    def __init__(self, fresh_s: float = 2.0) -> None:
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self._known: tuple[Stamp, Declarations] | None = None

    def now(self, money: bool = True) -> Declarations:
        """What is declared now, without prices for those who may not see `money`."""
        found = self._read()
        return found if money else without_money(found)

    def _read(self) -> Declarations:
        with self._lock:
            if self._known is not None and time.monotonic() - self._looked_at < self._fresh_s:
                return self._known[1]
            stamp = _stamp(places().config)
            if self._known is None or self._known[0] != stamp:
                self._known = None
                self._known = (stamp, load())
            self._looked_at = time.monotonic()
            return self._known[1]


def _stamp(folder: Path) -> Stamp:
    """Which files there are, when they were written and how long they are."""
    return tuple((str(path), at.st_mtime_ns, at.st_size) for path in sorted(folder.rglob("*.yaml")) for at in (path.stat(),))
