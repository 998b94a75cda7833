"""Outside results in the archive: campaigns of imported series, which join no measured one. A result is written once, as a trial is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from pydantic import ValidationError
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from plumbline.archive.inserts import insert_new
from plumbline.archive.models import NATURAL_KEY, Campaign, Document, Environment, Metric, Series, SeriesCampaign, Trial
from plumbline.archive.record import Refused
from plumbline.results import BadResult
from plumbline.results.outside import OutsideResult

LAUNCHER = "imported"
"""Stands in a trial's row where a measured one names what started it."""


@dataclass(frozen=True)
class OutsideImport:
    """What became of the results of one import. `kept_out`: trial ids of which the archive holds something else, which stays."""

    inserted: int
    unchanged: int
    kept_out: tuple[str, ...]


def save(session: Session, results: Sequence[OutsideResult], now: datetime) -> OutsideImport:
    """Write the results that are not there yet. Refused, and nothing written, if a series of theirs is one that we measured."""
    inserted, unchanged = [], 0
    kept_out = []
    for row in _first_of_each(results, "campaign_id"):
        values = {"campaign_id": row.campaign_id, "reason": row.reason, "planned_at": row.published_at, "recorded_at": now}
        insert_new(session, Campaign, values, ["campaign_id"])
    for row in _first_of_each(results, "series_key"):
        _series(session, row, now)
    for place in sorted({(r.series_key, r.campaign_id, r.published_at) for r in results}):
        values = dict(zip(("series_key", "campaign_id", "planned_at"), place, strict=True))
        insert_new(session, SeriesCampaign, values, ["series_key", "campaign_id"])
    for row in _first_of_each([r.environment for r in results], "environment_hash"):
        values = {"environment_hash": row.environment_hash, "facts": row.facts, "recorded_at": now}
        insert_new(session, Environment, values, ["environment_hash"])
    for result in results:
        if insert_new(session, Trial, {**columns(result), "recorded_at": now}, NATURAL_KEY):
            inserted.append(result)
        elif _known(session, result).checksum == result.checksum:
            unchanged += 1
        else:
            kept_out.append(result.trial_id)
    for batch in _batches(inserted):
        keys = {trial_id: pk for pk, trial_id in session.execute(_ids(batch))}
        documents = [{"trial_pk": keys[r.trial_id], "schema_version": r.schema_version, "content": r.model_dump_json()} for r in batch]
        session.execute(insert(Document), documents)
        metrics = [{"trial_pk": keys[r.trial_id], **m.model_dump()} for r in batch for m in r.metrics]
        if metrics:
            session.execute(insert(Metric), metrics)
    return OutsideImport(len(inserted), unchanged, tuple(kept_out))


def one(session: Session, trial_id: str) -> OutsideResult | None:
    """An imported result as it was imported; None if there is none of that id. BadResult if it no longer holds."""
    query = select(Document.content).join(Trial, Trial.id == Document.trial_pk)
    content = session.scalars(query.where(Trial.trial_id == trial_id, Trial.launcher == LAUNCHER)).first()
    if content is None:
        return None
    try:
        return OutsideResult.model_validate_json(content)
    except ValidationError as error:
        raise BadResult(f"the imported result {trial_id} does not hold: {error.errors(include_url=False)[0]['msg']}") from error


def _series(session: Session, result: OutsideResult, now: datetime) -> None:
    if insert_new(session, Series, {**series_row(result), "recorded_at": now}, ["series_key"]):
        return
    source = session.scalars(select(Series.source).where(Series.series_key == result.series_key)).one()
    if source != "imported":
        raise Refused(f"{result.trial_id}: an imported result cannot join the series {result.series_key}, which is {source}")


def series_row(result: OutsideResult) -> dict[str, Any]:
    """The result's series as a row, but for when it was recorded."""
    named = ("series_key", "kind", "workload", "version", "provider", "region", "instance_type")
    return {**{name: getattr(result, name) for name in named}, "source": "imported"}


def columns(result: OutsideResult) -> dict[str, Any]:
    """The result as a row of `trials`, but for when it was recorded."""
    return {
        "series_key": result.series_key,
        "campaign_id": result.campaign_id,
        "slot": result.system,
        "repeat": result.repeat,
        "attempt": 1,
        "trial_id": result.trial_id,
        "status": result.validity.status,
        "reasons": [r.model_dump() for r in result.validity.reasons],
        "failure_class": result.validity.failure_class,
        "quality_action": "accept",
        "quality_reasons": [],
        "spec_hash": result.spec_hash,
        "criteria_hash": result.criteria_hash,
        "schedule_hash": None,
        "environment_hash": result.environment.environment_hash,
        "launcher": LAUNCHER,
        "harness_version": result.publisher,
        "planned_at": result.published_at,
        "started_at": None,
        "finished_at": None,
        "replay_of": None,
        "dag_id": None,
        "run_id": None,
        "bundle_version": None,
        "uri": result.url,
        "checksum": result.checksum,
    }


def _known(session: Session, result: OutsideResult) -> Any:
    known = columns(result)
    return session.execute(select(Trial.checksum).where(*(getattr(Trial, name) == known[name] for name in NATURAL_KEY))).one()


def _ids(batch: Sequence[OutsideResult]) -> Any:
    return select(Trial.id, Trial.trial_id).where(Trial.trial_id.in_([r.trial_id for r in batch]), Trial.launcher == LAUNCHER)


def _batches(results: Sequence[OutsideResult], size: int = 500) -> Iterator[Sequence[OutsideResult]]:
    for start in range(0, len(results), size):
        yield results[start : start + size]


def _first_of_each(rows: Sequence[Any], name: Literal["campaign_id", "series_key", "environment_hash"]) -> list[Any]:
    """One of each value, in the values' order: all writers lock in one order, so that no two wait for each other."""
    found: dict[str, Any] = {}
    for row in rows:
        found.setdefault(cast(str, getattr(row, name)), row)
    return [found[key] for key in sorted(found)]
