"""Logs of training programs: where a program's own lines or tables hold its steps, losses and times."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from plumbline.formats.registry import Format, Formats

NUMBER = r"[-+]?(?:[0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[nN]a[nN]|inf)"
"""A number as programs print it."""


class TrainingLog(Format):
    """What a program reports by itself, as a script's declaration would say it with the formats regex and csv."""

    @abstractmethod
    def declared(self) -> dict[str, str]:
        """The fields of `task.report` in full."""


class PrintedSteps(TrainingLog):
    """Lines of the output.

    `pattern`: its named groups are those of a report: step, loss, tokens, samples, seconds, milliseconds, data_wait."""

    pattern: ClassVar[str]

    def declared(self) -> dict[str, str]:
        return {"format": "regex", "pattern": self.pattern}


class StepTable(TrainingLog):
    """A CSV file. `file`: a pattern of its path.

    `columns`: by the field of a report, several joined by |, of which the first present one counts."""

    file: ClassVar[str]
    columns: ClassVar[dict[str, str]]

    def declared(self) -> dict[str, str]:
        return {"format": "csv", "file": self.file, **self.columns}


TRAINING_LOGS: Formats[TrainingLog] = Formats(TrainingLog, "training_logs")
"""By the name that `task.report.format` of a script gives."""
