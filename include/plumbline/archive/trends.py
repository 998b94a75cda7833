"""A provider's past for the pages: launches, environments, campaigns of a series."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from plumbline.archive.pages import NOT_IMPORTED
from plumbline.archive.repository import Span
from plumbline.archive.schema import (
    Environment,
    Metric,
    Series,
    SeriesCampaign,
    Trial,
)
from plumbline.archive.trials import EFFECTIVE, USABLE, in_series_campaigns, series_campaigns


@dataclass(frozen=True)
class LaunchCounts:
    """Every attempt on a provider in one campaign, over all its workloads: failure class → how many, None for those that did not fail.
    Trials that are missing were never seen to launch and are left out, and so is what a correction replaced: it was launched once.
    `lead_times`: request to running process, in seconds."""

    campaign_id: str
    planned_at: datetime
    ended: Mapping[str | None, int]
    lead_times: tuple[float, ...]


class MeasuredName(NamedTuple):
    """What a number is of."""

    phase: str
    metric: str
    statistic: str
    unit: str
    direction: str


def measured_names(session: Session, series_key: str, campaign_id: str) -> list[MeasuredName]:
    """What a usable trial of the series measured in the campaign."""
    of = select(Trial.id).where(Trial.series_key == series_key, Trial.campaign_id == campaign_id, *USABLE)
    columns = (Metric.phase, Metric.metric, Metric.statistic, Metric.unit, Metric.direction)
    query = select(*columns).where(Metric.trial_pk.in_(of), Metric.value.is_not(None))
    return sorted(MeasuredName(*row) for row in session.execute(query.distinct()))


def facts_by_campaign(session: Session, series_key: str, campaigns: Sequence[str]) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Campaign → the facts of the environments that the usable trials of the series ran on, each environment once."""
    of = and_(Trial.series_key == series_key, Trial.campaign_id.in_(campaigns))
    return _facts_by(session, Trial.campaign_id, of)


def newest_facts(session: Session, pairs: Collection[tuple[str, str]]) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Series → the facts of the environments of its usable trials, each once; of these (series, campaign) pairs."""
    return _facts_by(session, Trial.series_key, in_series_campaigns(pairs)) if pairs else {}


def launches(session: Session, provider: str, latest: int, between: Span = (None, None)) -> list[LaunchCounts]:
    """How the launches of a provider ended in its newest campaigns, of a span if asked, oldest first."""
    keys = session.scalars(select(Series.series_key).where(Series.provider == provider, NOT_IMPORTED)).all()
    newest = dict(series_campaigns(session, keys, latest, between))
    # In pairs and counted here: by the campaign alone, or grouped by it, a database may read the trials of all campaigns.
    own = and_(Trial.series_key.in_(keys), Trial.campaign_id.in_(newest), EFFECTIVE)
    ended: dict[str, Counter[str | None]] = defaultdict(Counter)
    for row in session.execute(select(Trial.campaign_id, Trial.failure_class).where(own, Trial.status != "missing")):
        ended[row.campaign_id][row.failure_class] += 1
    leads: dict[str, list[float]] = defaultdict(list)
    timed = select(Trial.campaign_id, Metric.value).join(Metric, Metric.trial_pk == Trial.id)
    timed = timed.where(own, Metric.metric == "provisioning_lead_time", Metric.statistic == "value", Metric.phase == "cold_start")
    for campaign_id, seconds in session.execute(timed.order_by(Trial.id)):
        if seconds is not None:
            leads[campaign_id].append(seconds)
    return [LaunchCounts(c, at, ended.get(c, {}), tuple(leads.get(c, ()))) for c, at in newest.items()]


def last_run(session: Session, providers: Sequence[str]) -> dict[str, datetime]:
    """Provider → when its newest campaign was planned for."""
    query = select(Series.provider, func.max(SeriesCampaign.planned_at).label("last"))
    query = query.join(SeriesCampaign, SeriesCampaign.series_key == Series.series_key)
    query = query.where(Series.provider.in_(providers), NOT_IMPORTED).group_by(Series.provider)
    return {row.provider: row.last for row in session.execute(query)}


def _facts_by(session: Session, key: InstrumentedAttribute[str], of: ColumnElement[bool]) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Key → the facts of the environments of its usable trials, each environment once."""
    query = select(key.label("key"), Trial.environment_hash).where(of, Trial.environment_hash.is_not(None), *USABLE)
    rows = session.execute(query.distinct().order_by(Trial.environment_hash)).all()
    known = select(Environment).where(Environment.environment_hash.in_({row.environment_hash for row in rows}))
    facts = {row.environment_hash: row.facts for row in session.scalars(known)}
    by_campaign: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_campaign[row.key].append(facts[row.environment_hash])
    return {each: tuple(several) for each, several in by_campaign.items()}
