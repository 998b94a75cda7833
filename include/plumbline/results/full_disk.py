"""A full disk: how it is recognised in an error, and whether a folder has room before something starts."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_SQLITE, _POSTGRESQL = "database or disk is full", "DiskFull"
_GIB = 2.0**30


def full(error: BaseException | None) -> str | None:
    """What a person reads of an error that a full disk or an exhausted quota caused, anywhere in its chain; None for any other."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, OSError) and error.errno in _FULL:
            where = f" ({error.filename})" if error.filename else ""
            return f"the disk is full, or a quota is used up{where}: {os.strerror(error.errno)}; free space and try again"
        if _SQLITE in str(error) or type(error).__name__ == _POSTGRESQL:
            return "the disk of the archive's database is full; free space and try again. What was recorded before is whole"
        error = error.__cause__ or error.__context__
    return None


def lacking(folder: Path, needed: float) -> str | None:
    """Why `needed` bytes do not fit on the disk of a folder, which need not exist yet; None if they do."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free >= needed:
        return None
    return f"the disk of {folder} has {free / _GIB:.2f} GiB free and the trial needs {needed / _GIB:.2f} GiB; free space and run it again"
