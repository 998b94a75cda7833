"""New lines and progress of a pod's log, read in overlapping parts. No clock, no network."""

from __future__ import annotations

import math
import re

from plumbline.harness.launcher_protocol import ProgressLine, parse_deletion_request, parse_progress
from plumbline.results import log_transport

_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?")
_OVERLAP_S = 2.0
_READ_BACK_S = 60
"""Seconds that a new watch reads back from the end of the one before; some lines may come twice."""
_MAX_LINES = 500
"""Newest lines that one read takes. The launch's record keeps the whole log."""

MAX_LINE_BYTES, _PROGRESS_BYTES = 5 * 2**20, 2**20
"""Limits of what one watch writes to the task's log: a pod's own lines, and its progress."""


class LogReader:
    """Reads each line of a log once. `from_start`: false of a log that an earlier watch read."""

    def __init__(self, *, from_start: bool) -> None:
        self._from_start = from_start
        self._read_at: float | None = None
        self._last, self._told_at_last = "", 0  # the newest time, and how many lines had it: a burst may share one
        self._told: tuple[str, int] | None = None
        self._left, self._progress_left = MAX_LINE_BYTES, _PROGRESS_BYTES
        self.asked_deletion = 0
        """Number of the last deletion that the pod requested; 0 if it requested none."""

    def query(self, now: float) -> dict[str, str]:
        """API parameters for the lines since the last read and a little more; relative seconds, so that clocks may differ."""
        parameters = {"timestamps": "true", "limitBytes": str(2**20), "tailLines": str(_MAX_LINES)}
        if self._read_at is not None:
            parameters["sinceSeconds"] = str(math.ceil(now - self._read_at + _OVERLAP_S))
        elif not self._from_start:
            parameters["sinceSeconds"] = str(_READ_BACK_S)
        return parameters

    def read(self, text: str, now: float) -> tuple[list[str], ProgressLine | None]:
        """New lines for people, and the newest progress, if any. Progress becomes a line when its phase or percentage changes."""
        lines, newest = [], None
        known, told_at_known = self._last, self._told_at_last
        for stamped in text.splitlines():
            stamp, _, line = stamped.partition(" ")
            moment = _comparable(stamp)
            if moment is None:
                lines += self._within_total(stamped)  # a message of the kubelet, such as that the log no longer exists
                continue
            if moment < known or (moment == known and told_at_known > 0):
                told_at_known -= moment == known
                continue
            if moment >= self._last:
                self._told_at_last = self._told_at_last + 1 if moment == self._last else 1
                self._last = moment
            if (number := parse_deletion_request(line)) is not None:
                self.asked_deletion = number
                continue
            if log_transport.is_block_line(line):
                continue
            if (progress := parse_progress(line)) is None:
                lines += self._within_total(line)
                continue
            newest = progress
            step = (progress.phase, math.floor(progress.fraction * 100))
            if step != self._told:
                self._told = step
                text = f"{step[0]} {step[1]} %" + (f" · {progress.note}" if progress.note else "")
                self._progress_left -= len(text.encode())
                if self._progress_left >= 0:
                    lines.append(text)
        self._read_at = now
        return lines, newest

    def _within_total(self, line: str) -> list[str]:
        """The line while the limit allows it, then one note, then nothing."""
        if self._left < 0:
            return []
        self._left -= len(line.encode()) + 1
        return (
            [line]
            if self._left >= 0
            else [f"the pod printed more than {MAX_LINE_BYTES // 2**20} MiB; from here on only its progress is shown"]
        )


def _comparable(stamp: str) -> str | None:
    """A log's time in a form that sorts by time (some runtimes drop a fraction's trailing zeros); None for another text."""
    match = _STAMP.match(stamp)
    return None if match is None else f"{match[1]}.{(match[2] or '').ljust(9, '0')}"
