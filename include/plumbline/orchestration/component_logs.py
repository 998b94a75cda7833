"""Bounds the log files that Airflow's components write to for as long as they run. Imports nothing: the supervisor uses it."""

from __future__ import annotations

import shutil
from pathlib import Path

LIMIT_BYTES = 20 * 2**20
CHECK_EVERY_S = 60.0


def rotate(logs: Path, limit: int = LIMIT_BYTES) -> list[str]:
    """Move the content of each component's log above `limit` bytes to <name>.log.1, in place of the earlier one; the names.

    The writer keeps the file open and appends to it: it is emptied, not replaced. Lines written within that moment are lost.
    """
    rotated = []
    for log in sorted(logs.glob("*.log")):
        try:
            if log.stat().st_size > limit:
                shutil.copyfile(log, log.with_name(f"{log.name}.1"))
                with log.open("r+b") as file:
                    file.truncate(0)
                rotated.append(log.name)
        except OSError:  # a full disk: emptying is what helps, and an older copy is not worth a component
            log.with_name(f"{log.name}.1").unlink(missing_ok=True)
            with log.open("r+b") as file:
                file.truncate(0)
    return rotated
