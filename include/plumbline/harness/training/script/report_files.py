"""Reports in files that a script writes while it runs."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from plumbline.declarations.workloads.script import CsvReport, JsonLinesReport, KnownReport, RegexReport, Report, TensorBoardReport
from plumbline.harness.training.script.reports import LOOK_SECONDS, Reported, reader_of

if TYPE_CHECKING:
    from plumbline.harness.training.script.event_files import EventFiles

_CHUNK = 1 << 24


def report_files(report: Report, folder: Path, *, old: bool = False) -> LineFiles | EventFiles | None:
    """Files below the script's folder, from now on: only with `old` is what lies there already read. None if reports are in the output."""
    declared = report.resolved if isinstance(report, KnownReport) else report
    if isinstance(declared, TensorBoardReport):
        from plumbline.harness.training.script.event_files import EventFiles  # tensorboard, where it is needed

        return EventFiles(declared, folder, old=old)
    if isinstance(declared, RegexReport | JsonLinesReport | CsvReport) and declared.file is not None:
        return LineFiles(declared, declared.file, folder, old=old)
    return None


class LineFiles:
    """Lines of the newest file that `pattern` names below the folder."""

    def __init__(self, report: RegexReport | JsonLinesReport | CsvReport, pattern: str, folder: Path, *, old: bool) -> None:
        self.report, self.pattern, self.folder = report, pattern, folder
        self.tails = {} if old else {path: _Tail(path, report) for path in folder.glob(pattern)}
        for tail in self.tails.values():
            tail.read()
        self.tail: _Tail | None = None
        self.look_at = 0.0

    def poll(self, *, ended: bool = False) -> list[Reported]:
        """What was added since the last call. `ended`: the script writes no more, so files that appeared are looked for now."""
        if ended or monotonic() >= self.look_at:
            self.look_at = monotonic() + LOOK_SECONDS
            paths = [path for path in self.folder.glob(self.pattern) if path.is_file()]
            newest = max(paths, key=os.path.getmtime, default=None)
            if newest is not None:
                self.tail = self.tails.setdefault(newest, _Tail(newest, self.report))
        return [] if self.tail is None else self.tail.read()


class _Tail:
    def __init__(self, path: Path, report: RegexReport | JsonLinesReport | CsvReport) -> None:
        self.path, self.report = path, report
        self._begin()

    def _begin(self, inode: int = 0) -> None:
        self.inode, self.offset, self.lines, self.first = inode, 0, 0, b""
        self.reader = reader_of(self.report)

    def read(self) -> list[Reported]:
        """Reports of the whole lines that were added; all that is there at the first call, at most 16 MiB at a time."""
        try:
            file = self.path.open("rb")
        except OSError:
            return []
        with file:
            stat = os.fstat(file.fileno())
            if stat.st_size == 0:  # truncated in this moment, to be written again
                return []
            again = 0
            if stat.st_ino != self.inode or stat.st_size < self.offset:
                self._begin(stat.st_ino)
            elif self.first and file.readline(_CHUNK) != self.first:
                # Lightning writes its CSV again when a column is added: the rows read so far are not news.
                again = self.lines if isinstance(self.report, CsvReport) else 0
                self._begin(stat.st_ino)
            file.seek(self.offset)
            data = file.read(_CHUNK)
        whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == _CHUNK else b"")
        lines = whole.splitlines(keepends=True)
        self.first = self.first or b"".join(lines[:1])
        self.offset += len(whole)
        self.lines += len(lines)
        reports = [self.reader.read(line.decode(errors="replace")) for line in lines]
        return [each for each in reports[again:] if each is not None]
