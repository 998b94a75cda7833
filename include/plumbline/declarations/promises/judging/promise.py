"""What every promise says of itself. A promise is one file of the folder above with one class, under `@register`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from plumbline.declarations.promises.judging.evidence import PromiseEvidence, SharedTerms
from plumbline.declarations.promises.judging.row import PrintedAmount, PromiseRow, format_seconds
from plumbline.metrics.formatting import format_limit
from plumbline.metrics.time_spans import TimeSpan, month_span

Source = Literal["launches", "repeats", "log", "checks", "months"]
"""What shows it: launches or repeats of trials, entries of the operations log, checks between campaigns, or both in a calendar month."""
SOURCES: tuple[Source, ...] = get_args(Source)
"""In the order of the rows that they show."""
Value = TypeVar("Value")
Place = tuple[str, ...]
"""Of a value in a declaration: its keys from outside in."""


class Promise(ABC, Generic[Value]):
    """One promise. The defaults are those of a share or a time whose breach earns the contract's credit.

    `fields`: of `sla`, by name, each its type and default as of pydantic's `create_model`; the one called `id` is the promise itself.
    """

    id: ClassVar[str]
    fields: ClassVar[Mapping[str, tuple[Any, Any]]]
    order: ClassVar[int] = 1000
    """Its place in lists; a promise without one comes last."""
    noun: ClassVar[str]
    unit: ClassVar[Literal["ratio", "s"]] = "ratio"
    claimed_with: ClassVar[Literal["reliability", "performance"]] = "reliability"
    """The kind of findings that it is claimed with."""
    credits: ClassVar[str] = ""
    """Its own field of credits; empty of a promise whose breach earns `credit`."""
    checked: ClassVar[bool] = False
    """Whether checks between campaigns bear on it."""
    in_trials: ClassVar[bool] = False
    """Whether documents of trials carry it, as those of the first harness did."""

    @staticmethod
    def term(terms: SharedTerms, name: str) -> Any:
        """A further field of its own."""
        return getattr(terms, name)

    @classmethod
    def promised(cls, terms: SharedTerms) -> Value | None:
        """The declared value, a share or seconds; None without one."""
        value: Value | None = getattr(terms, cls.id)
        return value

    def declared(self, terms: SharedTerms) -> list[str]:
        """What a contract promises, such as `availability 99.9 %`; empty if nothing."""
        value: Any = self.promised(terms)
        return [] if value is None else [f"{self.noun} {format_limit(value) if self.unit == 'ratio' else format_seconds(value)}"]

    def check(self, terms: SharedTerms) -> None:
        """ValueError for terms that contradict each other."""

    def never_shown(self, terms: SharedTerms, every_s: Mapping[str, float]) -> str:
        """Why checks at the declared intervals can never show it kept, and which could; else empty. `every_s`: kind of check → seconds."""
        return ""

    def workloads(self, terms: SharedTerms) -> list[tuple[Place, str]]:
        """Workloads that it names, each with its place in `sla`."""
        return []

    @abstractmethod
    def judge(self, terms: SharedTerms, seen: PromiseEvidence) -> Iterable[JudgedPromise]:
        """The promise against what was measured: no row, one, or one for each month or workload. A row without a promise shows the measurement."""


@dataclass(frozen=True)
class JudgedPromise:
    """A promise beside what was measured. `row`: in words. `month`: the begin of the month that it is of alone, None of one without an end.
    `workload`: the one that it is of, if any. `grants`: the share of a month's bill that its breach earns, None where none is declared. `lapsed`:
    whether it is too late to claim that."""

    promise: Promise[Any]
    row: PromiseRow
    source: Source
    grants: float | None
    month: datetime | None = None
    workload: str = ""
    lapsed: bool = False

    @property
    def broken(self) -> bool:
        return self.row.verdict == "broken"

    @property
    def shown_by_trials(self) -> bool:
        return self.source in ("launches", "repeats")

    def billed(self, now: datetime) -> TimeSpan:
        """The month whose bill its credit is a share of: its own, or that of its last breach; of a breach without a date the present one."""
        return month_span(self.month or self.row.last or now)

    def last_day(self, within_s: float | None, now: datetime) -> date | None:
        """The last day on which it can be claimed, `within_s` after the month; None where the contract's term is not declared."""
        return None if within_s is None else (self.billed(now)[1] + timedelta(seconds=within_s) - timedelta(microseconds=1)).date()

    def credited(self, money: PrintedAmount | None) -> JudgedPromise:
        """With its credit, in USD if that is known; the same unless it is broken and grants one."""
        return self if self.grants is None or not self.broken else replace(self, row=self.row.granting(self.grants, money))


REGISTERED: list[Promise[Any]] = []
_Kind = TypeVar("_Kind", bound=type[Promise[Any]])


def register(made: _Kind) -> _Kind:
    """Add a promise. ValueError if it does not declare its own field, or if it declares another promise's otherwise."""
    if made.id not in made.fields:
        raise ValueError(f"the promise {made.id} declares {', '.join(made.fields) or 'no field'}; expected a field {made.id}")
    for known in REGISTERED:
        if taken := [name for name, field in made.fields.items() if known.fields.get(name, field) is not field]:
            raise ValueError(f"the promise {made.id} declares {', '.join(taken)} of the promise {known.id}; expected fields of its own")
    REGISTERED.append(made())
    return made
