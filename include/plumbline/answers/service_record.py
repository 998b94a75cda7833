"""Read what checks between campaigns and the operations log show of providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta, timezone

from plumbline.analysis.service_record import ServiceRecord, service_record
from plumbline.answers.availability_histories import availability_histories
from plumbline.archive import Archive
from plumbline.declarations import Provider
from plumbline.declarations.promises.judging.evidence import maintenance
from plumbline.metrics.time_spans import month_span

_YEAR = timedelta(days=365)
_INSTANT = timedelta(microseconds=1)


def service_records(archive: Archive, providers: Mapping[str, Provider], days: Iterable[date]) -> dict[str, ServiceRecord]:
    """By name, the providers that are watched or in the operations log, in the months from the first of these days to the last; this month
    without days."""
    now = datetime.now(timezone.utc)
    covered = sorted(days) or [now.date()]
    first, last = (month_span(datetime.combine(day, time(), timezone.utc)) for day in (covered[0], covered[-1]))
    until, months = min(now, last[1] - _INSTANT), 12 * (last[0].year - first[0].year) + last[0].month - first[0].month + 1
    records = {}
    for name, provider in sorted(providers.items()):
        watches = availability_histories(archive, provider, until, months)
        log = [e for e in archive.operations(name) if until - _YEAR < e.opened <= until]
        if watches or log:
            records[name] = service_record(watches, log, maintenance(log, provider.sla, until))
    return records
