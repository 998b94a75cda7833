"""What promises are judged by, and the terms that several of them read.

Rooms above collect it: launches and repeats from trials, entries of the operations log, and what checks between campaigns saw. The protocols here
name what a promise reads of each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from plumbline.declarations.workloads.workload import Criterion
from plumbline.metrics.pooling import PooledMetric
from plumbline.metrics.proportions import Proportion
from plumbline.metrics.time_spans import TimeSpan


class Window(Protocol):
    """Declared maintenance."""

    @property
    def since(self) -> datetime: ...
    @property
    def until(self) -> datetime: ...


class SharedTerms(Protocol):
    """Terms of `sla` that several promises share. `credit`: the share of a month's bill."""

    @property
    def maintenance(self) -> Sequence[Window]: ...
    @property
    def credit(self) -> float | None: ...


class LoggedOperation(Protocol):
    """An entry of the operations log. `kind`, `whose`: as of `results.operations`."""

    @property
    def entry_id(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def reference(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def whose(self) -> str: ...
    @property
    def opened(self) -> datetime: ...
    @property
    def answered(self) -> datetime | None: ...
    @property
    def solved(self) -> datetime | None: ...
    @property
    def noted_at(self) -> datetime | None: ...


Whose = Literal["provider", "operator", "unproven"]
"""Whose fault misses are."""


OUTAGE_MISSES = 3
"""Misses in a row that are an outage."""


@dataclass(frozen=True)
class Outage:
    """Misses in a row. `began`: the first miss; `ended`: the first answer, None while it lasts. `cause`: its most frequent failure class; `detail`:
    of its first miss. Where checks stopped, `ended` is an interval after its last miss, and `answered` False: the rest was not seen."""

    began: datetime
    ended: datetime | None
    whose: Whose
    cause: str
    detail: str
    misses: int
    answered: bool = True

    @property
    def recovery_s(self) -> float | None:
        return None if self.ended is None or not self.answered else (self.ended - self.began).total_seconds()


class CheckedMonth(Protocol):
    """What checks of the uptime saw in a calendar month; see `analysis.availability.Availability`."""

    @property
    def share(self) -> Proportion: ...
    @property
    def up(self) -> Sequence[TimeSpan]: ...
    @property
    def single(self) -> Sequence[TimeSpan]: ...
    @property
    def single_proven_s(self) -> float: ...
    @property
    def own(self) -> Mapping[str, int]: ...
    @property
    def unproven(self) -> int: ...
    @property
    def checked(self) -> bool: ...
    @property
    def every_s(self) -> float: ...


class CapacityChecks(Protocol):
    """What checks of the capacity saw."""

    @property
    def share(self) -> Proportion: ...
    @property
    def outages(self) -> Sequence[Outage]: ...


def no_repeats(workload: str, criterion: Criterion) -> Sequence[tuple[str, float]]:
    """Of a provider without trials."""
    return ()


@dataclass(frozen=True)
class PromiseEvidence:
    """What was measured and noted of one provider until `now`.

    `ended`: launches by failure class, None for those that did not fail. `lead_times`: request to running process, in seconds. `repeats`: (trial,
    value) of the newest repeats of what a criterion limits, by workload. `log`: of operations. `outages`: those that checks of the uptime found to be
    the provider's, without those that the log says are ours. `months`: what these checks saw, by a month's begin. `capacity`: None without checks of
    it. `confirmed`: ids of the log's incidents that a person holds to be right where checks contradict them.
    """

    now: datetime
    ended: Mapping[str | None, int]
    lead_times: PooledMetric
    repeats: Callable[[str, Criterion], Sequence[tuple[str, float]]] = no_repeats
    log: Sequence[LoggedOperation] = ()
    outages: Sequence[Outage] = ()
    months: Mapping[datetime, CheckedMonth] = field(default_factory=dict)
    capacity: CapacityChecks | None = None
    confirmed: Collection[str] = ()


def provider_outages(outages: Iterable[Outage], entries: Sequence[LoggedOperation], now: datetime) -> tuple[Outage, ...]:
    """Outages that checks found to be the provider's, without those that the log says are ours."""
    return tuple(o for o in outages if o.whose == "provider" and not is_logged(o, entries, ("us",), now))


def is_logged(outage: Outage, entries: Iterable[LoggedOperation], whose: tuple[str, ...], now: datetime) -> bool:
    """Whether the log has an incident of theirs at that time."""
    incidents = (e for e in entries if e.kind == "incident" and e.whose in whose)
    return any(e.opened < (outage.ended or now) and outage.began < (e.solved or now) for e in incidents)


def excuses_nothing(entry: LoggedOperation) -> bool:
    """Whether an entry is maintenance that was noted after it began, or widened then, without a source: any outage could be named so afterwards."""
    late = entry.noted_at is not None and entry.noted_at > entry.opened
    return entry.kind == "maintenance" and late and not entry.reference.strip()


def maintenance(entries: Iterable[LoggedOperation], terms: SharedTerms, now: datetime) -> tuple[TimeSpan, ...]:
    """The provider's maintenance as declared and as logged; until now where its end is not known. What `excuses_nothing` is left out."""
    logged = ((e.opened, e.solved or now) for e in entries if e.kind == "maintenance" and e.whose != "us" and not excuses_nothing(e))
    return (*((window.since, window.until) for window in terms.maintenance), *logged)
