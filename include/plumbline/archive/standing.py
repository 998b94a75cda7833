"""What stands now: of every series the newest campaign that left usable numbers, and the attempts in it.

Two kinds of statement, whatever the archive's size: each series finds its campaign by an index, and only that campaign's trials are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TypeVar, cast

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from plumbline.archive.models import Document, Series, SeriesCampaign, Trial
from plumbline.archive.queries import STANDING, USABLE, of_parts
from plumbline.archive.views import Action, SeriesView
from plumbline.results import Reason

T = TypeVar("T")
_BATCH = 500
"""Of what one statement names: databases take some thousands of values."""


@dataclass(frozen=True)
class NewestView:
    """A series with the newest campaign in which a trial of it is usable, and the time for which that was planned."""

    series: SeriesView
    campaign_id: str
    planned_at: datetime


@dataclass(frozen=True)
class AttemptView:
    """One attempt that no correction replaced, with what the quality checks said. `checksum`: of its document, which `contents` reads."""

    trial_pk: int
    trial_id: str
    attempt: int
    series_key: str
    quality_action: Action
    quality_reasons: tuple[Reason, ...]
    checksum: str


def newest_usable(session: Session, workloads: Collection[str] | None = None, providers: Collection[str] | None = None) -> list[NewestView]:
    """Every series that has a usable trial, by key, with its newest such campaign; of these workloads and providers if named. Imported ones
    are left out."""
    of = aliased(SeriesCampaign)
    usable = select(Trial.id).where(Trial.series_key == of.series_key, Trial.campaign_id == of.campaign_id, *USABLE).exists()
    newest = (
        select(of.campaign_id)
        .where(of.series_key == Series.series_key, usable)
        .order_by(of.planned_at.desc(), of.campaign_id.desc())
        .limit(1)
        .correlate(Series)
        .scalar_subquery()
    )
    query = select(Series, newest.label("campaign_id")).where(Series.source != "imported").order_by(Series.series_key)
    if workloads is not None:
        query = query.where(Series.workload.in_(workloads))
    if providers is not None:
        query = query.where(Series.provider.in_(providers))
    found = [(_series(row[0]), cast(str, row.campaign_id)) for row in session.execute(query) if row.campaign_id is not None]
    planned: dict[tuple[str, str], datetime] = {}
    for pairs in _batches([(series.series_key, campaign) for series, campaign in found]):
        key = (SeriesCampaign.series_key, SeriesCampaign.campaign_id)
        chosen = (
            SeriesCampaign.series_key.in_({key for key, _ in pairs}),
            SeriesCampaign.campaign_id.in_({campaign for _, campaign in pairs}),
        )
        planned |= {
            (row.series_key, row.campaign_id): row.planned_at
            for row in session.execute(select(*key, SeriesCampaign.planned_at).where(*chosen))
        }
    return [NewestView(series, campaign, planned[series.series_key, campaign]) for series, campaign in found]


def measured_anything(session: Session) -> bool:
    """Whether any series is of our own measurements."""
    return session.scalars(select(Series.series_key).where(Series.source == "measured").limit(1)).first() is not None


def attempts(session: Session, parts: Sequence[NewestView]) -> list[AttemptView]:
    """All attempts of these series in these campaigns, failed ones too, by trial and attempt."""
    found = []
    for pairs in _batches([(part.series.series_key, part.campaign_id) for part in parts]):
        columns = (Trial.id, Trial.trial_id, Trial.attempt, Trial.series_key, Trial.quality_action, Trial.quality_reasons, Trial.checksum)
        query = select(*columns).where(of_parts(pairs), STANDING)
        found += [
            AttemptView(
                row.id, row.trial_id, row.attempt, row.series_key, row.quality_action,
                tuple(Reason(**r) for r in row.quality_reasons), row.checksum,
            )
            for row in session.execute(query)
        ]  # fmt: skip
    return sorted(found, key=lambda a: (a.trial_id, a.attempt))


def contents(session: Session, trial_pks: Sequence[int]) -> Iterator[tuple[int, str]]:
    """(row number, result document as JSON) of attempts, a batch at a time: together they may be large."""
    for batch in _batches(trial_pks):
        for row in session.execute(select(Document.trial_pk, Document.content).where(Document.trial_pk.in_(batch))):
            yield row.trial_pk, row.content


def _series(row: Series) -> SeriesView:
    return SeriesView(**{name: getattr(row, name) for name in SeriesView.__dataclass_fields__})


def _batches(of: Sequence[T]) -> Iterator[list[T]]:
    rest = iter(of)
    while batch := list(islice(rest, _BATCH)):
        yield batch
