"""The operations log against checks of the uptime: where one has an incident and the other an answer, neither proves anything until a person decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from plumbline.declarations.promises.judging.evidence import CheckedMonth, LoggedOperation
from plumbline.metrics.time_spans import TimeSpan


@dataclass(frozen=True)
class ContradictedIncident:
    """An incident that the log says is the provider's, until `ended`, and that checks of the uptime contradict: they saw it as up for `up_s` seconds
    of it."""

    entry: LoggedOperation
    ended: datetime
    up_s: float

    @property
    def logged_s(self) -> float:
        return (self.ended - self.entry.opened).total_seconds()


def contradicted_incidents(
    entries: Iterable[LoggedOperation], months: Iterable[CheckedMonth], now: datetime, confirmed: Collection[str] = ()
) -> tuple[ContradictedIncident, ...]:
    """The provider's incidents during which checks were answered, oldest first. `confirmed`: ids of entries that a person holds to be right.

    An outage shorter than the interval of the checks is not seen by them. So at either end of an incident the time from it to the nearest check
    contradicts nothing, at most one interval.
    """
    checked = sorted((span, month.every_s) for month in months for span in month.up)
    up: list[tuple[TimeSpan, float]] = []
    for (first, last), every in checked:
        if up and first <= up[-1][0][1]:
            up[-1] = ((up[-1][0][0], max(last, up[-1][0][1])), max(every, up[-1][1]))
        else:
            up.append(((first, last), every))
    found = []
    for entry in entries:
        if (entry.kind, entry.whose) == ("incident", "provider") and entry.entry_id not in confirmed:
            ended = entry.solved or now
            seconds = sum(_seen_up((entry.opened, ended), span, timedelta(seconds=every)) for span, every in up)
            if seconds:
                found.append(ContradictedIncident(entry, ended, seconds))
    return tuple(sorted(found, key=lambda one: (one.entry.opened, one.entry.entry_id)))


def _seen_up(incident: TimeSpan, up: TimeSpan, every: timedelta) -> float:
    """Seconds of an incident between answered checks inside it."""
    begin = incident[0] + every if up[0] < incident[0] else up[0]
    end = incident[1] - every if up[1] > incident[1] else up[1]
    return max(0.0, (end - begin).total_seconds())


@dataclass(frozen=True)
class OneIncident:
    """What the log has once or several times: the ids of its entries, and its begin and end, None while one of them is open."""

    entry_ids: tuple[str, ...]
    began: datetime
    ended: datetime | None


def merge_overlapping(logged: Sequence[tuple[str, datetime, datetime | None]], now: datetime) -> tuple[OneIncident, ...]:
    """Incidents as (id, begin, end), those that overlap as one: two people noted it."""
    merged: list[OneIncident] = []
    for name, began, ended in sorted(logged, key=lambda each: (each[1], each[0])):
        last = merged[-1] if merged else None
        if last is not None and began < (last.ended or now):
            until = None if last.ended is None or ended is None else max(last.ended, ended)
            merged[-1] = OneIncident((*last.entry_ids, name), last.began, until)
        else:
            merged.append(OneIncident((name,), began, ended))
    return tuple(merged)
