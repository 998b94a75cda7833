"""Reports in TensorBoard's event files, whose scalars carry step and moment."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns, time_ns
from typing import Any

from google.protobuf.message import DecodeError
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util.tensor_util import make_ndarray

from plumbline.declarations.workloads.script import TensorBoardReport
from plumbline.formats.reading.foreign_number import ForeignNumber, moment
from plumbline.harness.training.script.reports import LOOK_SECONDS, MAX_STEP, ImpossibleReport, Reported, chosen, names_of, reported

_RECORD = struct.Struct("<QI")
"""The length of a record and its checksum, before the record and the checksum of that."""
_CHECKSUM = 4
MAX_RECORD = 16 << 20
"""Bytes of one event: a scalar takes a hundred, an image megabytes."""


def tags(path: Path) -> set[str]:
    """Tags of an event file's scalars. ImpossibleReport for a file that holds something else."""
    return {value.tag for event in Events(path).new() for value in event.summary.value}


class Events:
    """The events of a file that grows, in their order: TensorBoard's loader, which gets no record that is larger than an event can be."""

    def __init__(self, path: Path) -> None:
        self._path, self._checked = path, 0
        self._loader: Any = None

    def new(self) -> Iterator[Any]:
        """Those that were added since the last call. ImpossibleReport."""
        if not self._whole_records():
            return
        try:
            self._loader = self._loader or EventFileLoader(str(self._path))
            yield from self._loader.Load()
        except (DecodeError, UnicodeDecodeError, ValueError) as error:
            raise ImpossibleReport(f"{self._path.name} is no event file of TensorBoard ({type(error).__name__}: {error})") from None

    def _whole_records(self) -> bool:
        """Whether there is a record that was not looked at; the loader reads as many bytes as a record says it has."""
        before = self._checked
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                while self._checked < size:
                    file.seek(self._checked)
                    head = file.read(_RECORD.size)
                    if len(head) < _RECORD.size:
                        break
                    length, _ = _RECORD.unpack(head)
                    if length > MAX_RECORD:
                        at = f"{self._path.name} has an event of {length:,} bytes at byte {self._checked:,}"
                        raise ImpossibleReport(f"{at}; expected at most {MAX_RECORD:,}, as TensorBoard writes scalars")
                    if (after := self._checked + _RECORD.size + length + _CHECKSUM) > size:
                        break
                    self._checked = after
        except OSError:
            return False
        return self._checked > before


@dataclass
class _Step:
    """Scalars of the step that a file is at; `ended`: wall clock, s."""

    number: int
    ended: float
    values: dict[str, float] = field(default_factory=dict)
    done: bool = False


class EventFiles:
    """Scalars of one step make one report: it is complete when all declared tags are there, or once another step begins."""

    def __init__(self, report: TensorBoardReport, folder: Path, *, old: bool) -> None:
        self.folder = folder / report.folder
        self.names = {name: tag for name, tag in names_of(report).items() if name != "step"}
        self.tags = {tag for tags in self.names.values() for tag in tags.split("|")}
        self.before = set() if old else set(self._files())
        self.files: dict[Path, Events] = {}
        self.steps: dict[Path, _Step] = {}
        self.look_at = 0.0

    def _files(self) -> Iterator[Path]:
        return (path for path in self.folder.rglob("*tfevents*") if path.is_file())

    def poll(self, *, ended: bool = False) -> list[Reported]:
        """What was added since the last call; files that appeared too, once the script `ended`. ImpossibleReport for what is no scalar of a step."""
        if ended or monotonic() >= self.look_at:
            self.look_at = monotonic() + LOOK_SECONDS
            self.files |= {path: Events(path) for path in sorted(set(self._files()) - self.before - set(self.files))}
        return [report for path, events in self.files.items() for event in events.new() for report in self._of_event(path, event)]

    def _of_event(self, path: Path, event: Any) -> Iterator[Reported]:
        for value in event.summary.value:
            if value.tag in self.tags:
                at = self.steps.get(path)
                if at is None or at.number != event.step:
                    if at is not None:
                        yield from self._report(at, complete=False)
                    at = self.steps[path] = _Step(*_placed(path, event))
                at.values[value.tag] = _scalar(path, value)
                yield from self._report(at, complete=True)

    def _report(self, at: _Step, *, complete: bool) -> Iterator[Reported]:
        fields = None if at.done else chosen(at.values, self.names)
        if fields is not None and (len(fields) == len(self.names) or not complete):
            at.done = True
            ended = int(at.ended * 1e9) + monotonic_ns() - time_ns()
            report = reported({**fields, "step": at.number, "ended": ended})
            yield from [report] if report is not None else []


def _placed(path: Path, event: Any) -> tuple[int, float]:
    """Step and wall clock of an event."""
    if not 0 <= event.step <= MAX_STEP:
        raise ImpossibleReport(f"{path.name} has an event of step {event.step}; expected one from 0 to {MAX_STEP:,}")
    try:
        return event.step, moment(event.wall_time).timestamp()
    except ForeignNumber:
        expected = "expected seconds since 1970, from 2000 until 2100"
        raise ImpossibleReport(f"{path.name}, step {event.step} has wall_time {event.wall_time:g}; {expected}") from None


def _scalar(path: Path, value: Any) -> float:
    """The number of a tensor, which must have one alone: a shape of its own choice would become so much memory."""
    sizes = [dimension.size for dimension in value.tensor.tensor_shape.dim]
    if any(size != 1 for size in sizes):
        raise ImpossibleReport(f"{path.name}, tag {value.tag!r} has a tensor of {sizes}; expected a scalar")
    try:
        return float(make_ndarray(value.tensor).reshape(-1)[0])
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise ImpossibleReport(
            f"{path.name}, tag {value.tag!r} has no number ({type(error).__name__}: {error}); expected a scalar"
        ) from None
