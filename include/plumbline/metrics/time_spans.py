"""Spans of time: calendar months, and what is left of spans without others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone

TimeSpan = tuple[datetime, datetime]
"""Begin and end (exclusive)."""


def month_span(at: datetime) -> TimeSpan:
    """The calendar month (UTC) that an instant lies in."""
    begin = at.astimezone(timezone.utc).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return begin, (begin + timedelta(days=32)).replace(day=1)


def total_s(spans: Iterable[TimeSpan]) -> float:
    """Seconds of disjoint spans."""
    return sum((end - begin for begin, end in spans), timedelta()).total_seconds()


def without(spans: Sequence[TimeSpan], holes: Iterable[TimeSpan]) -> list[TimeSpan]:
    """What the holes leave of disjoint spans."""
    left = list(spans)
    for first, last in holes:
        parts = [part for begin, end in left for part in ((begin, min(end, first)), (max(begin, last), end))] if last > first else left
        left = [(begin, end) for begin, end in parts if begin < end]
    return left


def month_end(at: datetime, now: datetime) -> datetime:
    """The last instant of the month that `at` lies in; `now` where that is to come."""
    return min(now, month_span(at)[1] - timedelta(microseconds=1))


def day_is_over(last_day: date | None, today: date) -> bool:
    """Whether the last day of a term has passed; never where there is no term. The one place that says so of a claim."""
    return last_day is not None and today > last_day
