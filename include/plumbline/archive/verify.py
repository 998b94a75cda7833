"""Whether the archive still holds together: references, hashes, and rows against the documents they were made from."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError
from sqlalchemy import ForeignKeyConstraint, and_, func, or_, select
from sqlalchemy.orm import Session

from plumbline.archive import outside, signing_keys
from plumbline.archive.models import Base, Document, Environment, Metric, Trial
from plumbline.archive.observed import Snapshot
from plumbline.declarations import digest
from plumbline.results import ResultDocument, signing
from plumbline.results.outside import OutsideResult
from plumbline.results.surroundings import surroundings

_BATCH = 200


def problems(session: Session) -> list[str]:
    """Everything that is broken, one sentence each; empty if the archive is sound. Evidence files: see `files`."""
    return [*_references(session), *_environments(session), *_snapshots(session), *_trials(session)]


def _references(session: Session) -> Iterator[str]:
    for table in Base.metadata.sorted_tables:
        for constraint in (c for c in table.constraints if isinstance(c, ForeignKeyConstraint)):
            parent = constraint.referred_table.alias()
            pairs = [(element.parent, parent.c[element.column.name]) for element in constraint.elements]
            query = (
                select(func.count())
                .select_from(table.outerjoin(parent, and_(*(child == target for child, target in pairs))))
                .where(*(child.is_not(None) for child, _ in pairs), or_(*(target.is_(None) for _, target in pairs)))
            )
            broken = session.scalar(query)
            if broken:
                names = ", ".join(column.name for column in constraint.columns)
                yield f"{table.name}: {broken} rows name a {names} that {constraint.referred_table.name} does not have"


def _environments(session: Session) -> Iterator[str]:
    for row in session.execute(select(Environment.environment_hash, Environment.facts)):
        found = digest(dict(sorted(row.facts.items())))
        if found != row.environment_hash:
            yield f"environment {row.environment_hash}: the facts hash to {found}"


def _snapshots(session: Session) -> Iterator[str]:
    for row in session.execute(select(Snapshot.snapshot_id, Snapshot.provider, Snapshot.facts, Snapshot.facts_hash)):
        found = digest(dict(sorted(row.facts.items())))
        if found != row.facts_hash:
            yield f"snapshot {row.snapshot_id} of {row.provider}: the facts hash to {found}, not to {row.facts_hash}"


def _trials(session: Session) -> Iterator[str]:
    last = 0
    while True:
        batch = session.scalars(select(Trial).where(Trial.id > last).order_by(Trial.id).limit(_BATCH)).all()
        if not batch:
            return
        for trial in batch:
            yield from trial_problems(session, trial)
        last = batch[-1].id
        session.expunge_all()  # a million trials must not pile up in memory


def trial_problems(session: Session, trial: Trial) -> Iterator[str]:
    """What is broken in one trial: its document, or a row that says something else than the document."""
    name = f"{trial.trial_id}#{trial.attempt}"
    try:
        content = session.scalars(select(Document.content).where(Document.trial_pk == trial.id)).first()
    except (zlib.error, UnicodeDecodeError) as error:
        yield f"{name}: its document cannot be unpacked ({error})"
        return
    if content is None:
        yield f"{name}: its document is missing"
        return
    try:
        model = OutsideResult if trial.launcher == outside.LAUNCHER else ResultDocument
        document: ResultDocument | OutsideResult = model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        yield f"{name}: its document does not hold: {where}{': ' if where else ''}{first['msg'].removeprefix('Value error, ')}"
        return
    for column, expected in _columns(document).items():
        found = getattr(trial, column)
        if found != expected:
            yield f"{name}: {column} is {found}; its document says {expected}"
    yield from _metrics(session, name, trial, document)
    if isinstance(document, ResultDocument):
        found = signing.verify(document, signing_keys.of_trial(session, trial.campaign_id, trial.trial_id))
        if found.status == "broken":
            yield f"{name}: {found.detail}"


def _columns(document: ResultDocument | OutsideResult) -> dict[str, Any]:
    if isinstance(document, OutsideResult):
        return outside.columns(document)
    asked, environment = document.trial, surroundings(document)
    named = (
        "series_key",
        "campaign_id",
        "slot",
        "repeat",
        "attempt",
        "trial_id",
        "spec_hash",
        "criteria_hash",
        "schedule_hash",
        "replay_of",
    )
    return {
        **{column: getattr(asked, column) for column in named},
        "status": document.validity.status,
        "failure_class": document.validity.failure_class,
        "environment_hash": environment.environment_hash if environment else None,
        "checksum": document.checksum,
    }


def _metrics(session: Session, name: str, trial: Trial, document: ResultDocument | OutsideResult) -> Iterator[str]:
    query = select(Metric.phase, Metric.metric, Metric.statistic, Metric.value).where(Metric.trial_pk == trial.id)
    stored = {(m.phase, m.metric, m.statistic): m.value for m in session.execute(query)}
    for row in document.metrics:
        key = (row.phase, row.metric, row.statistic)
        if key not in stored:
            if trial.quality_action != "reject":
                yield f"{name}: {' '.join(key)} is in its document but not in the archive"
        elif stored[key] != row.value:
            yield f"{name}: {' '.join(key)} is {stored[key]}; its document says {row.value}"
