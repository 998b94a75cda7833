"""Reports in TensorBoard's event files, whose scalars carry step and moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns, time_ns
from typing import Any

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util.tensor_util import make_ndarray

from plumbline.declarations.workloads.script import TensorBoardReport
from plumbline.harness.training.script.reports import LOOK_SECONDS, Reported, chosen, names_of, reported


def tags(path: Path) -> set[str]:
    """Tags of an event file's scalars."""
    return {value.tag for event in EventFileLoader(str(path)).Load() for value in event.summary.value}


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
        self.loaders: dict[Path, EventFileLoader] = {}
        self.steps: dict[Path, _Step] = {}
        self.look_at = 0.0

    def _files(self) -> Iterator[Path]:
        return self.folder.rglob("*tfevents*")

    def poll(self) -> list[Reported]:
        """What was added since the last call."""
        if monotonic() >= self.look_at:
            self.look_at = monotonic() + LOOK_SECONDS
            self.loaders |= {path: EventFileLoader(str(path)) for path in sorted(set(self._files()) - self.before - set(self.loaders))}
        return [report for path, loader in self.loaders.items() for event in loader.Load() for report in self._of_event(path, event)]

    def _of_event(self, path: Path, event: Any) -> Iterator[Reported]:
        for value in event.summary.value:
            if value.tag in self.tags:
                at = self.steps.get(path)
                if at is None or at.number != event.step:
                    if at is not None:
                        yield from self._report(at, complete=False)
                    at = self.steps[path] = _Step(event.step, event.wall_time)
                at.values[value.tag] = float(make_ndarray(value.tensor).reshape(-1)[0])
                yield from self._report(at, complete=True)

    def _report(self, at: _Step, *, complete: bool) -> Iterator[Reported]:
        fields = None if at.done else chosen(at.values, self.names)
        if fields is not None and (len(fields) == len(self.names) or not complete):
            at.done = True
            report = reported({**fields, "step": at.number, "ended": int(at.ended * 1e9) + monotonic_ns() - time_ns()})
            yield from [report] if report is not None else []
