"""Reads samples: one series in one campaign, levels over several campaigns, and current results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from plumbline.archive.records import Action, SeriesView
from plumbline.archive.repository import batches, view_of, where_equal
from plumbline.archive.schema import Campaign, Document, Environment, Metric, Series, SeriesCampaign, Trial
from plumbline.archive.trials import EFFECTIVE, USABLE, in_series_campaigns, outcome_status, usable
from plumbline.metrics import Direction, Unit
from plumbline.results import Reason
from plumbline.results.sample import CampaignSample, RepeatValue, TrialOutcome


def sample(session: Session, series_key: str, campaign_id: str, metrics: Collection[str] | None = None) -> CampaignSample:
    """The sample, of these metrics alone if named; LookupError if the series took no part in the campaign."""
    return samples(session, [(series_key, campaign_id)], metrics)[series_key, campaign_id]


def samples(
    session: Session, parts: Collection[tuple[str, str]], metrics: Collection[str] | None = None
) -> dict[tuple[str, str], CampaignSample]:
    """The sample of each (series, campaign), as `sample` gives it; a few statements for hundreds of them."""
    views: dict[tuple[str, str], CampaignSample] = {}
    for pairs in batches(sorted(set(parts))):
        views |= _samples(session, pairs, metrics)
    return views


def _samples(
    session: Session, pairs: Sequence[tuple[str, str]], metrics: Collection[str] | None
) -> Iterator[tuple[tuple[str, str], CampaignSample]]:
    of = (SeriesCampaign.series_key, SeriesCampaign.campaign_id)
    heads = {
        (row.series_key, row.campaign_id): row
        for row in session.execute(
            select(*of, Series.source)
            .join(Series, Series.series_key == SeriesCampaign.series_key)
            .where(*(column.in_({pair[i] for pair in pairs}) for i, column in enumerate(of)))
        )
    }
    for series_key, campaign in pairs:
        if (series_key, campaign) not in heads:
            raise LookupError(f'the series "{series_key}" has no trial in the campaign "{campaign}"')
    columns = (Trial.id, Trial.trial_id, Trial.series_key, Trial.campaign_id, Trial.slot, Trial.repeat, Trial.attempt, Trial.status)
    attempts: dict[tuple[str, str], list[Any]] = {pair: [] for pair in pairs}
    for row in session.execute(
        select(*columns, Trial.quality_action, Trial.failure_class, Trial.reasons, Trial.environment_hash)
        .where(in_series_campaigns(pairs), EFFECTIVE)
        .order_by(Trial.slot, Trial.repeat, Trial.attempt)
    ):
        attempts[row.series_key, row.campaign_id].append(row)
    # In order of attempts: the last usable one stays.
    best = {pair: {(row.slot, row.repeat): row for row in rows if usable(row)} for pair, rows in attempts.items()}
    chosen = {row.id: row for own in best.values() for row in own.values()}
    facts: dict[str, Mapping[str, Any]] = {}
    for hashes in batches(sorted({row.environment_hash for row in chosen.values()})):
        query = select(Environment.environment_hash, Environment.facts).where(Environment.environment_hash.in_(hashes))
        facts |= session.execute(query).tuples().all()
    observations = _observations(session, chosen, metrics)
    for pair, head in heads.items():
        if pair in attempts:
            yield (
                pair,
                CampaignSample(
                    series_key=pair[0],
                    campaign_id=pair[1],
                    simulated=head.source == "simulated",
                    imported=head.source == "imported",
                    observations=tuple(sorted(observations[pair], key=lambda o: (o.phase, o.metric, o.statistic, o.slot, o.repeat))),
                    environments=tuple(facts[row.environment_hash] for row in best[pair].values()),
                    outcomes=tuple(
                        TrialOutcome(
                            row.trial_id,
                            row.slot,
                            row.repeat,
                            row.attempt,
                            outcome_status(row),
                            row.failure_class,
                            tuple(reason["code"] for reason in row.reasons),
                        )
                        for row in attempts[pair]
                    ),
                    planned=len({(row.slot, row.repeat) for row in attempts[pair]}),
                ),
            )


def _observations(session: Session, trials: Mapping[int, Any], metrics: Collection[str] | None) -> dict[tuple[str, str], list[RepeatValue]]:
    """(series, campaign) → observations of these attempts, by row number."""
    columns = (Metric.trial_pk, Metric.metric, Metric.statistic, Metric.phase, Metric.unit, Metric.direction, Metric.value)
    observations: dict[tuple[str, str], list[RepeatValue]] = defaultdict(list)
    places = {trial_pk: (observations[of.series_key, of.campaign_id], of.slot, of.repeat) for trial_pk, of in trials.items()}
    for batch in batches(list(trials)):
        query = where_equal(select(*columns).where(Metric.trial_pk.in_(batch), Metric.value.is_not(None)), (Metric.metric, metrics))
        rows: Any = session.execute(query)  # without an absent value, which the columns' types allow
        for trial_pk, metric, statistic, phase, unit, direction, value in rows:
            own, slot, repeat = places[trial_pk]
            own.append(RepeatValue(metric, statistic, phase, unit, direction, slot, repeat, value))
    return observations


def _container_metrics(session: Session) -> Any:
    """Metric, unit, direction and series, of the newest usable trial of each series of a container."""
    newest = select(func.max(Trial.id)).join(Series, Series.series_key == Trial.series_key)
    newest = newest.where(Series.series_key.like("training/%/container/%"), *USABLE).group_by(Trial.series_key)
    columns = (Metric.metric, Metric.unit, Metric.direction, Trial.series_key)
    return session.execute(select(*columns).join(Trial, Trial.id == Metric.trial_pk).where(Metric.trial_pk.in_(newest)))


def metric_conflicts(session: Session, metrics: Mapping[str, tuple[Unit, Direction]]) -> dict[str, str]:
    """Which of a container's metrics the archive holds with another unit or direction, and in words what was expected."""
    return {
        metric: f"{metric} is in {', '.join(metrics[metric])}; expected {unit}, {direction}, as the archive holds it of {series}, or another name"
        for metric, unit, direction, series in _container_metrics(session)
        if metrics.get(metric, (unit, direction)) != (unit, direction)
    }


def levels(session: Session, series_key: str, campaigns: Sequence[str], metrics: Sequence[str]) -> dict[str, tuple[RepeatValue, ...]]:
    """Campaign → what the best usable attempts of the series' trials measured of these metrics; without environments and outcomes.

    Two statements whatever the number of campaigns; their trials are found by the natural key.
    """
    attempts = session.execute(
        select(Trial.id, Trial.series_key, Trial.campaign_id, Trial.slot, Trial.repeat)
        .where(Trial.series_key == series_key, Trial.campaign_id.in_(campaigns), *USABLE)
        .order_by(Trial.attempt)
    )
    best = {(row.campaign_id, row.slot, row.repeat): row for row in attempts}
    observations = _observations(session, {row.id: row for row in best.values()}, metrics)
    return {campaign: tuple(observations[series_key, campaign]) for campaign in campaigns}


@dataclass(frozen=True)
class SeriesLevel:
    """Mean of one metric over the usable trials of a series in a campaign, in the metric's unit."""

    series_key: str
    provider: str
    campaign_id: str
    metric: str
    value: float


def campaign_levels(session: Session, campaigns: Sequence[str], metrics: Mapping[str, str]) -> list[SeriesLevel]:
    """Steady levels of every series in these campaigns, in one statement; imported series are left out. `metrics`: metric → statistic."""
    wanted = or_(*(and_(Metric.metric == name, Metric.statistic == statistic) for name, statistic in metrics.items()))
    of = (Series.series_key, Series.provider, Trial.campaign_id, Metric.metric)
    query = select(*of, func.avg(Metric.value).label("value")).join(Trial, Trial.series_key == Series.series_key)
    query = query.join(Metric, Metric.trial_pk == Trial.id).where(Trial.campaign_id.in_(campaigns), Series.source != "imported", *USABLE)
    query = query.where(wanted, Metric.phase == "steady", Metric.value.is_not(None)).group_by(*of).order_by(*of)
    return [SeriesLevel(*row) for row in session.execute(query)]


# Current results: of every series the newest campaign with usable numbers, and its attempts.
#
# Two kinds of statement, whatever the archive's size: each series finds its campaign by an index, and only that campaign's trials are read.


@dataclass(frozen=True)
class CurrentSeries:
    """A series with the newest campaign in which a trial of it is usable, and the time for which that was planned."""

    series: SeriesView
    campaign_id: str
    planned_at: datetime


@dataclass(frozen=True)
class EffectiveAttempt:
    """One attempt that no correction replaced, with what the quality checks said. `checksum`: of its document, which `contents` reads."""

    trial_pk: int
    trial_id: str
    attempt: int
    series_key: str
    quality_action: Action
    quality_reasons: tuple[Reason, ...]
    checksum: str


def newest_usable(
    session: Session, workloads: Collection[str] | None = None, providers: Collection[str] | None = None
) -> list[CurrentSeries]:
    """Every series that has a usable trial, by key, with its newest such campaign; of these workloads and providers if named. Imported ones
    are left out."""
    named = ((Series.workload, workloads), (Series.provider, providers))
    asked = (column.in_(names) for column, names in named if names is not None)
    return newest_campaigns(session, Series.source != "imported", *asked, usable=True)


def newest_campaigns(session: Session, *which: ColumnElement[bool], usable: bool) -> list[CurrentSeries]:
    """Series, by key, with their newest campaign, or with the newest in which a trial is usable; those without one are left out. An acceptance
    counts only where there is no other: it measures single nodes, those that go back too."""
    of = aliased(SeriesCampaign)
    newest = select(of.campaign_id).where(of.series_key == Series.series_key)
    if usable:
        newest = newest.where(
            select(Trial.id).where(Trial.series_key == of.series_key, Trial.campaign_id == of.campaign_id, *USABLE).exists()
        )
    newest = newest.order_by(of.planned_at.desc(), of.campaign_id.desc()).limit(1).correlate(Series)
    accepted = select(Campaign.campaign_id).where(Campaign.purpose == "acceptance")
    first = func.coalesce(newest.where(of.campaign_id.not_in(accepted)).scalar_subquery(), newest.scalar_subquery())
    chosen = select(Series, first.label("campaign_id")).where(*which).subquery()
    series = aliased(Series, chosen)
    same = (SeriesCampaign.series_key == chosen.c.series_key) & (SeriesCampaign.campaign_id == chosen.c.campaign_id)
    query = select(series, SeriesCampaign.campaign_id, SeriesCampaign.planned_at).join(SeriesCampaign, same)
    rows = session.execute(query.order_by(chosen.c.series_key)).tuples()
    return [CurrentSeries(view_of(SeriesView, row), campaign_id, planned_at) for row, campaign_id, planned_at in rows]


def measured_anything(session: Session) -> bool:
    """Whether any series is of our own measurements, neither simulated nor imported."""
    return session.scalars(select(Series.series_key).where(Series.source == "measured").limit(1)).first() is not None


def simulated_only(session: Session) -> bool:
    """Whether there are series, and none of our own measurements: each of the two is found by the index on the source."""
    made_up = select(Series.series_key).where(Series.source == "simulated").limit(1)
    return not measured_anything(session) and session.scalars(made_up).first() is not None


def attempts_of(session: Session, parts: Sequence[CurrentSeries]) -> list[EffectiveAttempt]:
    """All attempts of these series in these campaigns that no correction replaced, failed ones too, by trial and attempt."""
    attempts = []
    for pairs in batches([(part.series.series_key, part.campaign_id) for part in parts]):
        columns = (Trial.id, Trial.trial_id, Trial.attempt, Trial.series_key, Trial.quality_action, Trial.quality_reasons, Trial.checksum)
        query = select(*columns).where(in_series_campaigns(pairs), EFFECTIVE)
        attempts += [
            EffectiveAttempt(pk, trial, attempt, series, action, tuple(Reason(**r) for r in why), checksum)
            for pk, trial, attempt, series, action, why, checksum in session.execute(query)
        ]
    return sorted(attempts, key=lambda a: (a.trial_id, a.attempt))


def contents(session: Session, trial_pks: Sequence[int]) -> Mapping[int, str]:
    """Result documents as JSON, by the row numbers that `attempts_of` gives: many at once, and unread."""
    texts: dict[int, str] = {}
    for batch in batches(trial_pks):
        texts |= session.execute(select(Document.trial_pk, Document.content).where(Document.trial_pk.in_(batch))).tuples().all()
    return texts


def numbers_of(
    session: Session, parts: Sequence[tuple[str, str]], metrics: Collection[tuple[str, str]]
) -> dict[str, tuple[Mapping[tuple[str, str, str], float], ...]]:
    """Series → (metric, statistic, phase) → value, of the best usable attempt of each trial. `parts`: (series, campaign); `metrics`: (metric,
    statistic). One statement for hundreds of series."""
    names, statistics = {metric for metric, _ in metrics}, {statistic for _, statistic in metrics}
    columns = (Trial.series_key, Trial.slot, Trial.repeat, Trial.id, Metric.metric, Metric.statistic, Metric.phase, Metric.value)
    trials: dict[tuple[str, str, int], tuple[int, dict[tuple[str, str, str], float]]] = {}
    for pairs in batches(sorted(parts)):
        query = select(*columns).join(Metric, Metric.trial_pk == Trial.id).where(in_series_campaigns(pairs), *USABLE)
        query = query.where(Metric.value.is_not(None), Metric.metric.in_(names), Metric.statistic.in_(statistics))
        for series, slot, repeat, trial, metric, statistic, phase, value in session.execute(query.order_by(Trial.attempt)):
            if value is not None and (metric, statistic) in metrics:
                # In order of attempts: the last one stays.
                if (known := trials.get((series, slot, repeat))) is None or known[0] != trial:
                    known = trials[series, slot, repeat] = (trial, {})
                known[1][metric, statistic, phase] = value
    by_series: dict[str, list[Mapping[tuple[str, str, str], float]]] = {}
    for (series, _, _), (_, numbers) in sorted(trials.items()):
        by_series.setdefault(series, []).append(numbers)
    return {series: tuple(each) for series, each in by_series.items()}


def repeats_of(session: Session, trial_ids: Collection[str], metrics: Collection[str]) -> dict[tuple[str, str, str, str], dict[str, float]]:
    """(workload, metric, statistic, phase) → trial → value, of the last usable attempt of each of these trials."""
    repeats: dict[tuple[str, str, str, str], dict[str, float]] = {}
    columns = (Series.workload, Trial.trial_id, Metric.metric, Metric.statistic, Metric.phase, Metric.value)
    for ids in batches(sorted(trial_ids)):
        query = select(*columns).join(Metric, Metric.trial_pk == Trial.id).join(Series, Series.series_key == Trial.series_key)
        query = query.where(Trial.trial_id.in_(ids), Metric.value.is_not(None), Metric.metric.in_(metrics), *USABLE)
        for workload, trial, metric, statistic, phase, value in session.execute(query.order_by(Trial.attempt)):
            if value is not None:
                repeats.setdefault((workload, metric, statistic, phase), {})[trial] = value
    return repeats


def fact_readings(session: Session, facts: Sequence[str], since: datetime | None = None) -> list[tuple[str, str, datetime, str, str]]:
    """(provider, campaign, first planned, fact, value) of every value that usable trials of a campaign reported of these facts, planned since an
    instant if named."""
    values = [Environment.facts[fact].as_string().label(f"fact_{i}") for i, fact in enumerate(facts)]
    query = select(Series.provider, Trial.campaign_id, func.min(Trial.planned_at).label("at"), *values)
    query = query.join(Series, Series.series_key == Trial.series_key)
    query = query.join(Environment, Environment.environment_hash == Trial.environment_hash)
    query = query.where(Series.source != "imported", *USABLE).group_by(Series.provider, Trial.campaign_id, *values)
    if since is not None:
        query = query.where(Trial.planned_at >= since)
    return [
        (row.provider, row.campaign_id, row.at, fact, value)
        for row in session.execute(query)
        for fact, value in zip(facts, row[3:], strict=True)
        if value is not None
    ]


@dataclass(frozen=True)
class SeriesPoint:
    """A campaign of a series."""

    series_key: str
    source: str
    campaign_id: str
    planned_at: datetime


def series_points(session: Session, since: datetime) -> list[SeriesPoint]:
    """Every campaign of every series that was planned since then, oldest first, in one statement; imported series are left out."""
    query = select(Series.series_key, Series.source, SeriesCampaign.campaign_id, SeriesCampaign.planned_at)
    query = query.join(SeriesCampaign, SeriesCampaign.series_key == Series.series_key)
    query = query.where(Series.source != "imported", SeriesCampaign.planned_at >= since)
    return [SeriesPoint(*row) for row in session.execute(query.order_by(SeriesCampaign.planned_at, SeriesCampaign.campaign_id))]
