"""A script's checkpoints as their files show them: what was written, from when until when."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SETTLED_NS = 500_000_000
"""Without a change for so long, a checkpoint is complete."""


@dataclass(frozen=True)
class SeenSave:
    """One checkpoint: monotonic nanoseconds, and the bytes of the files that were written."""

    began_ns: int
    ended_ns: int
    bytes: int


class CheckpointWatcher:
    """Looks at the files below `folder`, which need not exist yet; what is there at the start is no news.

    A file's own times say when it was written, to the tick of the kernel's clock, so that the moments do not depend on how often it looks:
    only the beginning of a file that is written over is known no better than that."""

    def __init__(self, folder: Path, now_ns: int, wall_ns: int) -> None:
        self._folder, self._offset_ns = folder, wall_ns - now_ns
        self._seen = dict(self._scan())
        self._settled = self._seen
        self._began_ns: int | None = None
        self._looked_ns = self._changed_ns = now_ns

    def look(self, now_ns: int, *, ended: bool = False) -> SeenSave | None:
        """A checkpoint that is complete since the last look; None without one. At most one is written at a time. `ended`: by no one any more."""
        files, before = dict(self._scan()), self._looked_ns
        self._looked_ns = now_ns
        new = [path for path, state in files.items() if self._seen.get(path) != state]
        self._seen = files
        if new:
            self._changed_ns = now_ns
            if self._began_ns is None:
                began = min(min(files[path][0], self._entered(path)) for path in new) - self._offset_ns
                self._began_ns = min(max(began, before), now_ns)
        if self._began_ns is None or (now_ns - self._changed_ns < _SETTLED_NS and not ended):
            return None
        written = [path for path, state in files.items() if self._settled.get(path) != state]
        began, self._began_ns, self._settled = self._began_ns, None, files
        if not written:  # it was deleted again
            return None
        last = max(max(files[path][0] - self._offset_ns for path in written), began)
        return SeenSave(began, last, sum(files[path][1] for path in written))

    @property
    def writing(self) -> bool:
        return self._began_ns is not None

    def _entered(self, path: Path) -> int:
        """When the file got its name, if nothing else changed in its folder since; of a file that was there before, now is all that is known."""
        with suppress(OSError):
            if path not in self._settled:
                return path.parent.stat().st_mtime_ns
        return self._looked_ns + self._offset_ns

    def _scan(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        for folder, _, names in os.walk(self._folder):
            for path in (Path(folder, name) for name in names):
                with suppress(OSError):  # replaced or deleted at this moment
                    state = path.stat()
                    yield path, (state.st_mtime_ns, state.st_size)
