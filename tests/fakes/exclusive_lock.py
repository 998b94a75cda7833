"""A lock between the processes of one test run: tests share it, and a test marked `exclusive` has it for itself."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class ExclusiveLock:
    """Two files: whoever wants the second one waits at the first, so that an exclusive test waits for one test and not for all."""

    def __init__(self, run: str) -> None:
        self.gate, self._lock = (Path(tempfile.gettempdir()) / f"plumbline-tests-{run}.{name}" for name in ("gate", "lock"))

    @contextmanager
    def hold(self, *, exclusive: bool) -> Iterator[None]:
        """Waits until no other test is exclusive or, if `exclusive`, until no other test runs."""
        gate, lock = (os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in (self.gate, self._lock))
        try:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield
        finally:
            for descriptor in (lock, gate):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # a process that the test forked has these files open too
                os.close(descriptor)

    def remove(self) -> None:
        """Remove the files when the run has ended."""
        for path in (self.gate, self._lock):
            path.unlink(missing_ok=True)
