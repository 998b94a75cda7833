"""Writes attempts, corrections and signing keys. Idempotent by natural key; never replaces a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import insert, select, update
from sqlalchemy.exc import DataError
from sqlalchemy.orm import Session

from plumbline.archive import audit, retention
from plumbline.archive.engine import one_line
from plumbline.archive.records import Action, Source
from plumbline.archive.repository import insert_new
from plumbline.archive.samples import metric_conflicts
from plumbline.archive.schema import (
    NATURAL_KEY,
    Campaign,
    Correction,
    Document,
    Environment,
    Evidence,
    Metric,
    Series,
    SeriesCampaign,
    SigningKey,
    Stage,
    Telemetry,
    Trial,
)
from plumbline.results import MetricRow, Reason, ResultDocument
from plumbline.results.launch_record import effective_environment, launch_metrics

Recorded = Literal["inserted", "unchanged", "kept"]


class Refused(ValueError):
    """A document that must not enter the archive; the message says which and why. Nothing was written."""


def record(
    session: Session,
    now: datetime,
    document: ResultDocument,
    *,
    action: Action = "accept",
    quality_reasons: Sequence[Reason] = (),
    uri: str,
) -> Recorded:
    """Write one attempt: whole or, if the process dies, not at all.

    `action` and `quality_reasons` are the verdict of the quality checks, `uri` the attempt's folder in the result store. The numbers are the
    document's and those of its launch.
    "inserted": it is new. "unchanged": the same document was there (a retry). "kept": another document of the same attempt
    (series, campaign, slot, repeat, attempt) was there and stays; the newcomer's URI and checksum went to the audit log.
    Raises Refused for a document that repeats a metric, would mix measured and simulated numbers in one series, gives a metric of its own another
    unit or direction than the archive has, or holds a value that the database cannot store.
    """
    try:
        return _record(session, now, document, action, quality_reasons, uri)
    except (DataError, OverflowError) as error:  # the trial's other attempts are recorded
        raise Refused(f"{document.trial.trial_id}: the archive's database cannot store one of its values: {one_line(error)}") from error


def _record(
    session: Session,
    now: datetime,
    document: ResultDocument,
    action: Action,
    quality_reasons: Sequence[Reason],
    uri: str,
) -> Recorded:
    metrics = metric_rows(document, action)
    if document.trial.workload.own_metrics and action != "reject":
        for conflict in metric_conflicts(session, {row.metric: (row.unit, row.direction) for row in metrics}).values():
            raise Refused(f"{document.trial.trial_id}: {conflict}")
    _insert_parents(session, document, now)
    values = trial_row(document, action, quality_reasons, uri, now)
    if not insert_new(session, Trial, values, NATURAL_KEY):
        return _already_recorded(session, document, action, quality_reasons, uri, now)
    pk = session.scalars(select(Trial.id).filter_by(**{name: values[name] for name in NATURAL_KEY})).one()
    content = document.model_dump_json()
    session.execute(insert(Document), [{"trial_pk": pk, "schema_version": document.schema_version, "content": content}])
    for model, rows in (*child_rows(document), (Metric, metric_values(metrics))):
        if rows:
            session.execute(insert(model), [{"trial_pk": pk, **row} for row in rows])
    return "inserted"


def child_rows(document: ResultDocument) -> tuple[tuple[Any, list[dict[str, Any]]], ...]:
    """Table → rows of the document's lists, except its numbers; a row's `position` is its place in the document."""
    listed = ((Stage, document.stages), (Telemetry, document.telemetry), (Evidence, document.evidence))
    return tuple((model, [{"position": i, **part.model_dump()} for i, part in enumerate(of)]) for model, of in listed)


def metric_values(metrics: Sequence[MetricRow]) -> list[dict[str, Any]]:
    """Rows of `metrics`; why a number is absent and how it was measured stay in the document."""
    return [m.model_dump(exclude={"reason", "method"}) for m in metrics]


def _insert_parents(session: Session, document: ResultDocument, now: datetime) -> None:
    """The campaign, series and environment that the attempt belongs to, made on their first trial."""
    trial, series = document.trial, {**series_row(document), "recorded_at": now}
    insert_new(
        session,
        Campaign,
        {
            "campaign_id": trial.campaign_id,
            "reason": trial.reason,
            "planned_at": trial.planned_at,
            "recorded_at": now,
            "purpose": trial.purpose,
        },
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
    environment = effective_environment(document)
    if environment is not None:
        row = {"environment_hash": environment.environment_hash, "facts": environment.facts, "recorded_at": now}
        insert_new(session, Environment, row, ["environment_hash"])


def series_row(document: ResultDocument) -> dict[str, Any]:
    """The attempt's series as a row without the time of recording."""
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


_FROM_TRIAL = (*NATURAL_KEY, "trial_id", "spec_hash", "criteria_hash", "schedule_hash", "planned_at", "replay_of")
_FROM_ORIGIN = ("dag_id", "run_id", "bundle_version")


def trial_row(document: ResultDocument, action: Action, quality_reasons: Sequence[Reason], uri: str, now: datetime) -> dict[str, Any]:
    """The attempt as a row of `trials`: its verdict, address and time of recording beside what its document says."""
    trial, origin, environment = document.trial, document.trial.origin, effective_environment(document)
    moments = [event.utc for event in (*document.timeline, *(document.launch.events if document.launch else ()))]
    return {
        **{name: getattr(trial, name) for name in _FROM_TRIAL},
        **dict.fromkeys(_FROM_ORIGIN),
        **{name: getattr(origin, name) for name in _FROM_ORIGIN if origin},
        "status": document.validity.status,
        "reasons": [r.model_dump() for r in document.validity.reasons],
        "failure_class": document.validity.failure_class,
        "quality_action": action,
        "quality_reasons": [r.model_dump() for r in quality_reasons],
        "environment_hash": environment.environment_hash if environment else None,
        "launcher": trial.provider.launcher.kind,
        "harness_version": document.harness_version,
        "started_at": min(moments, default=None),
        "finished_at": max(moments, default=None),
        "recorded_at": now,
        "uri": uri,
        "checksum": document.checksum,
    }


def _already_recorded(
    session: Session, document: ResultDocument, action: Action, quality_reasons: Sequence[Reason], uri: str, now: datetime
) -> Recorded:
    """The result for a natural key in use: "unchanged" for the same document (a retry); another document is suspicious and only logged."""
    trial = document.trial
    key = {name: getattr(trial, name) for name in NATURAL_KEY}
    old = session.execute(select(Trial.checksum, Trial.uri, Trial.quality_action).filter_by(**key)).one()
    subject = f"{trial.trial_id}#{trial.attempt}"
    if old.checksum == document.checksum:
        if old.quality_action != action:
            audit.write_entry(
                session,
                now,
                who="record",
                what="verdict_differs",
                subject=subject,
                why="the same document was checked again with another verdict; the first one counts",
                detail={"recorded": old.quality_action, "arrived": action, "reasons": [r.model_dump() for r in quality_reasons]},
                once=f"verdict_differs {subject} {document.checksum} {action}",
            )
        return "unchanged"
    audit.write_entry(
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


def metric_rows(document: ResultDocument, action: Action) -> list[MetricRow]:
    """The numbers of the attempt and of its launch; Refused if it repeats one and is not rejected."""
    rows = [*document.metrics, *(launch_metrics(document.launch, document.timeline) if document.launch else ())]
    counts = Counter((r.phase, r.metric, r.statistic) for r in rows)
    repeated = sorted(key for key, count in counts.items() if count > 1)
    if repeated and action != "reject":
        raise Refused(
            f"{document.trial.trial_id}: {' '.join(repeated[0])} appears {counts[repeated[0]]} times; expected one row for each phase, "
            "metric and statistic"
        )
    # Of a rejected document the ambiguous rows are left out; the document itself is kept whole.
    return [r for r in rows if counts[r.phase, r.metric, r.statistic] == 1]


def correct(
    session: Session,
    now: datetime,
    document: ResultDocument,
    corrects: int,
    *,
    by: str,
    why: str,
    action: Action = "accept",
    quality_reasons: Sequence[Reason] = (),
    uri: str,
) -> Recorded:
    """Record `document`, a new attempt, in the place of the same trial's attempt `corrects`: both stay, only the new one counts. The same
    correction again is "unchanged".

    LookupError without such an attempt; ValueError without who and why; Refused if the document is of another trial, is not of a new
    attempt, or if another correction stands in the old attempt's place.
    """
    audit.require_author(by, why, "corrects the measurement")
    trial = document.trial
    columns = (Trial.id, Trial.series_key, Trial.campaign_id, Trial.slot, Trial.repeat, Trial.checksum)
    named = {"trial_id": trial.trial_id, "attempt": corrects, "campaign_id": trial.campaign_id}
    old = session.execute(select(*columns).filter_by(**named)).first()
    subject = f"{trial.trial_id}#{corrects}"
    if old is None:
        raise LookupError(f'the archive has no attempt "{subject}" to correct')
    key = (trial.series_key, trial.campaign_id, trial.slot, trial.repeat)
    if (old.series_key, old.campaign_id, old.slot, old.repeat) != key or trial.attempt <= corrects:
        raise Refused(
            f"{subject} cannot be corrected by attempt {trial.attempt} of {' '.join(map(str, key))}; expected a later attempt of the same trial"
        )
    recorded = record(session, now, document, action=action, quality_reasons=quality_reasons, uri=uri)
    own = {"trial_id": trial.trial_id, "attempt": trial.attempt, "checksum": document.checksum}
    new = session.scalars(select(Trial.id).filter_by(**own)).first()
    if new is None:
        raise Refused(
            f"{trial.trial_id}#{trial.attempt} is in the archive with another document; expected an attempt that is not there yet"
        )
    values = {"trial_pk": new, "corrects": old.id, "corrected_at": now, "corrected_by": by, "why": why}
    if not insert_new(session, Correction, values, ["corrects"]):
        corrected_by = session.scalars(select(Correction.trial_pk).where(Correction.corrects == old.id)).one()
        if corrected_by != new:
            raise Refused(f"{subject} was corrected already; correct the correction instead")
        return "unchanged"
    retention.copy_expiry(session, old.id, new)
    detail = {"by": f"{trial.trial_id}#{trial.attempt}", "action": action, "before": old.checksum, "after": document.checksum}
    audit.write_entry(session, now, who=by, what="measurement_corrected", subject=subject, why=why, detail=detail)
    return recorded


_SIGNING_KEY = ("campaign_id", "trial_id", "attempt")


def issue_signing_key(session: Session, now: datetime, campaign_id: str, trial_id: str, attempt: int, public_key: str) -> None:
    """Store the public key (64 hexadecimal digits) of an attempt that is not announced yet. One of a launcher that died before it announced the attempt is replaced: no pod ever had it."""
    key = dict(zip(_SIGNING_KEY, (campaign_id, trial_id, attempt), strict=True))
    values = {"public_key": public_key, "issued_at": now}
    if not insert_new(session, SigningKey, {**key, **values}, _SIGNING_KEY):
        session.execute(update(SigningKey).filter_by(**key).values(**values))


def signing_keys(session: Session, campaign_id: str, trial_id: str) -> dict[int, str]:
    """The public keys that the launcher issued for a trial, by attempt; empty if it issued none."""
    query = select(SigningKey.attempt, SigningKey.public_key).filter_by(campaign_id=campaign_id, trial_id=trial_id)
    return dict(session.execute(query).tuples().all())
