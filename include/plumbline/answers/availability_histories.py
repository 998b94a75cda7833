"""What the watches of a provider saw, by month."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from datetime import datetime, timedelta, timezone
from threading import Lock
from typing import get_args
from weakref import WeakKeyDictionary

from plumbline.analysis.availability import (
    REACH,
    AvailabilityHistory,
    availability,
    by_hour_of_week,
    find_outages,
    instant,
    join_answered,
    microseconds,
)
from plumbline.archive import Archive
from plumbline.declarations import Provider
from plumbline.declarations.promises.judging.evidence import maintenance
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.metrics.time_spans import month_span
from plumbline.results.availability_check import AvailabilityCheck

CHECK_KINDS: tuple[WatchKind, ...] = get_args(WatchKind)
_INSTANT = timedelta(microseconds=1)


def availability_histories(
    archive: Archive, provider: Provider, now: datetime, months: int = 3, *, hours: bool = True
) -> tuple[AvailabilityHistory, ...]:
    """What the declared watches of a provider saw in this month and those before it, without declared and logged maintenance.

    `hours`: with the hours of the week, which need every check whole; a promise does not."""
    excluded = maintenance(archive.operations(provider.name), provider.sla, now)
    histories = []
    present = max(now, datetime.now(timezone.utc)) + _INSTANT  # what is dated later, a wrong clock wrote
    for kind in CHECK_KINDS:
        watch = provider.watch.of(kind)
        if watch is None:
            continue
        begins = [month_span(now)[0]]
        while len(begins) < months:
            begins.append(month_span(begins[-1] - timedelta(days=1))[0])
        beside = timedelta(seconds=REACH * watch.every)  # the check before the months and the one after: time is seen between two
        answered, missed = _checks(archive, provider, kind).between(begins[-1] - beside, min(now + beside, present))
        seen = tuple(join_answered(answered, missed, watch.every))
        outages = find_outages(seen, watch.every, excluded)
        judged = tuple(availability(begin, seen, outages, watch.every, now, excluded) for begin in begins)
        whole = archive.availability_checks(provider.name, kind, provider.simulated, (begins[-1], now + _INSTANT)) if hours else ()
        histories.append(AvailabilityHistory(kind, judged, outages[::-1], by_hour_of_week(whole)))
    return tuple(histories)


class _Checks:
    """A provider's checks of one kind as far as they were read: answered ones in microseconds since 1970, and misses."""

    def __init__(self) -> None:
        self.answered: array[int] = array("q")
        self.missed: list[AvailabilityCheck] = []

    @property
    def last(self) -> datetime | None:
        """The newest check; None without one."""
        found = [instant(self.answered[-1])] if self.answered else []
        return max((*found, *(one.at for one in self.missed[-1:])), default=None)

    def between(self, begin: datetime, end: datetime) -> tuple[array[int], list[AvailabilityCheck]]:
        """Answered and missed ones from `begin` to `end` (exclusive)."""
        answered = self.answered[bisect_left(self.answered, microseconds(begin)) : bisect_left(self.answered, microseconds(end))]
        return answered, [one for one in self.missed if begin <= one.at < end]


_KNOWN: WeakKeyDictionary[object, dict[tuple[str, WatchKind, bool], _Checks]] = WeakKeyDictionary()
"""Per archive: a page asks for a year of checks, a hundred thousand rows, of which a few are new since it asked last."""
_LOCK = Lock()


def _checks(archive: Archive, provider: Provider, kind: WatchKind) -> _Checks:
    """All checks of a kind. Only those after the last known one are read, unless checks before it were added or deleted."""
    name = (provider.name, kind, provider.simulated)
    with _LOCK:
        of_archive = _KNOWN.setdefault(archive.engine, {})
    known = of_archive.get(name) or _Checks()  # not under the lock: a long first read must not keep other providers waiting
    if (last := known.last) is not None:
        count = archive.count_availability_checks(*name, (None, last + _INSTANT))
        if count != len(known.answered) + len(known.missed):
            known = _Checks()
    since = None if (last := known.last) is None else last + _INSTANT
    read = _Checks()
    read.answered = known.answered + array("q", map(microseconds, archive.answered_checks(*name, (since, None))))
    read.missed = [*known.missed, *archive.missed_checks(*name, (since, None))]
    of_archive[name] = read
    return read
