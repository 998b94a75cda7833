"""The installation's declarations, read once until a file of them changes: to read and check all of them takes a tenth of a second."""

from __future__ import annotations

import threading
from pathlib import Path

from plumbline.declarations import Declarations, load, places

Stamp = tuple[tuple[str, int, int], ...]


class Declared:
    """Hands out the declarations. DeclarationError as long as a file of them does not hold, as `load` raises it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[Stamp, Declarations] | None = None

    def now(self) -> Declarations:
        """What is declared now."""
        with self._lock:
            stamp = _stamp(places().config)
            if self._known is None or self._known[0] != stamp:
                self._known = (stamp, load())
            return self._known[1]


def _stamp(folder: Path) -> Stamp:
    """Which files there are, when they were written and how long they are."""
    return tuple((str(path), at.st_mtime_ns, at.st_size) for path in sorted(folder.rglob("*.yaml")) for at in (path.stat(),))
