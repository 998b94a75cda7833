"""One series in one campaign, as drift and scorecards read it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive.models import Environment, Metric, Series, SeriesCampaign, Trial
from plumbline.archive.queries import STANDING, USABLE, outcome_status, outcomes, usable
from plumbline.archive.views import ObservationView, OutcomeView, SampleView


def sample(session: Session, series_key: str, campaign_id: str) -> SampleView:
    """The sample; LookupError if the series took no part in the campaign."""
    where = (SeriesCampaign.series_key == series_key, SeriesCampaign.campaign_id == campaign_id)
    head = session.execute(
        select(SeriesCampaign.planned_at, Series.source).join(Series, Series.series_key == SeriesCampaign.series_key).where(*where)
    ).first()
    if head is None:
        raise LookupError(f'the series "{series_key}" has no trial in the campaign "{campaign_id}"')
    columns = (Trial.id, Trial.trial_id, Trial.series_key, Trial.slot, Trial.repeat, Trial.attempt, Trial.status, Trial.quality_action)
    attempts = session.execute(
        select(*columns, Trial.failure_class, Trial.reasons, Trial.environment_hash)
        .where(Trial.series_key == series_key, Trial.campaign_id == campaign_id, STANDING)
        .order_by(Trial.slot, Trial.repeat, Trial.attempt)
    ).all()
    best = {(row.slot, row.repeat): row for row in attempts if usable(row)}  # in order of attempts: the last one stays
    chosen = list(best.values())
    facts = {
        row.environment_hash: row.facts
        for row in session.execute(
            select(Environment.environment_hash, Environment.facts).where(
                Environment.environment_hash.in_({row.environment_hash for row in chosen})
            )
        )
    }
    return SampleView(
        series_key=series_key,
        campaign_id=campaign_id,
        source=head.source,
        planned_at=head.planned_at,
        observations=_observations(session, {row.id: (row.slot, row.repeat) for row in chosen}),
        environments=tuple(facts[row.environment_hash] for row in chosen),
        outcomes=tuple(
            OutcomeView(
                row.trial_id,
                row.slot,
                row.repeat,
                row.attempt,
                outcome_status(row),
                row.failure_class,
                tuple(reason["code"] for reason in row.reasons),
            )
            for row in attempts
        ),
        counts=outcomes(attempts),
    )


def levels(session: Session, series_key: str, campaigns: Sequence[str], metrics: Sequence[str]) -> dict[str, tuple[ObservationView, ...]]:
    """Campaign → what the best usable attempts of the series' trials measured of these metrics; without environments and outcomes.

    Two statements whatever the number of campaigns; their trials are found by the natural key.
    """
    attempts = session.execute(
        select(Trial.id, Trial.campaign_id, Trial.slot, Trial.repeat)
        .where(Trial.series_key == series_key, Trial.campaign_id.in_(campaigns), *USABLE)
        .order_by(Trial.attempt)
    ).all()
    best = {(row.campaign_id, row.slot, row.repeat): row.id for row in attempts}
    places = {trial: key for key, trial in best.items()}
    found: dict[str, list[ObservationView]] = {campaign: [] for campaign in campaigns}
    columns = (Metric.trial_pk, Metric.metric, Metric.statistic, Metric.phase, Metric.unit, Metric.direction, Metric.value)
    query = select(*columns).where(Metric.trial_pk.in_(places), Metric.metric.in_(metrics), Metric.value.is_not(None))
    for row in session.execute(query):
        campaign, slot, repeat = places[row.trial_pk]
        found[campaign].append(ObservationView(row.metric, row.statistic, row.phase, row.unit, row.direction, slot, repeat, row.value))
    return {campaign: tuple(rows) for campaign, rows in found.items()}


def _observations(session: Session, places: dict[int, tuple[str, int]]) -> tuple[ObservationView, ...]:
    query = select(Metric.trial_pk, Metric.metric, Metric.statistic, Metric.phase, Metric.unit, Metric.direction, Metric.value).where(
        Metric.trial_pk.in_(places), Metric.value.is_not(None)
    )
    found = [
        ObservationView(row.metric, row.statistic, row.phase, row.unit, row.direction, *places[row.trial_pk], row.value)
        for row in session.execute(query)
    ]
    return tuple(sorted(found, key=lambda o: (o.phase, o.metric, o.statistic, o.slot, o.repeat)))
