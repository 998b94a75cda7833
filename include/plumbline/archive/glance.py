"""What pages show of many series at a glance: a page's worth of providers, and of each series its newest campaign, in a fixed number of
statements. Everything is found by indexes; nothing is counted over the whole archive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Engine, and_, or_, select
from sqlalchemy.orm import Session

from plumbline.archive.engine import reading
from plumbline.archive.judgements import Baseline
from plumbline.archive.models import Campaign, Metric, Series, SeriesCampaign, Trial
from plumbline.archive.paging import CampaignHead, Slice
from plumbline.archive.queries import STANDING, USABLE, of_parts, outcomes
from plumbline.archive.views import Outcomes, SeriesView, Source

# Not "in measured or simulated": by an index on the source nearly every series would be read.
OURS = Series.source != "imported"
"""That a series is of what ran here."""


Asked = tuple[str, str, str]
"""(metric, statistic, phase)"""


@dataclass(frozen=True)
class Part:
    """A series in its newest campaign: how its trials ended, whether it has a baseline, and what each usable trial measured."""

    series: SeriesView
    campaign_id: str
    planned_at: datetime
    outcomes: Outcomes
    baseline: bool
    measured: tuple[Mapping[Asked, float], ...]

    def values(self, metric: str, statistic: str, phase: str = "steady") -> tuple[float, ...]:
        """One number of each usable trial that has it."""
        return tuple(own[metric, statistic, phase] for own in self.measured if (metric, statistic, phase) in own)


@dataclass(frozen=True)
class WorkloadName:
    """One version of a workload that was ever run here."""

    kind: str
    workload: str
    version: int


class Glance:
    """Short answers about many series: each method is one transaction."""

    engine: Engine

    def providers_page(self, after: str = "", limit: int = 20) -> Slice[str]:
        """Names of providers with a series of their own, in order; imported results have no provider of ours."""
        query = select(Series.provider).where(Series.provider > after, OURS).distinct()
        with reading(self.engine) as session:
            found = session.scalars(query.order_by(Series.provider).limit(limit + 1)).all()
        return Slice(tuple(found[:limit]), found[limit - 1] if len(found) > limit else None)

    def series_of(self, providers: Sequence[str], kind: str | None = None, workload: str | None = None) -> list[SeriesView]:
        """The series of these providers, imported ones aside, by key."""
        query = select(Series).where(Series.provider.in_(providers), OURS)
        for column, value in ((Series.kind, kind), (Series.workload, workload)):
            if value is not None:
                query = query.where(column == value)
        with reading(self.engine) as session:
            return [_series(row) for row in session.scalars(query.order_by(Series.series_key))]

    def series_page(
        self,
        provider: str | None = None,
        kind: str | None = None,
        workload: str | None = None,
        campaign_id: str | None = None,
        after: str = "",
        limit: int = 50,
    ) -> Slice[SeriesView]:
        """Series by key, of one provider, kind, workload and campaign if asked."""
        query = select(Series).where(Series.series_key > after)
        for column, value in ((Series.provider, provider), (Series.kind, kind), (Series.workload, workload)):
            if value is not None:
                query = query.where(column == value)
        if campaign_id is not None:
            part = and_(SeriesCampaign.series_key == Series.series_key, SeriesCampaign.campaign_id == campaign_id)
            query = query.where(select(SeriesCampaign.series_key).where(part).exists())
        with reading(self.engine) as session:
            found = [_series(row) for row in session.scalars(query.order_by(Series.series_key).limit(limit + 1))]
        return Slice(tuple(found[:limit]), found[limit - 1].series_key if len(found) > limit else None)

    def workload_names(self) -> list[WorkloadName]:
        """Every version of every workload that was run here, training first."""
        query = select(Series.kind, Series.workload, Series.version).where(OURS).distinct()
        with reading(self.engine) as session:
            found = [WorkloadName(*row) for row in session.execute(query)]
        return sorted(found, key=lambda w: (w.kind != "training", w.workload, w.version))

    def providers_of(self, workload: str, after: str = "", limit: int = 20) -> Slice[str]:
        """Providers that ran a workload, by name."""
        query = select(Series.provider).where(Series.workload == workload, Series.provider > after, OURS).distinct()
        with reading(self.engine) as session:
            found = session.scalars(query.order_by(Series.provider).limit(limit + 1)).all()
        return Slice(tuple(found[:limit]), found[limit - 1] if len(found) > limit else None)

    def newest_parts(self, series: Sequence[SeriesView], measured: Sequence[Asked] = ()) -> list[Part]:
        """Each of these series in its newest campaign, in the given order. `measured`: the numbers to hand out."""
        keys = {s.series_key: s for s in series}
        with reading(self.engine) as session:
            newest = _newest(session, list(keys))
            pairs = [(key, campaign) for key, (campaign, _) in newest.items()]
            ended, values = _ended(session, pairs), _values(session, pairs, measured)
            current = select(Baseline.series_key).where(Baseline.series_key.in_(keys), Baseline.superseded_at.is_(None))
            held = set(session.scalars(current.distinct()))
        return [
            Part(one, *newest[key], ended.get(key, Outcomes()), key in held, values.get(key, ()))
            for key, one in keys.items()
            if key in newest
        ]

    def campaigns_page(self, after: str | None = None, limit: int = 20) -> Slice[CampaignHead]:
        """Campaigns, those planned last first. `after`: a campaign's id; LookupError for an unknown one."""
        query = select(Campaign)
        with reading(self.engine) as session:
            if after is not None:
                last = session.get(Campaign, after)
                if last is None:
                    raise LookupError(f'the archive has no campaign "{after}"')
                same_time = and_(Campaign.planned_at == last.planned_at, Campaign.campaign_id < last.campaign_id)
                query = query.where(or_(Campaign.planned_at < last.planned_at, same_time))
            query = query.order_by(Campaign.planned_at.desc(), Campaign.campaign_id.desc()).limit(limit + 1)
            found = [CampaignHead(row.campaign_id, row.reason, row.planned_at) for row in session.scalars(query)]
        return Slice(tuple(found[:limit]), found[limit - 1].campaign_id if len(found) > limit else None)

    def marked(self, campaigns: Sequence[str]) -> dict[str, tuple[Source, ...]]:
        """Of each of these campaigns, which other sources than our own measurements it has: "simulated", "imported"."""
        # From the few such series to their campaigns, not from the campaigns to all their series.
        few = select(Series.series_key).where(Series.source.in_(("simulated", "imported")))
        query = select(SeriesCampaign.campaign_id, Series.source).join(Series, Series.series_key == SeriesCampaign.series_key)
        query = query.where(SeriesCampaign.series_key.in_(few), SeriesCampaign.campaign_id.in_(campaigns)).distinct()
        found: dict[str, set[Source]] = defaultdict(set)
        with reading(self.engine) as session:
            for row in session.execute(query):
                found[row.campaign_id].add(cast(Source, row.source))
        return {campaign: tuple(sorted(found[campaign])) for campaign in campaigns}


def _newest(session: Session, keys: Sequence[str]) -> dict[str, tuple[str, datetime]]:
    newest = (
        select(SeriesCampaign.campaign_id)
        .where(SeriesCampaign.series_key == Series.series_key)
        .order_by(SeriesCampaign.planned_at.desc(), SeriesCampaign.campaign_id.desc())
        .limit(1)
        .correlate(Series)
        .scalar_subquery()
    )
    chosen = select(Series.series_key, newest.label("campaign_id")).where(Series.series_key.in_(keys)).subquery()
    query = select(SeriesCampaign.series_key, SeriesCampaign.campaign_id, SeriesCampaign.planned_at).join(
        chosen, and_(SeriesCampaign.series_key == chosen.c.series_key, SeriesCampaign.campaign_id == chosen.c.campaign_id)
    )
    return {row.series_key: (row.campaign_id, row.planned_at) for row in session.execute(query)}


def _ended(session: Session, pairs: Sequence[tuple[str, str]]) -> dict[str, Outcomes]:
    columns = (Trial.series_key, Trial.slot, Trial.repeat, Trial.attempt, Trial.status, Trial.quality_action)
    attempts: dict[str, list[Any]] = defaultdict(list)
    for row in session.execute(select(*columns).where(of_parts(pairs), STANDING)):
        attempts[row.series_key].append(row)
    return {key: outcomes(rows) for key, rows in attempts.items()}


def _values(session: Session, pairs: Sequence[tuple[str, str]], measured: Sequence[Asked]) -> dict[str, tuple[Mapping[Asked, float], ...]]:
    """Series → what the best usable attempt of each trial measured."""
    if not measured:
        return {}
    of = select(Trial.id, Trial.series_key, Trial.slot, Trial.repeat).where(of_parts(pairs), *USABLE)
    best = {(row.series_key, row.slot, row.repeat): row.id for row in session.execute(of.order_by(Trial.attempt))}
    wanted = or_(*(and_(Metric.metric == m, Metric.statistic == statistic, Metric.phase == phase) for m, statistic, phase in measured))
    query = select(Metric.trial_pk, Metric.metric, Metric.statistic, Metric.phase, Metric.value)
    query = query.where(Metric.trial_pk.in_(best.values()), wanted, Metric.value.is_not(None))
    trials: dict[int, dict[Asked, float]] = {trial: {} for trial in best.values()}
    for row in session.execute(query):
        trials[row.trial_pk][row.metric, row.statistic, row.phase] = row.value
    found: dict[str, tuple[Mapping[Asked, float], ...]] = {}
    for (key, *_), trial in sorted(best.items(), key=lambda item: item[1]):
        found[key] = (*found.get(key, ()), trials[trial])
    return found


def _series(row: Series) -> SeriesView:
    return SeriesView(**{name: getattr(row, name) for name in SeriesView.__dataclass_fields__})
