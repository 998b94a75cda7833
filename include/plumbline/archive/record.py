"""Recording one attempt of one trial: idempotent by natural key, and never at the cost of a row that is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Literal

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.inserts import insert_new
from plumbline.archive.models import (
    NATURAL_KEY,
    Campaign,
    Document,
    Environment,
    Evidence,
    Metric,
    Series,
    SeriesCampaign,
    Stage,
    Telemetry,
    Trial,
)
from plumbline.archive.views import Action, Source
from plumbline.results import MetricRow, Reason, ResultDocument
from plumbline.results.surroundings import surroundings

Recorded = Literal["inserted", "unchanged", "kept"]


class Refused(ValueError):
    """A document that must not enter the archive; the message says which and why. Nothing was written."""


def record(
    session: Session,
    document: ResultDocument,
    *,
    action: Action,
    quality_reasons: Sequence[Reason],
    uri: str,
    extra_metrics: Sequence[MetricRow],
    now: datetime,
) -> Recorded:
    """Write the attempt, or find that it is there. See Archive.record."""
    metrics = metric_rows(document, action, extra_metrics)
    _place(session, document, now)
    values = trial_row(document, action, quality_reasons, uri, now)
    if not insert_new(session, Trial, values, NATURAL_KEY):
        return _met_again(session, document, action, quality_reasons, uri, now)
    pk = session.scalars(select(Trial.id).where(*(getattr(Trial, name) == values[name] for name in NATURAL_KEY))).one()
    content = document.model_dump_json()
    session.execute(insert(Document), [{"trial_pk": pk, "schema_version": document.schema_version, "content": content}])
    for model, rows in (*parts(document), (Metric, numbers(metrics))):
        if rows:
            session.execute(insert(model), [{"trial_pk": pk, **row} for row in rows])
    return "inserted"


def parts(document: ResultDocument) -> tuple[tuple[Any, list[dict[str, Any]]], ...]:
    """Tables with the rows of what the document lists, but for its numbers; a row's `position` is its place in the document."""
    listed = ((Stage, document.stages), (Telemetry, document.telemetry), (Evidence, document.evidence))
    return tuple((model, [{"position": i, **part.model_dump()} for i, part in enumerate(of)]) for model, of in listed)


def numbers(metrics: Sequence[MetricRow]) -> list[dict[str, Any]]:
    """Rows of `metrics`; why a number is absent and how it was measured stay in the document."""
    return [m.model_dump(exclude={"reason", "method"}) for m in metrics]


def _place(session: Session, document: ResultDocument, now: datetime) -> None:
    """The campaign, series and environment that the attempt belongs to, made on their first trial."""
    trial, series = document.trial, {**series_row(document), "recorded_at": now}
    insert_new(
        session,
        Campaign,
        {"campaign_id": trial.campaign_id, "reason": trial.reason, "planned_at": trial.planned_at, "recorded_at": now},
        ["campaign_id"],
    )
    if not insert_new(session, Series, series, ["series_key"]):
        known = session.scalars(select(Series.source).where(Series.series_key == trial.series_key)).one()
        if known != series["source"]:
            raise Refused(
                f"{trial.trial_id}: a {series['source']} trial cannot join the series {trial.series_key}, which is {known}; "
                "measured and simulated numbers never share a series (give the simulated provider a name of its own)"
            )
    membership = {"series_key": trial.series_key, "campaign_id": trial.campaign_id, "planned_at": trial.planned_at}
    insert_new(session, SeriesCampaign, membership, ["series_key", "campaign_id"])
    environment = surroundings(document)
    if environment is not None:
        row = {"environment_hash": environment.environment_hash, "facts": environment.facts, "recorded_at": now}
        insert_new(session, Environment, row, ["environment_hash"])


def series_row(document: ResultDocument) -> dict[str, Any]:
    """The series that the attempt belongs to, as a row but for when it was recorded."""
    trial = document.trial
    source: Source = "simulated" if document.simulated else "measured"
    return {
        "series_key": trial.series_key,
        "kind": trial.workload.kind,
        "workload": trial.workload.name,
        "version": trial.workload.version,
        "provider": trial.provider.name,
        "region": trial.provider.region,
        "instance_type": trial.provider.instance_type,
        "source": source,
    }


def trial_row(document: ResultDocument, action: Action, quality_reasons: Sequence[Reason], uri: str, now: datetime) -> dict[str, Any]:
    """The attempt as a row of `trials`: its verdict, address and time of recording beside what its document says."""
    trial, origin, environment = document.trial, document.trial.origin, surroundings(document)
    moments = [event.utc for event in (*document.timeline, *(document.launch.events if document.launch else ()))]
    return {
        "series_key": trial.series_key,
        "campaign_id": trial.campaign_id,
        "slot": trial.slot,
        "repeat": trial.repeat,
        "attempt": trial.attempt,
        "trial_id": trial.trial_id,
        "status": document.validity.status,
        "reasons": [r.model_dump() for r in document.validity.reasons],
        "failure_class": document.validity.failure_class,
        "quality_action": action,
        "quality_reasons": [r.model_dump() for r in quality_reasons],
        "spec_hash": trial.spec_hash,
        "criteria_hash": trial.criteria_hash,
        "schedule_hash": trial.schedule_hash,
        "environment_hash": environment.environment_hash if environment else None,
        "launcher": trial.provider.launcher.kind,
        "harness_version": document.harness_version,
        "planned_at": trial.planned_at,
        "started_at": min(moments, default=None),
        "finished_at": max(moments, default=None),
        "recorded_at": now,
        "replay_of": trial.replay_of,
        "dag_id": origin.dag_id if origin else None,
        "run_id": origin.run_id if origin else None,
        "bundle_version": origin.bundle_version if origin else None,
        "uri": uri,
        "checksum": document.checksum,
    }


def _met_again(
    session: Session, document: ResultDocument, action: Action, quality_reasons: Sequence[Reason], uri: str, now: datetime
) -> Recorded:
    """The natural key is taken: by the same document (a retry), or by another one, which then is suspicious and only logged."""
    trial = document.trial
    key = {name: getattr(trial, name) for name in NATURAL_KEY}
    old = session.execute(
        select(Trial.checksum, Trial.uri, Trial.quality_action).where(*(getattr(Trial, name) == value for name, value in key.items()))
    ).one()
    subject = f"{trial.trial_id}#{trial.attempt}"
    if old.checksum == document.checksum:
        if old.quality_action != action:
            audit.write(
                session,
                now,
                who="record",
                what="verdict_differs",
                subject=subject,
                why="the same document was checked again with another verdict; the first one stands",
                detail={"recorded": old.quality_action, "arrived": action, "reasons": [r.model_dump() for r in quality_reasons]},
                once=f"verdict_differs {subject} {document.checksum} {action}",
            )
        return "unchanged"
    audit.write(
        session,
        now,
        who="record",
        what="document_kept_out",
        subject=subject,
        why="the archive holds another document of the same attempt; measurements are never replaced",
        detail={
            **key,
            "kept": {"checksum": old.checksum, "uri": old.uri},
            "arrived": {"checksum": document.checksum, "uri": uri, "status": document.validity.status},
        },
        once=f"document_kept_out {' '.join(str(v) for v in key.values())} {document.checksum}",
    )
    return "kept"


def metric_rows(document: ResultDocument, action: Action, extra: Sequence[MetricRow]) -> list[MetricRow]:
    """The numbers of the attempt; Refused if it repeats one and is not rejected."""
    rows = [*document.metrics, *extra]
    seen = Counter((r.phase, r.metric, r.statistic) for r in rows)
    repeated = sorted(key for key, count in seen.items() if count > 1)
    if repeated and action != "reject":
        raise Refused(
            f"{document.trial.trial_id}: {' '.join(repeated[0])} stands {seen[repeated[0]]} times; expected one row for each phase, metric "
            "and statistic"
        )
    # Of a rejected document the ambiguous rows are left out; the document itself is kept whole.
    return [r for r in rows if seen[r.phase, r.metric, r.statistic] == 1]


def utc_now() -> datetime:
    """The archive's clock."""
    return datetime.now(timezone.utc)
