"""What an exported table is: columns whose names stay, what each holds and in which unit, and how its rows are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from plumbline.analysis.conclusions import Conclusions

ColumnType = Literal["text", "number", "count", "flag", "day"]
Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """`unit_in` names the column that holds the number's unit; `unit`: it is always this one. A number has one of the two."""

    name: str
    holds: ColumnType
    meaning: str
    unit_in: str | None = None
    unit: str | None = None


@dataclass(frozen=True)
class Table:
    """`rows`: each as a mapping of at least the columns' names; numbers unrounded, None where they are not known."""

    meaning: str
    columns: tuple[Column, ...]
    rows: Callable[[Conclusions], Iterable[Row]]


def text(name: str, meaning: str) -> Column:
    return Column(name, "text", meaning)


def number(name: str, meaning: str, *, of: str | None = None, unit: str | None = None) -> Column:
    """`of`: the column with the unit."""
    return Column(name, "number", meaning, of, unit)


def count(name: str, meaning: str) -> Column:
    return Column(name, "count", meaning)


def flag(name: str, meaning: str) -> Column:
    return Column(name, "flag", meaning)


def day(name: str, meaning: str) -> Column:
    return Column(name, "day", meaning)


CAMPAIGN = text("campaign", "campaign id")
PLACE = (
    text("provider", "the provider's name"),
    flag("simulated", "whether the provider is simulated: nothing of it was measured on hardware"),
)
"""Every table with a provider says whether it is one: a row that is taken elsewhere says so too. `tables` fills the flag in."""
KIND = text("kind", "training or inference")
WORKLOAD = text("workload", "the workload's name")
CARD = (CAMPAIGN, KIND, WORKLOAD, count("version", "the workload's version"), *PLACE)
METRIC = (
    text("metric", "the metric's standard name"),
    text("statistic", "p50, p95, median, value, …"),
    text("phase", "the phase it was measured in"),
)
UNIT = text("unit", "unit of the numbers of this row")
N = count("n", "usable repeats that measured it")
TRIALS = text("trials", "ids of the trials behind it, separated by spaces")
SOURCE = text("source", "who says so")
