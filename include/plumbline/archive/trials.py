"""Reads trials, attempts and result documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pydantic import ValidationError
from sqlalchemy import ColumnElement, and_, case, func, or_, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from plumbline.archive.records import (
    IMPORTED_LAUNCHER,
    CampaignView,
    MetricPoint,
    Outcomes,
    SeriesView,
    Source,
    TrialView,
)
from plumbline.archive.repository import Span, view_of, where_equal, where_within
from plumbline.archive.schema import (
    AuditEntry,
    Baseline,
    Campaign,
    Correction,
    Document,
    Expired,
    Finding,
    Metric,
    Quarantined,
    Series,
    SeriesCampaign,
    Trial,
)
from plumbline.declarations.purposes import Purpose
from plumbline.results import HeldPart, Reason, ResultDocument, Status, bounded_json

EFFECTIVE = ~select(Correction.trial_pk).where(Correction.corrects == Trial.id).exists()
"""Condition: no correction replaced the attempt."""

_MEASURED = ("valid", "degraded")
_ACCEPTED = and_(Trial.status.in_(_MEASURED), Trial.quality_action != "reject")

USABLE = (_ACCEPTED, EFFECTIVE)
"""An attempt counts if the harness found it valid or degraded, the quality checks did not reject it, and no correction replaced it."""


def in_series_campaigns(pairs: Collection[tuple[str, str]]) -> ColumnElement[bool]:
    """The condition that an attempt is of one of these (series, campaign) pairs."""
    # The pairs alone SQLite holds against every row there is; by what they are made of, an index finds the few that can be meant.
    keys, campaigns = {key for key, _ in pairs}, {campaign for _, campaign in pairs}
    exactly = tuple_(Trial.series_key, Trial.campaign_id).in_(sorted(pairs))
    return and_(Trial.series_key.in_(sorted(keys)), Trial.campaign_id.in_(sorted(campaigns)), exactly)


_FROM_SERIES = ("kind", "workload", "version", "provider", "region", "instance_type", "source")
_FROM_TRIAL = tuple(
    name for name in TrialView.__dataclass_fields__ if name not in _FROM_SERIES and name not in ("reasons", "quality_reasons", "corrected")
)


def trials(
    session: Session,
    campaign_id: str | None = None,
    series_key: str | None = None,
    provider: str | None = None,
    kind: str | None = None,
) -> list[TrialView]:
    """Attempts in the order in which they were planned: campaign, slot, repeat, attempt."""
    query = select(Trial, Series, ~EFFECTIVE).join(Series, Series.series_key == Trial.series_key)
    filters = ((Trial.campaign_id, campaign_id), (Trial.series_key, series_key), (Series.provider, provider), (Series.kind, kind))
    query = where_equal(query, *filters)
    query = query.order_by(Trial.planned_at, Trial.slot, Trial.repeat, Trial.series_key, Trial.attempt)
    return [trial_view(trial, series, corrected) for trial, series, corrected in session.execute(query)]


def held_since(session: Session, provider: str, since: datetime) -> list[tuple[TrialView, HeldPart | None]]:
    """Attempts on a provider that began at `since` or later, in the order of their planning, with what their documents say about the time that they
    held it (None: nothing that can be read); corrections, for which nothing ran, left out."""
    return _held(session, Series.provider == provider, func.coalesce(Trial.started_at, Trial.planned_at) >= since)


def held_in(session: Session, campaigns: Sequence[str]) -> list[tuple[TrialView, HeldPart | None]]:
    """`held_since` for all attempts of these campaigns."""
    return _held(session, Trial.campaign_id.in_(campaigns))


def _held(session: Session, *which: ColumnElement[bool]) -> list[tuple[TrialView, HeldPart | None]]:
    corrects = select(Correction.trial_pk).where(Correction.trial_pk == Trial.id).exists()
    query = select(Trial, Series, ~EFFECTIVE, Document.content).join(Series, Series.series_key == Trial.series_key)
    query = query.outerjoin(Document, Document.trial_pk == Trial.id)
    query = query.where(*which, Series.source != "imported", ~corrects)
    query = query.order_by(Trial.planned_at, Trial.slot, Trial.repeat, Trial.series_key, Trial.attempt)
    return [(trial_view(trial, series, corrected), _held_part(content)) for trial, series, corrected, content in session.execute(query)]


def held_part(session: Session, trial_id: str, attempt: int) -> HeldPart | None:
    """`held_since` for one attempt."""
    query = select(Document.content).join(Trial, Trial.id == Document.trial_pk)
    query = query.where(Trial.trial_id == trial_id, Trial.attempt == attempt, Trial.launcher != IMPORTED_LAUNCHER)
    return _held_part(session.scalars(query.order_by(Trial.id.desc())).first())


def _held_part(content: str | None) -> HeldPart | None:
    try:
        return None if content is None else HeldPart.model_validate_json(content)
    except ValidationError:
        return None


def trial_view(trial: Trial, series: Series, corrected: bool) -> TrialView:
    """A row with its series as plain data."""
    values: dict[str, Any] = {name: getattr(trial, name) for name in _FROM_TRIAL}
    values |= {name: getattr(series, name) for name in _FROM_SERIES}
    return TrialView(
        **values,
        reasons=tuple(Reason(**r) for r in trial.reasons),
        quality_reasons=tuple(Reason(**r) for r in trial.quality_reasons),
        corrected=bool(corrected),
    )


def series(
    session: Session, provider: str | None = None, kind: str | None = None, campaign_id: str | None = None, limit: int | None = None
) -> list[SeriesView]:
    """Every series, by key, or the first ones; with a campaign, those that took part in it."""
    query = where_equal(select(Series).order_by(Series.series_key).limit(limit), (Series.provider, provider), (Series.kind, kind))
    if campaign_id is not None:
        query = query.join(SeriesCampaign, SeriesCampaign.series_key == Series.series_key).where(SeriesCampaign.campaign_id == campaign_id)
    return [view_of(SeriesView, row) for row in session.scalars(query)]


def campaigns(session: Session, series_key: str | None = None, latest: int | None = None) -> list[CampaignView]:
    """Campaigns with the outcomes of their trials, oldest first; with a series, only its trials. `latest`: only that many, the newest ones."""
    query = select(Campaign.campaign_id, Campaign.reason, Campaign.planned_at, Campaign.purpose)
    if series_key is not None:
        query = query.join(SeriesCampaign, SeriesCampaign.campaign_id == Campaign.campaign_id).where(
            SeriesCampaign.series_key == series_key
        )
    query = query.order_by(Campaign.planned_at.desc(), Campaign.campaign_id.desc())
    chosen = session.execute(query.limit(latest) if latest is not None else query).all()[::-1]
    ids = [row.campaign_id for row in chosen] if series_key is not None or latest is not None else None
    own = (*([] if series_key is None else [Trial.series_key == series_key]), *([] if ids is None else [Trial.campaign_id.in_(ids)]))
    counted = outcomes_by(session, Trial.campaign_id, *own)
    took_part = _series_by_campaign(session, series_key, ids)
    return [
        CampaignView(
            row.campaign_id,
            row.reason,
            row.planned_at,
            cast(Purpose, row.purpose),
            took_part[row.campaign_id].total(),
            counted.get(row.campaign_id, Outcomes()),
            tuple(sorted(took_part[row.campaign_id])),
        )
        for row in chosen
    ]


def is_empty(session: Session) -> bool:
    """Whether the archive has no campaign, no finding and no document in quarantine."""
    return not session.scalar(select(or_(*(select(table).exists() for table in (Campaign, Finding, Quarantined)))))


def newest_campaign(session: Session) -> str | None:
    """The monthly campaign that was planned last; without one the last of the others, an acceptance of nodes only where there is nothing else.
    Those with imported series alone do not count. None if there is none."""
    own = (
        select(SeriesCampaign.series_key)
        .join(Series, Series.series_key == SeriesCampaign.series_key)
        .where(SeriesCampaign.campaign_id == Campaign.campaign_id, Series.source != "imported")
    )
    # A rerun of one workload and an acceptance of nodes answer a question of their own, not how the providers stand.
    rank = case({"monthly": 0, "on_demand": 1}, value=Campaign.purpose, else_=2)
    query = select(Campaign.campaign_id).where(own.exists()).order_by(rank, Campaign.planned_at.desc(), Campaign.campaign_id.desc())
    return session.scalars(query.limit(1)).first()


NO_ACCEPTANCE: tuple[Purpose, ...] = ("monthly", "on_demand", "imported")


def series_campaigns(
    session: Session,
    series: str | Sequence[str],
    latest: int,
    between: Span = (None, None),
    *,
    purpose: Purpose | Collection[Purpose] | None = None,
) -> list[tuple[str, datetime]]:
    """(campaign, planned for) of the newest campaigns of a series, or of several, of a span and of purposes if asked, oldest first; an index
    answers it."""
    query = where_equal(select(SeriesCampaign.campaign_id, SeriesCampaign.planned_at).distinct(), (SeriesCampaign.series_key, series))
    if purpose is not None:
        query = query.join(Campaign, Campaign.campaign_id == SeriesCampaign.campaign_id)
    query = where_within(where_equal(query, (Campaign.purpose, purpose)), SeriesCampaign.planned_at, between)
    newest = query.order_by(SeriesCampaign.planned_at.desc(), SeriesCampaign.campaign_id.desc()).limit(latest)
    return [(row.campaign_id, row.planned_at) for row in session.execute(newest)][::-1]


def result_campaigns(session: Session, series_key: str, latest: int, between: Span = (None, None)) -> list[tuple[str, datetime]]:
    """`series_campaigns` without acceptances, which measure single nodes; those where the series has no other campaign."""
    without = series_campaigns(session, series_key, latest, between, purpose=NO_ACCEPTANCE)
    return without or series_campaigns(session, series_key, latest, between)


def latest_campaign(session: Session, series_key: str) -> str | None:
    """The newest of `result_campaigns`; None if there is none."""
    return next((campaign for campaign, _ in result_campaigns(session, series_key, 1)), None)


def outcomes_by(session: Session, key: InstrumentedAttribute[str], *which: ColumnElement[bool]) -> dict[str, Outcomes]:
    """How the trials of each `key`, a campaign or a series, ended, counted by the database: a year of a large installation does not pass through
    Python. A trial with a usable attempt is usable, whatever its other attempts were; else its last attempt says how it ended."""
    trial = (Trial.series_key, Trial.campaign_id, Trial.slot, Trial.repeat)  # in the order of the natural key's index
    rank = func.row_number().over(partition_by=trial, order_by=(case((_ACCEPTED, 1), else_=0).desc(), Trial.attempt.desc()))
    best = select(key.label("key"), Trial.status, Trial.quality_action, rank.label("rank")).where(EFFECTIVE, *which).subquery()
    ended = (best.c.key, best.c.status, best.c.quality_action)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in session.execute(select(*ended, func.count().label("n")).where(best.c.rank == 1).group_by(*ended)):
        outcome = "usable" if usable(row) else "rejected" if row.status in _MEASURED else row.status
        counts[row.key][outcome] += row.n
    return {name: Outcomes(planned=counted.total(), **counted) for name, counted in counts.items()}


def _series_by_campaign(session: Session, series_key: str | None, ids: Sequence[str] | None) -> dict[str, Counter[Source]]:
    """How many series of each source took part in each campaign."""
    query = select(SeriesCampaign.campaign_id, Series.source, func.count().label("n"))
    query = query.join(Series, Series.series_key == SeriesCampaign.series_key)
    query = where_equal(query, (SeriesCampaign.series_key, series_key), (SeriesCampaign.campaign_id, ids))
    counts: dict[str, Counter[Source]] = defaultdict(Counter)
    for row in session.execute(query.group_by(SeriesCampaign.campaign_id, Series.source)):
        counts[row.campaign_id][cast(Source, row.source)] += row.n
    return counts


def usable(attempt: Any) -> bool:
    """Whether an attempt that no correction replaced counts: the rule of USABLE for a row."""
    return attempt.status in _MEASURED and attempt.quality_action != "reject"


def document(session: Session, trial_id: str, attempt: int | None = None) -> ResultDocument | None:
    """The whole document of an attempt; without `attempt`, of the last usable one, else of the last. None if there is none, such as of an
    imported result (see `imported`).

    InvalidResult if the archived document does not hold (see verify).
    """
    query = (
        select(Document.content, Trial.attempt, Trial.status, Trial.quality_action)
        .join(Trial, Trial.id == Document.trial_pk)
        .where(Trial.trial_id == trial_id, Trial.launcher != IMPORTED_LAUNCHER)
    )
    # An attempt that is asked for is shown, corrected or not.
    query = query.where(Trial.attempt == attempt if attempt is not None else EFFECTIVE)
    rows = session.execute(query.order_by(Trial.attempt, Trial.id)).all()
    if not rows:
        return None
    best = max(rows, key=lambda row: (usable(row), row.attempt))
    return _parsed(best.content, trial_id, best.attempt)


def documents(session: Session, campaign_id: str) -> dict[tuple[str, int], ResultDocument]:
    """Every document of a campaign that no correction replaced, by trial and attempt; imported results have none.

    InvalidResult if an archived document does not hold (see verify).
    """
    query = select(Document.content, Trial.trial_id, Trial.attempt).join(Trial, Trial.id == Document.trial_pk)
    query = query.where(Trial.campaign_id == campaign_id, Trial.launcher != IMPORTED_LAUNCHER, EFFECTIVE)
    return {(row.trial_id, row.attempt): _parsed(row.content, row.trial_id, row.attempt) for row in session.execute(query)}


def _parsed(content: str, trial_id: str, attempt: int) -> ResultDocument:
    return bounded_json.validate_model(ResultDocument, content, f"the archived document of {trial_id}#{attempt} does not hold")


def metric_history(
    session: Session, series_key: str, metric: str, statistic: str, phase: str = "steady", campaigns: Sequence[str] | None = None
) -> list[MetricPoint]:
    """One metric over all campaigns of a series (or these), oldest first, by each trial's last usable attempt; absent values are left out."""
    own = (Trial.series_key == series_key, *USABLE, *(() if campaigns is None else (Trial.campaign_id.in_(campaigns),)))
    rank = func.row_number().over(partition_by=(Trial.campaign_id, Trial.slot, Trial.repeat), order_by=Trial.attempt.desc())
    best = select(Trial.id, Trial.trial_id, Trial.campaign_id, Trial.slot, Trial.repeat, rank.label("rank")).where(*own).subquery()
    query = (
        select(
            best.c.campaign_id, SeriesCampaign.planned_at, best.c.slot, best.c.repeat, best.c.trial_id, Metric.value, Metric.n
        )
        .join(Metric, Metric.trial_pk == best.c.id)
        .join(SeriesCampaign, (SeriesCampaign.series_key == series_key) & (SeriesCampaign.campaign_id == best.c.campaign_id))
        .where(best.c.rank == 1, Metric.metric == metric, Metric.statistic == statistic, Metric.phase == phase)
        .where(Metric.value.is_not(None))
        .order_by(SeriesCampaign.planned_at, best.c.campaign_id, best.c.slot, best.c.repeat)
    )  # fmt: skip
    return [MetricPoint(*row) for row in session.execute(query)]


def outcome_status(row: Any) -> Status:
    """An attempt's status for drift."""
    return "invalid" if row.quality_action == "reject" and row.status in _MEASURED else cast(Status, row.status)


def newest_records(session: Session, campaign_id: str | None = None) -> dict[tuple[str, str], datetime]:
    """(Campaign, provider) → when its newest attempt of a DAG run was recorded; of one campaign, if named."""
    query = select(Trial.campaign_id, Series.provider, func.max(Trial.recorded_at)).join(Series, Series.series_key == Trial.series_key)
    query = where_equal(query.where(Trial.dag_id.is_not(None), Series.source != "imported"), (Trial.campaign_id, campaign_id))
    return {(campaign, provider): at for campaign, provider, at in session.execute(query.group_by(Trial.campaign_id, Series.provider))}


@dataclass(frozen=True)
class CampaignChange:
    """`recorded_at`: the last attempt of the campaign; `changed_at`: that, or what was concluded, corrected, quarantined or expired since."""

    campaign_id: str
    recorded_at: datetime
    changed_at: datetime


def campaign_changes(session: Session) -> list[CampaignChange]:
    """Campaign → times of its last recorded attempt and of its bundle's last change; campaigns without a trial are left out."""
    recorded = dict(session.execute(select(Trial.campaign_id, func.max(Trial.recorded_at)).group_by(Trial.campaign_id)).tuples().all())
    changes = (
        select(Finding.campaign_id, func.max(Finding.updated_at)).group_by(Finding.campaign_id),
        select(Finding.campaign_id, func.max(Finding.last_seen_at)).group_by(Finding.campaign_id),
        select(Baseline.campaign_id, func.max(Baseline.accepted_at)).group_by(Baseline.campaign_id),
        select(Baseline.campaign_id, func.max(Baseline.superseded_at)).group_by(Baseline.campaign_id),
        select(Quarantined.campaign_id, func.max(Quarantined.updated_at)).group_by(Quarantined.campaign_id),
        select(AuditEntry.subject, func.max(AuditEntry.at)).where(AuditEntry.subject.in_(recorded)).group_by(AuditEntry.subject),
        select(Trial.campaign_id, func.max(Expired.expired_at)).join(Expired, Expired.trial_pk == Trial.id).group_by(Trial.campaign_id),
    )
    last = dict(recorded)
    for query in changes:
        for campaign_id, at in session.execute(query):
            if campaign_id in last and at is not None:
                last[campaign_id] = max(last[campaign_id], at)
    return [CampaignChange(name, recorded[name], last[name]) for name in sorted(recorded)]
