"""Outputs of commands: what a container workload declares of its results, and the numbers that a format finds in them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from plumbline.formats.reading.foreign_number import ForeignNumber
from plumbline.formats.reading.lines import numbers, without_prefixes
from plumbline.formats.registry import Format, Formats
from plumbline.metrics import Direction, Unit, own_metric
from plumbline.metrics.rows import Curve, MetricRow, Reason, metric_row


class UnreadableOutput(ValueError):
    """The output is not of the declared format; the message says what was expected."""


class DeclaredNumber(Protocol):
    """A metric as a workload declares it. `field`: where the number is, by its format; its name if None. `scale`: its unit in the metric's."""

    @property
    def unit(self) -> Unit: ...
    @property
    def direction(self) -> Direction: ...
    @property
    def field(self) -> str | None: ...
    @property
    def scale(self) -> float: ...


@dataclass(frozen=True)
class DeclaredNumbers:
    """What a workload declares beside the name of the format. `numbers`: its own metrics by name."""

    numbers: Mapping[str, DeclaredNumber]
    pattern: str | None = None

    def field(self, name: str) -> str:
        """Where the number of a metric is."""
        return self.numbers[name].field or name

    def read(self, name: str, value: object) -> list[float]:
        """The number of a metric where its field was found, as `numbers` gives it. UnreadableOutput, naming the field, for an impossible one."""
        try:
            return numbers(value, self.numbers[name].scale)
        except ForeignNumber as error:
            raise UnreadableOutput(f"{self.field(name)} is {error}") from None

    def rows(self, values: Mapping[str, Sequence[float]], nothing: str) -> list[MetricRow]:
        """A row of each metric, with the last finite one of its values. UnreadableOutput with `nothing` if none has any."""
        rows = [
            metric_row(
                own_metric(name, self.numbers[name].unit, self.numbers[name].direction),
                *_last(seen),
                reason=f"the results have no {self.field(name)}",
            )
            for name, seen in values.items()
        ]
        if all(row.value is None for row in rows):
            raise UnreadableOutput(nothing)
        return rows


@dataclass(frozen=True)
class Output:
    """The numbers of an output; no row has a value if it holds none. `invalid`: why they do not count. `ranks`: how many processes took part, if
    the output lists them."""

    rows: Sequence[MetricRow]
    curves: Sequence[Curve] = ()
    invalid: Sequence[Reason] = ()
    ranks: int | None = None


class CommandOutput(Format):
    """What a command writes to its output, or into its file of results. `metrics`: those of the catalogue that it brings; a format without any
    reads the metrics that the workload declares. `lines`: a regular expression of lines that may hold a result; empty of a format that is one
    document. `has_pattern`: whether a workload declares a pattern."""

    metrics: ClassVar[tuple[str, ...]] = ()
    lines: ClassVar[str] = ""
    has_pattern: ClassVar[bool] = False

    @abstractmethod
    def read(self, text: str, declared: DeclaredNumbers) -> Output:
        """The numbers in the text. UnreadableOutput, or another ValueError, KeyError, TypeError or AttributeError of damaged text."""

    def wanted(self, declared: DeclaredNumbers) -> str:
        """A regular expression of the lines that may hold a result, wherever they are in a long output; empty if only the whole is one."""
        return self.lines

    def check(self, declared: DeclaredNumbers) -> None:
        """ValueError for a declaration that the format cannot read."""
        if bool(self.metrics) == bool(declared.numbers):
            own = " or ".join(name for name, one in COMMAND_OUTPUTS.items() if not one.metrics)
            given = "with" if declared.numbers else "without"
            raise ValueError(f"results.format {self.name} {given} metrics; expected metrics with {own} alone")
        if self.has_pattern != (declared.pattern is not None):
            patterns = " or ".join(name for name, one in COMMAND_OUTPUTS.items() if one.has_pattern)
            given = "with" if declared.pattern else "without"
            raise ValueError(f"results.format {self.name} {given} a pattern; expected one with {patterns} alone")

    def output(self, text: str, declared: DeclaredNumbers) -> Output:
        """The numbers in the text, which launchers may have prefixed. UnreadableOutput."""
        try:
            return self.read(without_prefixes(text), declared)
        except UnreadableOutput:
            raise
        except ForeignNumber as error:
            raise UnreadableOutput(f"it has the number {error}") from None
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UnreadableOutput(f"damaged, or of another layout ({type(error).__name__}: {error})") from None


COMMAND_OUTPUTS: Formats[CommandOutput] = Formats(CommandOutput)
"""By the name that `results.format` of a container workload gives."""


def _last(values: Sequence[float]) -> tuple[float | None, int]:
    finite = [value for value in values if math.isfinite(value)]
    return (finite[-1] if finite else None), len(finite)
