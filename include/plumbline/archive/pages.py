"""Paged queries for the dashboard and its API. Rows are found by index and paged by key, never by offset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.orm import Session

from plumbline.archive.findings import finding_view, providers_in, seen_since
from plumbline.archive.records import (
    Outcomes,
    PriceReadingView,
    SeriesView,
    Source,
    TrialView,
)
from plumbline.archive.repository import Slice, Span, cut, page_after, view_of, where_equal, where_within
from plumbline.archive.samples import newest_campaigns
from plumbline.archive.schema import (
    AuditEntry,
    Baseline,
    Campaign,
    Decision,
    Finding,
    Metric,
    Price,
    PriceReading,
    Series,
    SeriesCampaign,
    Trial,
)
from plumbline.archive.trials import EFFECTIVE, USABLE, in_series_campaigns, outcomes_by, trial_view
from plumbline.declarations.purposes import Purpose
from plumbline.results.finding import FLEET, OPEN_STATES, FindingKind, FindingState, Severity
from plumbline.results.sample import no_usable_trial
from plumbline.results.stored import DecisionView, FindingView

MAX_ROW_ID = 2**31 - 1
"""The largest value of the column that numbers rows."""
MAX_SEARCHED_FINDINGS = 500
"""The most open findings, and the most settled ones, that are searched for those that a campaign showed again."""


@dataclass(frozen=True)
class CampaignHead:
    """A campaign's row: its plan."""

    campaign_id: str
    reason: str
    planned_at: datetime
    purpose: Purpose


@dataclass(frozen=True)
class SeriesOutcome:
    """One series' part of a campaign: how its trials ended, and by metric what its usable trials measured in the steady phase. `unusable`: why
    none is usable, empty where one is."""

    series: SeriesView
    outcomes: Outcomes
    values: dict[str, tuple[float, ...]]
    unusable: str


def campaign_head(session: Session, campaign_id: str) -> CampaignHead | None:
    """The campaign's own row; None if there is none of that id."""
    row = session.get(Campaign, campaign_id)
    return None if row is None else view_of(CampaignHead, row)


def campaign_series(
    session: Session,
    campaign_id: str,
    measured: Sequence[tuple[str, str]] = (),
    after: str | None = None,
    limit: int = 25,
    *,
    keys: Collection[str] | None = None,
) -> Slice[SeriesOutcome]:
    """Series that took part in a campaign, by key, or those of `keys`. `measured`: (metric, statistic) to hand out, of the steady phase."""
    own = select(SeriesCampaign.series_key).where(SeriesCampaign.campaign_id == campaign_id)
    own = where_equal(own, (SeriesCampaign.series_key, keys))
    if after is not None:
        own = own.where(SeriesCampaign.series_key > after)
    known = session.scalars(own.order_by(SeriesCampaign.series_key).limit(limit + 1)).all()
    page = known[:limit]
    by_key = {s.series_key: s for s in session.scalars(select(Series).where(Series.series_key.in_(page)))}
    pairs = [(key, campaign_id) for key in page]
    ended = outcomes_by(session, Trial.series_key, in_series_campaigns(pairs))
    values = _steady_values(session, pairs, measured)
    why = _why_unusable(session, pairs, ended)

    def outcome(key: str) -> SeriesOutcome:
        return SeriesOutcome(view_of(SeriesView, by_key[key]), ended.get(key, Outcomes()), values.get(key, {}), why.get(key, ""))

    return cut(known, limit, str, outcome)


def trials_page(
    session: Session,
    campaign_id: str | None = None,
    series_key: str | None = None,
    after: str | None = None,
    limit: int = 50,
    *,
    keys: Collection[str] | None = None,
) -> Slice[TrialView]:
    """Attempts in the order in which they were recorded, of one campaign and one series, or the series of `keys`, if asked. ValueError for
    an `after` that is not a number."""
    query = select(Trial, Series, ~EFFECTIVE).join(Series, Series.series_key == Trial.series_key)
    query = where_equal(query, (Trial.campaign_id, campaign_id), (Trial.series_key, series_key), (Trial.series_key, keys))
    if after is not None:
        row = int(after)
        if not 0 <= row <= MAX_ROW_ID:  # a number that no column holds is an error of the database, not an empty page
            raise ValueError(f"{row} is not the row of a trial; expected the `after` of the previous page")
        query = query.where(Trial.id > row)
    rows = session.execute(query.order_by(Trial.id).limit(limit + 1)).all()
    return cut(rows, limit, lambda row: row[0].id, lambda row: trial_view(*row))


def provider_names(session: Session) -> tuple[str, ...]:
    """Every provider with a series of its own, by name; imported results have no provider of ours."""
    return tuple(session.scalars(select(Series.provider).where(NOT_IMPORTED).distinct().order_by(Series.provider)))


def findings_page(
    session: Session,
    state: FindingState | tuple[FindingState, ...] | None = None,
    kind: FindingKind | None = None,
    severity: Severity | None = None,
    provider: str | None = None,
    after: str | None = None,
    limit: int = 25,
    *,
    providers: Collection[str] | None = None,
    between: Span = (None, None),
) -> Slice[FindingView]:
    """Findings, newest first, of one state or several, of a kind, severity and provider if asked; of these providers, and opened in a span. A shared
    cause is of each provider that has it. `after`: a finding's id; LookupError for an unknown one."""
    query = where_equal(select(Finding), (Finding.state, state), (Finding.kind, kind), (Finding.severity, severity))
    query = where_within(query, Finding.opened_at, between)
    for names in ([provider] if provider is not None else None, providers):
        query = query.where(_concern(session, names)) if names is not None else query
    order = (Finding.opened_at.desc(), Finding.finding_id)
    return page_after(session, query, order, after, limit, finding_view, f'the archive has no finding "{after}"')


def findings_shown_by(session: Session, campaign_id: str, limit: int) -> tuple[FindingView, ...]:
    """Findings that a campaign opened or showed again; newest first, at most `limit`."""
    order = (Finding.opened_at.desc(), Finding.finding_id)
    opened = select(Finding).where(Finding.campaign_id == campaign_id).order_by(*order).limit(limit)
    waiting = select(Finding).where(Finding.state.in_(OPEN_STATES)).order_by(*order).limit(MAX_SEARCHED_FINDINGS)
    settled = select(Finding).where(Finding.state.not_in(OPEN_STATES), seen_since(campaign_id))
    settled = settled.order_by(Finding.last_seen_at).limit(MAX_SEARCHED_FINDINGS)
    settled = settled.where(Finding.provider.in_((*providers_in(session, campaign_id), FLEET)))
    views = {row.finding_id: finding_view(row) for query in (opened, waiting, settled) for row in session.scalars(query)}
    views_of_campaign = [view for view in views.values() if view.shown_by(campaign_id)]
    return tuple(sorted(views_of_campaign, key=lambda v: (-v.opened_at.timestamp(), v.finding_id))[:limit])


def newest_readings(session: Session, providers: Sequence[str]) -> tuple[PriceReadingView, ...]:
    """The newest reading of each kind of purchase of these providers."""
    of = (PriceReading.provider, PriceReading.purchase)
    newest = (
        select(*of, func.max(PriceReading.observed_at).label("at")).where(PriceReading.provider.in_(providers)).group_by(*of).subquery()
    )
    same = (PriceReading.provider == newest.c.provider) & (PriceReading.purchase == newest.c.purchase)
    query = select(PriceReading).join(newest, same & (PriceReading.observed_at == newest.c.at)).order_by(PriceReading.reading_id)
    return tuple(view_of(PriceReadingView, row) for row in session.scalars(query))


def as_of(session: Session) -> tuple[int, int, int]:
    """What grows with everything that a decision can rest on: the newest trial's row, the newest entry of the audit log, the number of prices.
    The same again: so is every decision."""
    counted = (func.max(Trial.id), func.max(AuditEntry.id), func.count(Price.price_id))
    trial, entry, prices = (session.scalar(select(each)) or 0 for each in counted)
    return trial, entry, prices


def decisions_page(
    session: Session,
    team: str | None = None,
    kind: str | None = None,
    after: str | None = None,
    limit: int = 25,
    *,
    between: Span = (None, None),
) -> Slice[DecisionView]:
    """Stored decisions, newest first, of a span if asked. `after`: a decision's id; LookupError for an unknown one."""
    query = where_within(where_equal(select(Decision), (Decision.team, team), (Decision.kind, kind)), Decision.decided_at, between)
    order = (Decision.decided_at.desc(), Decision.decision_id)
    view = partial(view_of, DecisionView)
    return page_after(session, query, order, after, limit, view, f'the archive has no decision "{after}"')


def newest_decisions(
    session: Session,
    team: str | None = None,
    kind: str | None = None,
    workloads: Sequence[str] | None = None,
    *,
    without: str | None = None,
) -> tuple[DecisionView, ...]:
    """The newest stored decision of each choice (team, kind and workloads), by team and kind, in one statement.

    `without`: a campaign's id; decisions that rest on it or on one that was planned later do not count. LookupError for an unknown one.
    """
    choice = (Decision.team, Decision.kind, Decision.detail["workloads"].as_string())
    newest_first = (Decision.decided_at.desc(), Decision.decision_id)
    place = func.row_number().over(partition_by=choice, order_by=newest_first).label("place")
    numbered = where_equal(select(Decision.decision_id, place), (Decision.team, team), (Decision.kind, kind))
    if without is not None:
        planned_at = session.scalar(select(Campaign.planned_at).where(Campaign.campaign_id == without))
        if planned_at is None:
            raise LookupError(f'the archive has no campaign "{without}"')
        named = Decision.detail["campaigns"].as_string().like('%"' + Campaign.campaign_id + '"%')
        numbered = numbered.where(Decision.winner.is_not(None), ~exists().where(Campaign.planned_at >= planned_at, named))
    ranked = numbered.subquery()
    newest = select(Decision).join(ranked, ranked.c.decision_id == Decision.decision_id).where(ranked.c.place == 1)
    rows = session.scalars(newest.order_by(Decision.team, Decision.kind, *newest_first))
    views = (view_of(DecisionView, row) for row in rows)
    return tuple(v for v in views if workloads is None or list(v.detail.get("workloads", ())) == list(workloads))


def _steady_values(
    session: Session, pairs: Sequence[tuple[str, str]], measured: Sequence[tuple[str, str]]
) -> dict[str, dict[str, tuple[float, ...]]]:
    """Series → metric → what the best usable attempt of each trial measured in the steady phase."""
    keys = {(metric, statistic, "steady"): metric for metric, statistic in measured}
    values = _series_values(session, pairs, tuple(keys))
    return {
        series: {name: own_values for key, name in keys.items() if (own_values := tuple(trial[key] for trial in trials if key in trial))}
        for series, trials in values.items()
    }


# What pages show of many series at a glance: a page's worth of providers, and of each series its newest campaign, in a fixed number of
# statements. Everything is found by indexes; nothing is counted over the whole archive.


# Not "in measured or simulated": by an index on the source nearly every series would be read.
NOT_IMPORTED = Series.source != "imported"
"""The series was measured or simulated here."""


MetricKey = tuple[str, str, str]
"""(metric, statistic, phase)"""


@dataclass(frozen=True)
class SeriesResult:
    """A series in its newest campaign: how its trials ended, whether it has a baseline, what each usable trial measured, and
    why none is usable, empty where one is."""

    series: SeriesView
    campaign_id: str
    planned_at: datetime
    outcomes: Outcomes
    baseline: bool
    measured: tuple[Mapping[MetricKey, float], ...]
    unusable: str

    def values(self, metric: str, statistic: str, phase: str = "steady") -> tuple[float, ...]:
        """One number of each usable trial that has it."""
        return tuple(own[metric, statistic, phase] for own in self.measured if (metric, statistic, phase) in own)


@dataclass(frozen=True)
class WorkloadName:
    """One version of a workload that was ever run here."""

    kind: str
    workload: str
    version: int


def series_of(session: Session, providers: Sequence[str], workload: str | None = None) -> list[SeriesView]:
    """The series of these providers, imported ones aside, by key."""
    query = select(Series).where(Series.provider.in_(providers), NOT_IMPORTED)
    query = where_equal(query, (Series.workload, workload))
    return [view_of(SeriesView, row) for row in session.scalars(query.order_by(Series.series_key))]


def workload_names(session: Session) -> list[WorkloadName]:
    """Every version of every workload that was run here, training first."""
    query = select(Series.kind, Series.workload, Series.version).where(NOT_IMPORTED).distinct()
    names = [WorkloadName(*row) for row in session.execute(query)]
    return sorted(names, key=lambda w: (w.kind != "training", w.workload, w.version))


def providers_of(session: Session, workload: str, limit: int) -> list[str]:
    """Providers that ran a workload, the first so many by name."""
    query = select(Series.provider).where(Series.workload == workload, NOT_IMPORTED).distinct()
    return list(session.scalars(query.order_by(Series.provider).limit(limit)))


def newest_parts(session: Session, series: Sequence[SeriesView], measured: Sequence[MetricKey] = ()) -> list[SeriesResult]:
    """Each of these series in its newest campaign, in the given order. `measured`: the numbers to hand out."""
    keys = {s.series_key: s for s in series}
    newest = {s.series.series_key: s for s in newest_campaigns(session, Series.series_key.in_(keys), usable=False)}
    pairs = [(key, part.campaign_id) for key, part in newest.items()]
    ended = outcomes_by(session, Trial.series_key, in_series_campaigns(pairs))
    values = _series_values(session, pairs, measured)
    current = select(Baseline.series_key).where(Baseline.series_key.in_(keys), Baseline.superseded_at.is_(None))
    measured_keys, why = set(session.scalars(current.distinct())), _why_unusable(session, pairs, ended)
    return [
        SeriesResult(
            one,
            part.campaign_id,
            part.planned_at,
            ended.get(key, Outcomes()),
            key in measured_keys,
            values.get(key, ()),
            why.get(key, ""),
        )
        for key, one in keys.items()
        if (part := newest.get(key)) is not None
    ]


def newest_by_place(session: Session, series: Sequence[SeriesView]) -> dict[tuple[str, str], SeriesResult]:
    """Provider and workload → the one of these series that was planned last, usable or not."""
    parts = sorted(newest_parts(session, series), key=lambda part: part.planned_at)
    return {(part.series.provider, part.series.workload): part for part in parts}


def campaigns_page(
    session: Session, after: str | None = None, limit: int = 20, *, between: Span = (None, None), purpose: Purpose | None = None
) -> Slice[CampaignHead]:
    """Campaigns, those planned last first, of a span and a purpose if asked. `after`: a campaign's id; LookupError for an unknown one."""
    query = where_equal(where_within(select(Campaign), Campaign.planned_at, between), (Campaign.purpose, purpose))
    order = (Campaign.planned_at.desc(), Campaign.campaign_id.desc())
    return page_after(session, query, order, after, limit, partial(view_of, CampaignHead), f'the archive has no campaign "{after}"')


def compared_campaigns(session: Session, limit: int, *, between: Span = (None, None)) -> tuple[CampaignHead, ...]:
    """The newest campaigns that providers are compared over, of a span if asked, oldest first: monthly ones. An archive without any has those on
    demand, such as the first measurement; an acceptance measures nodes, and is never one."""
    any_month = session.scalar(select(Campaign.campaign_id).where(Campaign.purpose == "monthly").limit(1))
    purpose: Purpose = "on_demand" if any_month is None else "monthly"
    return tuple(campaigns_page(session, limit=limit, between=between, purpose=purpose).rows[::-1])


def acceptances(session: Session) -> dict[str, list[CampaignHead]]:
    """Provider → campaigns that measured each of its nodes, those planned last first."""
    query = select(Series.provider, Campaign).distinct().join(SeriesCampaign, SeriesCampaign.campaign_id == Campaign.campaign_id)
    query = query.join(Series, Series.series_key == SeriesCampaign.series_key).where(Campaign.purpose == "acceptance")
    found: dict[str, list[CampaignHead]] = defaultdict(list)
    for provider, row in session.execute(query.order_by(Series.provider, Campaign.planned_at.desc(), Campaign.campaign_id.desc())):
        found[provider].append(view_of(CampaignHead, row))
    return dict(found)


def campaign_outcomes(session: Session, campaigns: Sequence[str]) -> dict[str, Outcomes]:
    """How the trials of each of these campaigns ended."""
    return outcomes_by(session, Trial.campaign_id, Trial.campaign_id.in_(campaigns))


def marked(session: Session, campaigns: Sequence[str]) -> dict[str, tuple[Source, ...]]:
    """Campaign → its sources other than our own measurements: "simulated", "imported"."""
    # From the few such series to their campaigns, not from the campaigns to all their series.
    few = select(Series.series_key).where(Series.source.in_(("simulated", "imported")))
    query = select(SeriesCampaign.campaign_id, Series.source).join(Series, Series.series_key == SeriesCampaign.series_key)
    query = query.where(SeriesCampaign.series_key.in_(few), SeriesCampaign.campaign_id.in_(campaigns)).distinct()
    sources: dict[str, set[Source]] = defaultdict(set)
    for row in session.execute(query):
        sources[row.campaign_id].add(cast(Source, row.source))
    return {campaign: tuple(sorted(sources[campaign])) for campaign in campaigns}


def _concern(session: Session, providers: Collection[str]) -> ColumnElement[bool]:
    """The condition that a finding is of one of these providers or of a cause that one of them shares."""
    shared = map(finding_view, session.scalars(select(Finding).where(Finding.provider == FLEET)))
    return or_(Finding.provider.in_(providers), Finding.finding_id.in_([f.finding_id for f in shared if {*f.providers} & {*providers}]))


def _why_unusable(session: Session, pairs: Sequence[tuple[str, str]], ended: Mapping[str, Outcomes]) -> dict[str, str]:
    """Series without a usable trial → the most common reason of its trials' last attempts."""
    without = [(key, campaign) for key, campaign in pairs if key in ended and not ended[key].usable]
    if not without:
        return {}
    columns = (Trial.series_key, Trial.slot, Trial.repeat, Trial.status, Trial.reasons, Trial.quality_reasons)
    query = select(*columns).where(in_series_campaigns(without), EFFECTIVE).order_by(Trial.attempt)
    last = {(row.series_key, row.slot, row.repeat): row for row in session.execute(query)}
    reasons: dict[str, list[str]] = defaultdict(list)
    for row in last.values():
        why = (*row.quality_reasons, *row.reasons) if row.status in ("valid", "degraded") else row.reasons
        reasons[row.series_key] += [f"{reason['code']}: {reason['detail']}" for reason in why[:1]]
    return {key: no_usable_trial(reasons[key]) for key, _ in without}


def _series_values(
    session: Session, pairs: Sequence[tuple[str, str]], measured: Sequence[MetricKey]
) -> dict[str, tuple[Mapping[MetricKey, float], ...]]:
    """Series → what the best usable attempt of each trial measured."""
    if not measured:
        return {}
    of = select(Trial.id, Trial.series_key, Trial.slot, Trial.repeat).where(in_series_campaigns(pairs), *USABLE)
    best = {(row.series_key, row.slot, row.repeat): row.id for row in session.execute(of.order_by(Trial.attempt))}
    wanted = or_(*(and_(Metric.metric == m, Metric.statistic == statistic, Metric.phase == phase) for m, statistic, phase in measured))
    query = select(Metric.trial_pk, Metric.metric, Metric.statistic, Metric.phase, Metric.value)
    query = query.where(Metric.trial_pk.in_(best.values()), wanted, Metric.value.is_not(None))
    trials: dict[int, dict[MetricKey, float]] = {trial: {} for trial in best.values()}
    for row in session.execute(query):
        trials[row.trial_pk][row.metric, row.statistic, row.phase] = row.value
    values_of: dict[str, tuple[Mapping[MetricKey, float], ...]] = {}
    for (key, *_), trial in sorted(best.items(), key=lambda item: item[1]):
        values_of[key] = (*values_of.get(key, ()), trials[trial])
    return values_of
