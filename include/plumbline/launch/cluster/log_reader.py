"""Pure: a pod's log, read in overlapping pieces, as lines for the task's log and the newest progress."""

from __future__ import annotations

import math
import re

from plumbline.harness.progress import ProgressLine, asked_deletion, parse
from plumbline.results import log_block

_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?")
_OVERLAP_S = 2.0
_READ_BACK_S = 60
"""What a watch that takes over from another one reads back: nothing is lost unless that took longer; some lines may come twice."""
_LINES = 500
"""Read at a time at most, the newest ones. The whole log is kept with the launch's record."""

TOTAL_BYTES, _PROGRESS_BYTES = 5 * 2**20, 2**20
"""Of a pod's own lines, and of its progress, that one watch hands on at most: a pod prints what it likes, and a task's log is kept."""


class LogReader:
    """Remembers what was read. `from_start`: nobody read this log before."""

    def __init__(self, *, from_start: bool) -> None:
        self._from_start = from_start
        self._read_at: float | None = None
        self._last, self._told_at_last = "", 0  # the newest time, and how many lines had it: a burst may share one
        self._told: tuple[str, int] | None = None
        self._left, self._progress_left = TOTAL_BYTES, _PROGRESS_BYTES
        self.asked_deletion = 0
        """Which deletion of the pod it asked for last; 0 if it did not."""

    def query(self, now: float) -> dict[str, str]:
        """Parameters for the API that give all lines since the last look, and some before; seconds ago, so that no two clocks meet."""
        asked = {"timestamps": "true", "limitBytes": str(2**20), "tailLines": str(_LINES)}
        if self._read_at is not None:
            asked["sinceSeconds"] = str(math.ceil(now - self._read_at + _OVERLAP_S))
        elif not self._from_start:
            asked["sinceSeconds"] = str(_READ_BACK_S)
        return asked

    def read(self, text: str, now: float) -> tuple[list[str], ProgressLine | None]:
        """New lines for people, and the newest progress if there is any. A step of progress is a line when its phase or percent changed."""
        lines, newest = [], None
        known, told_at_known = self._last, self._told_at_last
        for stamped in text.splitlines():
            stamp, _, line = stamped.partition(" ")
            moment = _comparable(stamp)
            if moment is None:
                lines += self._within_total(stamped)  # the kubelet's own words, such as that the log is not there any more
                continue
            if moment < known or (moment == known and told_at_known > 0):
                told_at_known -= moment == known
                continue
            if moment >= self._last:
                self._told_at_last = self._told_at_last + 1 if moment == self._last else 1
                self._last = moment
            if (number := asked_deletion(line)) is not None:
                self.asked_deletion = number
                continue
            if log_block.is_line(line):
                continue
            if (progress := parse(line)) is None:
                lines += self._within_total(line)
                continue
            newest = progress
            step = (progress.phase, math.floor(progress.fraction * 100))
            if step != self._told:
                self._told = step
                told = f"{step[0]} {step[1]} %" + (f" · {progress.note}" if progress.note else "")
                self._progress_left -= len(told.encode())
                if self._progress_left >= 0:
                    lines.append(told)
        self._read_at = now
        return lines, newest

    def _within_total(self, line: str) -> list[str]:
        """The line while there is room, one note where there is none any more, then nothing."""
        if self._left < 0:
            return []
        self._left -= len(line.encode()) + 1
        return (
            [line]
            if self._left >= 0
            else [f"the pod printed more than {TOTAL_BYTES // 2**20} MiB; from here on only its progress is shown"]
        )


def _comparable(stamp: str) -> str | None:
    """A log's time, 2026-11-21T03:00:00.12Z, such that texts sort by time: some runtimes drop a fraction's trailing zeros. None if it is none."""
    found = _STAMP.match(stamp)
    return None if found is None else f"{found[1]}.{(found[2] or '').ljust(9, '0')}"
