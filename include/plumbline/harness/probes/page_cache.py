"""Whether a file is read from its disk or from memory."""

from __future__ import annotations

import os
from pathlib import Path


def is_cold(file: Path) -> bool | None:
    """Have the system drop the file's pages, and say whether it did: a file system in memory keeps them. None if it cannot be asked."""
    if not hasattr(os, "posix_fadvise") or not hasattr(os, "RWF_NOWAIT"):
        return None
    with file.open("rb", buffering=0) as source:
        os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            # Answers only from memory. The last page: what may be read ahead after this question is what the probe reads last.
            os.preadv(source.fileno(), [bytearray(1)], max(os.fstat(source.fileno()).st_size - 1, 0), os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return None  # a file system that cannot be asked
        return False
