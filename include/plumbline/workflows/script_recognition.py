"""How a script reports its steps: every known format and several guesses are tried on what it printed and wrote; the one whose steps rise wins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from plumbline.declarations.workloads.script import (
    CsvReport,
    JsonLinesReport,
    KnownReport,
    RegexReport,
    Report,
    ReporterReport,
    TensorBoardReport,
)
from plumbline.formats.reading.lines import json_object
from plumbline.formats.reading.pattern import SlowPattern, compiled
from plumbline.formats.reading.training_log import NUMBER, TRAINING_LOGS, PrintedSteps
from plumbline.harness.training.script.progress_bar import BAR, bar_position
from plumbline.harness.training.script.report_files import report_files
from plumbline.harness.training.script.reports import ImpossibleReport, Reported, reader_of, validates
from plumbline.harness.training.script.step_order import StepOrder, StepOutOfOrder

_READ_BYTES = 1 << 22
_LINE, _GUESSED = 1 << 16, 1 << 12
"""Characters of a line that are read, and those in which words are looked for: as of a trial's own readers, so that none takes long."""
_TRIED_LINES = 40
"""Of the lines with a loss, the first ones from which patterns are guessed."""
_MISPLACED = 0.1
"""The share of a format's reports that may be out of order."""
_SEPARATOR = r"(?:['\"],? ?|[^0-9a-z,;|]{0,4})"
_LOSS = re.compile(
    rf"(?i)(?P<label>(?<![a-z0-9_/])(?:(?:train(?:ing)?|lm|total|reduced_train)[ _/])?loss(?:[ _/][a-z]+){{0,2}}{_SEPARATOR})(?P<loss>{NUMBER})"
)
_LOSS_BEHIND = re.compile(rf"(?i)(?<![a-z0-9.:=-])(?P<loss>{NUMBER})(?P<label> +(?:train(?:ing)?[ _])?loss\b)(?!\s*[:=])")
_BARE = r"(?:^|\])\s*(?P<step>\d+)\s*[:,|]\s*(?P<loss>-?\d+\.\d+(?:[eE][-+]?\d+)?)\s*$"
"""A number of a step and one beside it, without a word: guessed only where no line names a loss. A progress bar may end in front of them."""
_LOSS_GROUP = r"(?P<loss>[-+.0-9eEnNaif]+)"
_WHOLE = r"(?![.:]?\d|\s*(?:ms|s|sec|seconds|it/s|%)\b)"
_STEPS = (
    re.compile(
        r"(?i)(?P<label>(?<![a-z0-9])(?:(?:global|optimi[sz]er|train(?:ing)?|num|current|micro)[_ ])?(?:steps?|iter(?:ation)?s?|it|batch(?:es)?|updates?)"
        rf"\b[^0-9a-z\n]{{0,12}})(?P<step>\d[\d,]*){_WHOLE}"
    ),
    re.compile(r"(?P<label>(?:[^\s\d/.:]{1,6}\s*|^\s*))(?<![\d/.:-])(?P<step>\d+)/ *\d+(?![\d/:.])"),
    re.compile(rf"(?P<label>^\s*)(?P<step>\d+)(?![\d.:/,-])\b{_WHOLE}"),
    re.compile(rf"(?i)(?P<label>(?<![a-z])epoch\b[^0-9a-z\n]{{0,12}})(?P<step>\d+){_WHOLE}"),
)
"""Where a line's step may be, the best place first: behind a word, before the total, in front of all, and the number of an epoch."""


@dataclass(frozen=True)
class Recognised:
    """A format, the reports that it read, of each step one, and the script's steps from one to the next.

    `counted`: no report has a number. `bar_every`: steps between two reports by the script's progress bar, where there is one."""

    report: Report
    reports: Sequence[Reported]
    every: int
    counted: bool
    bar_every: int | None = None


@dataclass(frozen=True)
class _Tried:
    """`misfit`: why the format was not taken; empty if it can be. `read`: reports in all, with those that repeat a step."""

    report: Report
    reports: Sequence[Reported]
    steps: Sequence[int]
    misfit: str
    read: int
    impossible: bool = False
    """Whether it is not taken for a number that no step has."""

    @property
    def counted(self) -> bool:
        return not self.steps


def recognise(lines: list[str], events: list[str], folder: Path, new: list[Path], given: Report | None) -> Recognised | str:
    """The format of which most steps rise, or why the nearest one was not taken (empty: none read anything).

    `lines`: of the output; `events`: of the reporter; `new`: files that the script wrote. A format that is `given` needs one report."""
    if given is not None:
        tried = [_try(given, lines, events, folder)]
        least = 1
    else:
        tried = [_try(each, lines, events, folder) for each in _structured(lines, folder, new)]
        least = 2
    best, short = _best(tried, least), [line[:_GUESSED] for line in lines]
    if (best is None or best.counted) and (broken := [one.misfit for one in tried if one.impossible]):
        return broken[0]  # the same lines without their numbers would hide it
    if best is None and given is None:
        guesses = [_try(RegexReport(format="regex", pattern=pattern), lines, events, folder) for pattern in _guesses(short)]
        tried += guesses
        best = _best(guesses, least)
    if best is None:
        nearest = max(tried, key=lambda one: (len(one.reports), len(one.misfit)), default=None)
        if nearest is None or not nearest.reports:
            return (nearest.misfit if nearest is not None else "") or _only_validated(short)
        return nearest.misfit or _too_few(nearest)
    return _numbered(best, short)


def _best(tried: Sequence[_Tried], least: int) -> _Tried | None:
    """Most rising steps, unless there are more than twice as many reports without a number."""
    fitting = [one for one in tried if not one.misfit and len(one.reports) >= least]
    numbered = max((one for one in fitting if not one.counted), key=lambda one: len(one.steps), default=None)
    counted = max((one for one in fitting if one.counted), key=lambda one: len(one.reports), default=None)
    if numbered is None or (counted is not None and counted.read > 2 * numbered.read):
        return counted
    return numbered


def _try(report: Report, lines: list[str], events: list[str], folder: Path) -> _Tried:
    try:
        found = _found(report, lines, events, folder)
    except (ImpossibleReport, SlowPattern) as error:
        return _Tried(report, (), (), str(error), 0, impossible=True)
    numbered = [each for each in found if each.step is not None]
    order, kept, steps, misplaced = StepOrder(), [], [], ""
    for each in numbered:
        assert each.step is not None
        try:
            step = order.place(each.step)
        except StepOutOfOrder as error:
            misplaced = misplaced or str(error)
            continue
        if step is not None:
            kept.append(each)
            steps.append(step)
    if not numbered:
        return _Tried(report, found, (), "", len(found))
    lost = len(numbered) - len(kept) - order.repeated
    if lost > _MISPLACED * len(numbered):
        return _Tried(report, numbered, steps, f"its steps are out of order: {misplaced}", len(numbered))
    if len(kept) == 1 and len(numbered) > 1:
        return _Tried(report, numbered, steps, f"all of its {len(numbered)} reports are of step {numbered[0].step}", len(numbered))
    return _Tried(report, kept, steps, "", len(numbered))


def _found(report: Report, lines: list[str], events: list[str], folder: Path) -> list[Reported]:
    files = report_files(report, folder, old=True)
    if files is not None:
        return files.poll()
    read = reader_of(report).read
    return [each for line in (events if isinstance(report, ReporterReport) else lines) if (each := read(line)) is not None]


def _numbered(best: _Tried, lines: list[str]) -> Recognised:
    if best.counted:
        return Recognised(best.report, best.reports, 1, counted=not isinstance(best.report, ReporterReport), bar_every=_by_bar(best, lines))
    gaps = [later - earlier for earlier, later in pairwise(best.steps)]
    every = int(median(gaps)) if gaps else 1
    even = all(gap == every for gap in gaps[1:]) and (not gaps or gaps[0] <= every)
    if even and not _in_bar(best.report, lines):
        return Recognised(best.report.model_copy(update={"first": best.steps[0], "every": every}), best.reports, every, counted=False)
    first = 1 if isinstance(best.report, RegexReport) and best.steps[0] > 0 else best.steps[0]
    return Recognised(best.report.model_copy(update={"first": first, "uneven": True}), best.reports, 1, counted=False)


def _in_bar(report: Report, lines: list[str]) -> bool:
    """Whether the reports are the refreshes of a progress bar, which come after a time and not after a number of steps."""
    plain = report.resolved if isinstance(report, KnownReport) else report
    if not isinstance(plain, RegexReport) or plain.file is not None:
        return False
    matched = [line for line in lines if compiled(plain.pattern).search(line)]
    return sum(BAR.search(line) is not None for line in matched) * 2 > len(matched)


def _by_bar(best: _Tried, lines: list[str]) -> int | None:
    """Steps between two reports that have no number, as the bar beside them counts; None without one."""
    if report_files(best.report, Path()) is not None or isinstance(best.report, ReporterReport):
        return None
    read, at, positions = reader_of(best.report).read, None, []
    for line in lines:
        at = bar_position(line, at)
        if read(line) is not None and at is not None:
            positions.append(at.done)
    gaps = [later - earlier for earlier, later in pairwise(positions)]
    return round(median(gaps)) if gaps and median(gaps) >= 1 else None


def _too_few(one: _Tried) -> str:
    reports = "one report" if len(one.reports) == 1 else f"{len(one.reports)} reports"
    return f"as {one.report.format} it made {reports}, of which steps cannot be seen to rise"


def _only_validated(lines: list[str]) -> str:
    losses = [line for line in lines if _LOSS.search(line) is not None]
    return f"its {len(losses)} lines with a loss are of a validation" if losses and all(map(_validated, losses)) else ""


def _structured(lines: list[str], folder: Path, new: list[Path]) -> Iterator[Report]:
    yield ReporterReport(format="reporter")
    for name, known in TRAINING_LOGS.items():
        if isinstance(known, PrintedSteps):
            yield KnownReport(format=name)
    yield from (JsonLinesReport(format="jsonl", **keys) for keys in _keys_of_objects(lines))
    for path in new:
        name = str(path.relative_to(folder))
        if path.suffix == ".csv":
            for keys in _keys((lines_of(path) or [""])[0].split(",")):
                lightning = path.name == "metrics.csv" and keys.get("step") == "step"
                yield (
                    KnownReport(format="lightning") if lightning else CsvReport(format="csv", file=re.sub(r"\d+(?=.*/)", "*", name), **keys)
                )
        elif "tfevents" in path.name:
            from plumbline.harness.training.script.event_files import tags

            try:
                found = _keys(tags(path))
            except ImpossibleReport:  # the try says what is wrong
                found = [{"loss": "loss"}]
            for loss in islice((keys["loss"] for keys in found), 1):
                yield TensorBoardReport(format="tensorboard", folder=name.partition("/")[0], loss=loss)
        elif path.suffix in (".jsonl", ".json", ".log", ".txt"):
            yield from (JsonLinesReport(format="jsonl", file=name, **keys) for keys in _keys_of_objects(lines_of(path)))


def lines_of(path: Path) -> list[str]:
    """The first 4 MiB of a file, of each line the beginning; a carriage return ends a line too."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return [line[:_LINE] for line in file.read(_READ_BYTES).splitlines()]


def _keys_of_objects(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Of the first object with a loss."""
    seen = (keys for line in lines if (values := json_object(line)) is not None and (keys := _keys(values)))
    return next(seen, [])


def _keys(names: Iterable[str]) -> list[dict[str, Any]]:
    """Which of the names may hold step and loss, the most likely first; empty without a loss. A total does not rise, so it loses."""
    plain = [name.strip() for name in names]
    losses = [
        n
        for n in plain
        if "loss" in n.lower() and not re.search(r"(?<![a-z])(val|valid|validation|eval|evaluation|test)(?![a-z])|scale", n.lower())
    ]
    steps = [n for n in plain if re.fullmatch(r"(?i)(.*[_/])?(step|iter|iteration|update|batch)s?", n)]
    if not losses:
        return []
    steps.sort(key=lambda name: (re.search(r"(?i)total|max|num|target", name) is not None, len(name)))
    loss = min(losses, key=lambda name: (re.search(r"(?i)train", name) is None and len(losses) > 1, len(name)))
    return [{"loss": loss, "step": step} for step in steps] + [{"loss": loss}]


def _guesses(lines: list[str]) -> list[str]:
    """Patterns of lines with a loss: each place where a step may be, then the loss alone, which is counted."""
    found: dict[str, None] = {}
    alone: dict[str, None] = {}
    for line in islice((line for line in lines if "loss" in line.lower() and not _validated(line)), _TRIED_LINES):
        loss = _LOSS.search(line) or _LOSS_BEHIND.search(line)
        if loss is None:
            continue
        behind = loss.start("loss") < loss.start("label")
        text = f"{_LOSS_GROUP}{_words(loss['label'])}" if behind else f"{_words(loss['label'])}{_LOSS_GROUP}"
        for place in _STEPS:
            for step in place.finditer(line):
                written = f"{_words(step['label'])}(?P<step>[0-9,]+)"
                if step.end("step") <= loss.start():
                    found[f"{written}.*?{text}"] = None
                elif step.start() >= loss.end():
                    found[f"{text}.*?{written}"] = None
        alone[text] = None
    if not found and not alone and sum(re.search(_BARE, line) is not None for line in lines) > 1:
        return [_BARE]
    return [*found, *alone]


def _validated(line: str) -> bool:
    loss = _LOSS.search(line) or _LOSS_BEHIND.search(line)
    return loss is not None and validates(line[: loss.start("loss")])


def _words(label: str) -> str:
    """A label as it is, with any number of spaces; one at the beginning of a line stays there."""
    plain = re.sub(r"(\\?\s)+", " *" if not label.strip() else " +", re.escape(label))
    return f"^{plain}" if not label.strip() else rf"\b{plain}" if label[0].isalnum() else plain
