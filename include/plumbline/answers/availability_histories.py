"""What the watches of a provider saw, by month."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import get_args

from plumbline.analysis.availability import REACH, AvailabilityHistory, availability, by_hour_of_week, find_outages
from plumbline.archive import Archive
from plumbline.declarations import Provider
from plumbline.declarations.promises.judging.evidence import maintenance
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.metrics.time_spans import month_span

CHECK_KINDS: tuple[WatchKind, ...] = get_args(WatchKind)


def availability_histories(archive: Archive, provider: Provider, now: datetime, months: int = 3) -> tuple[AvailabilityHistory, ...]:
    """What the declared watches of a provider saw in this month and those before it, without declared and logged maintenance."""
    excluded = maintenance(archive.operations(provider.name), provider.sla, now)
    histories = []
    for kind in CHECK_KINDS:
        watch = provider.watch.of(kind)
        if watch is None:
            continue
        begins = [month_span(now)[0]]
        while len(begins) < months:
            begins.append(month_span(begins[-1] - timedelta(days=1))[0])
        beside = timedelta(seconds=REACH * watch.every)  # the check before the months and the one after: time is seen between two
        seen = archive.availability_checks(provider.name, kind, provider.simulated, (begins[-1] - beside, now + beside))
        outages = find_outages(seen, watch.every, excluded)
        judged = tuple(availability(begin, seen, outages, watch.every, now, excluded) for begin in begins)
        histories.append(AvailabilityHistory(kind, judged, outages[::-1], by_hour_of_week(o for o in seen if begins[-1] <= o.at <= now)))
    return tuple(histories)
