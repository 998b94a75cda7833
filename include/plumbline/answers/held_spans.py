"""When trials held a provider."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone

from plumbline.analysis.cost.invoice import (
    HeldSpan,
)
from plumbline.analysis.document_sample import held_seconds
from plumbline.analysis.prices.book import paid_of
from plumbline.archive import Archive
from plumbline.declarations import Provider


def held_spans(archive: Archive, provider: str, since: date, place: Provider | None = None) -> Iterator[HeldSpan]:
    """What trials held a provider since that day (UTC), and in the month before. `place`: as declared today, of which a trial that rents GPUs
    holds a part of each instance; all of them without it."""
    for attempt, document in archive.held_since(provider, datetime.combine(since, time(), timezone.utc) - timedelta(days=31)):
        start, seconds = attempt.started_at or attempt.planned_at, held_seconds(document) if document is not None else None
        if seconds and document is not None:
            end = start + timedelta(seconds=seconds / document.trial.workload.nodes)
            part = None if place is None else paid_of(place, document.trial.workload.gpus)
            yield HeldSpan(attempt.trial_id, provider, start, end, seconds / 3600 * (1.0 if part is None else part.fraction))
