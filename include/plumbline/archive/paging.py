"""A page's worth of rows at a time, found by an index and cut by a key, never by an offset: as fast at the end as at the beginning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import Engine, and_, func, or_, select
from sqlalchemy.orm import Session

from plumbline.archive.engine import reading
from plumbline.archive.findings import UNSETTLED, view_of
from plumbline.archive.judgements import AuditEntry, Decision, Finding, Price
from plumbline.archive.models import Campaign, Metric, Series, SeriesCampaign, Trial
from plumbline.archive.observations import PriceReadingView
from plumbline.archive.observed import PriceReading
from plumbline.archive.queries import STANDING, USABLE, outcomes, trial_view
from plumbline.archive.records import DecisionView, FindingKind, FindingState, FindingView, Severity
from plumbline.archive.views import Outcomes, SeriesView, TrialView

T = TypeVar("T")
MOST_ROWS = 2**31 - 1
"""What the column that numbers rows can hold."""
STILL_STANDING = 500
"""So many findings that wait for somebody are looked through for those that a campaign showed again."""


@dataclass(frozen=True)
class Slice(Generic[T]):
    """Some rows, and where the next ones begin: `after` is to be handed in for them, None where these are the last."""

    rows: tuple[T, ...]
    after: str | None


@dataclass(frozen=True)
class CampaignHead:
    """What a campaign was planned as."""

    campaign_id: str
    reason: str
    planned_at: datetime


@dataclass(frozen=True)
class SeriesOutcome:
    """One series' part of a campaign: how its trials ended, and by metric what its usable trials measured in the steady phase."""

    series: SeriesView
    outcomes: Outcomes
    values: dict[str, tuple[float, ...]]


class Paging:
    """Lists that may be long, a page at a time: each method is one transaction."""

    engine: Engine

    def campaign_head(self, campaign_id: str) -> CampaignHead | None:
        """The campaign's own row; None if there is none of that id."""
        with reading(self.engine) as session:
            row = session.get(Campaign, campaign_id)
            return None if row is None else CampaignHead(row.campaign_id, row.reason, row.planned_at)

    def campaign_series(
        self, campaign_id: str, measured: Sequence[tuple[str, str]] = (), after: str | None = None, limit: int = 25
    ) -> Slice[SeriesOutcome]:
        """Series that took part in a campaign, by key. `measured`: (metric, statistic) to hand out, of the steady phase."""
        with reading(self.engine) as session:
            own = select(SeriesCampaign.series_key).where(SeriesCampaign.campaign_id == campaign_id)
            if after is not None:
                own = own.where(SeriesCampaign.series_key > after)
            keys = session.scalars(own.order_by(SeriesCampaign.series_key).limit(limit + 1)).all()
            shown = keys[:limit]
            found = {s.series_key: s for s in session.scalars(select(Series).where(Series.series_key.in_(shown)))}
            ended, values = _ended(session, campaign_id, shown), _values(session, campaign_id, shown, measured)
            names = SeriesView.__dataclass_fields__
            rows = [
                SeriesOutcome(SeriesView(**{n: getattr(found[key], n) for n in names}), ended.get(key, Outcomes()), values.get(key, {}))
                for key in shown
            ]
            return Slice(tuple(rows), shown[-1] if len(keys) > limit else None)

    def trials_page(
        self, campaign_id: str | None = None, series_key: str | None = None, after: str | None = None, limit: int = 50
    ) -> Slice[TrialView]:
        """Attempts in the order in which they were recorded, of one campaign and one series if asked. ValueError for an `after` that is no number."""
        query = select(Trial, Series, ~STANDING).join(Series, Series.series_key == Trial.series_key)
        if campaign_id is not None:
            query = query.where(Trial.campaign_id == campaign_id)
        if series_key is not None:
            query = query.where(Trial.series_key == series_key)
        if after is not None:
            row = int(after)
            if not 0 <= row <= MOST_ROWS:  # a number that no column holds is an error of the database, not an empty page
                raise ValueError(f"{row} is no trial's row; expected the `after` of the page before")
            query = query.where(Trial.id > row)
        with reading(self.engine) as session:
            rows = session.execute(query.order_by(Trial.id).limit(limit + 1)).all()
            shown = tuple(trial_view(trial, series, corrected) for trial, series, corrected in rows[:limit])
            return Slice(shown, str(rows[limit - 1][0].id) if len(rows) > limit else None)

    def provider_names(self) -> tuple[str, ...]:
        """Every provider that there is a series of, by name."""
        with reading(self.engine) as session:
            return tuple(session.scalars(select(Series.provider).distinct().order_by(Series.provider)))

    def findings_page(
        self,
        state: FindingState | None = None,
        kind: FindingKind | None = None,
        severity: Severity | None = None,
        provider: str | None = None,
        after: str | None = None,
        limit: int = 25,
    ) -> Slice[FindingView]:
        """Findings, newest first, of one state, kind, severity and provider if asked. `after`: a finding's id; LookupError for an unknown one."""
        query = select(Finding)
        for column, value in ((Finding.state, state), (Finding.kind, kind), (Finding.severity, severity), (Finding.provider, provider)):
            if value is not None:
                query = query.where(column == value)
        with reading(self.engine) as session:
            if after is not None:
                last = session.get(Finding, after)
                if last is None:
                    raise LookupError(f'the archive has no finding "{after}"')
                same_time = and_(Finding.opened_at == last.opened_at, Finding.finding_id > last.finding_id)
                query = query.where(or_(Finding.opened_at < last.opened_at, same_time))
            rows = session.scalars(query.order_by(Finding.opened_at.desc(), Finding.finding_id).limit(limit + 1)).all()
            shown = tuple(view_of(row) for row in rows[:limit])
            return Slice(shown, shown[-1].finding_id if len(rows) > limit else None)

    def findings_shown_by(self, campaign_id: str, limit: int) -> tuple[FindingView, ...]:
        """Findings that a campaign opened, and those that wait for somebody which it showed again; newest first, at most `limit`."""
        order = (Finding.opened_at.desc(), Finding.finding_id)
        opened = select(Finding).where(Finding.campaign_id == campaign_id).order_by(*order).limit(limit)
        standing = select(Finding).where(Finding.state.in_(UNSETTLED)).order_by(*order).limit(STILL_STANDING)
        with reading(self.engine) as session:
            views = {row.finding_id: view_of(row) for query in (opened, standing) for row in session.scalars(query)}
        shown = [view for view in views.values() if view.shown_by(campaign_id)]
        return tuple(sorted(shown, key=lambda v: (-v.opened_at.timestamp(), v.finding_id))[:limit])

    def newest_readings(self, providers: Sequence[str]) -> tuple[PriceReadingView, ...]:
        """The newest reading of each kind of purchase of these providers."""
        of = (PriceReading.provider, PriceReading.purchase)
        newest = (
            select(*of, func.max(PriceReading.observed_at).label("at")).where(PriceReading.provider.in_(providers)).group_by(*of).subquery()
        )
        same = (PriceReading.provider == newest.c.provider) & (PriceReading.purchase == newest.c.purchase)
        query = select(PriceReading).join(newest, same & (PriceReading.observed_at == newest.c.at)).order_by(PriceReading.reading_id)
        names = PriceReadingView.__dataclass_fields__
        with reading(self.engine) as session:
            return tuple(PriceReadingView(**{name: getattr(row, name) for name in names}) for row in session.scalars(query))

    def as_of(self) -> tuple[int, int, int]:
        """What grows with everything that a decision can rest on: the newest trial's row, the newest entry of the audit log, the number of prices.
        The same again: so is every decision."""
        counted = (func.max(Trial.id), func.max(AuditEntry.id), func.count(Price.price_id))
        with reading(self.engine) as session:
            trial, entry, prices = (session.scalar(select(each)) or 0 for each in counted)
            return trial, entry, prices

    def decisions_page(
        self, team: str | None = None, kind: str | None = None, after: str | None = None, limit: int = 25
    ) -> Slice[DecisionView]:
        """Stored decisions, newest first. `after`: a decision's id; LookupError for an unknown one."""
        query = select(Decision)
        for column, value in ((Decision.team, team), (Decision.kind, kind)):
            if value is not None:
                query = query.where(column == value)
        with reading(self.engine) as session:
            if after is not None:
                last = session.get(Decision, after)
                if last is None:
                    raise LookupError(f'the archive has no decision "{after}"')
                same_time = and_(Decision.decided_at == last.decided_at, Decision.decision_id > last.decision_id)
                query = query.where(or_(Decision.decided_at < last.decided_at, same_time))
            rows = session.scalars(query.order_by(Decision.decided_at.desc(), Decision.decision_id).limit(limit + 1)).all()
            names = DecisionView.__dataclass_fields__
            shown = tuple(DecisionView(**{name: getattr(row, name) for name in names}) for row in rows[:limit])
            return Slice(shown, shown[-1].decision_id if len(rows) > limit else None)


def _ended(session: Session, campaign_id: str, keys: Sequence[str]) -> dict[str, Outcomes]:
    columns = (Trial.series_key, Trial.slot, Trial.repeat, Trial.attempt, Trial.status, Trial.quality_action)
    attempts: dict[str, list[Any]] = defaultdict(list)
    for row in session.execute(select(*columns).where(Trial.series_key.in_(keys), Trial.campaign_id == campaign_id, STANDING)):
        attempts[row.series_key].append(row)
    return {key: outcomes(rows) for key, rows in attempts.items()}


def _values(
    session: Session, campaign_id: str, keys: Sequence[str], measured: Sequence[tuple[str, str]]
) -> dict[str, dict[str, tuple[float, ...]]]:
    """Series → metric → what the best usable attempt of each trial measured."""
    if not measured:
        return {}
    of = select(Trial.id, Trial.series_key, Trial.slot, Trial.repeat).where(Trial.series_key.in_(keys), Trial.campaign_id == campaign_id)
    best = {(row.series_key, row.slot, row.repeat): row.id for row in session.execute(of.where(*USABLE).order_by(Trial.attempt))}
    series_of = {trial: key for (key, *_), trial in best.items()}
    wanted = or_(*(and_(Metric.metric == metric, Metric.statistic == statistic) for metric, statistic in measured))
    query = select(Metric.trial_pk, Metric.metric, Metric.value).where(Metric.trial_pk.in_(series_of), Metric.phase == "steady", wanted)
    found: dict[str, dict[str, tuple[float, ...]]] = defaultdict(dict)
    for row in session.execute(query.where(Metric.value.is_not(None)).order_by(Metric.trial_pk)):
        own = found[series_of[row.trial_pk]]
        own[row.metric] = (*own.get(row.metric, ()), row.value)
    return found
