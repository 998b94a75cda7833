"""Results published by others: imported whole, listed, and forgotten when they were imported under a wrong name. Idempotent by natural key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, cast

from sqlalchemy import delete, exists, func, insert, or_, select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.recording import Refused
from plumbline.archive.records import IMPORTED_LAUNCHER
from plumbline.archive.repository import batches, insert_new
from plumbline.archive.schema import (
    NATURAL_KEY,
    Baseline,
    Campaign,
    Correction,
    Document,
    Environment,
    Finding,
    Metric,
    Series,
    SeriesCampaign,
    Trial,
)
from plumbline.results import bounded_json
from plumbline.results.published import PublishedResult


@dataclass(frozen=True)
class PublishedImport:
    """The outcome of an import. `kept_out`: trial ids under which the archive holds other results, which stay."""

    inserted: int
    unchanged: int
    kept_out: tuple[str, ...]


def import_published(session: Session, now: datetime, results: Sequence[PublishedResult]) -> PublishedImport:
    """Write published results as campaigns of imported series, all or none; those that are there stay as they are.

    Refused if one would join a series that we measured or simulated.
    """
    inserted, unchanged = [], 0
    kept_out = []
    for row in _first_of_each(results, "campaign_id"):
        values = {"campaign_id": row.campaign_id, "reason": row.reason, "planned_at": row.published_at, "recorded_at": now}
        values["purpose"] = "imported"
        insert_new(session, Campaign, values, ["campaign_id"])
    for row in _first_of_each(results, "series_key"):
        _insert_published_series(session, row, now)
    for place in sorted({(r.series_key, r.campaign_id, r.published_at) for r in results}):
        values = dict(zip(("series_key", "campaign_id", "planned_at"), place, strict=True))
        insert_new(session, SeriesCampaign, values, ["series_key", "campaign_id"])
    for row in _first_of_each([r.environment for r in results], "environment_hash"):
        values = {"environment_hash": row.environment_hash, "facts": row.facts, "recorded_at": now}
        insert_new(session, Environment, values, ["environment_hash"])
    for result in results:
        row = published_trial_row(result)
        if insert_new(session, Trial, {**row, "recorded_at": now}, NATURAL_KEY):
            inserted.append(result)
        elif session.scalar(select(Trial.checksum).filter_by(**{name: row[name] for name in NATURAL_KEY})) == result.checksum:
            unchanged += 1
        else:
            kept_out.append(result.trial_id)
    for batch in batches(inserted):
        of = select(Trial.trial_id, Trial.id).where(Trial.trial_id.in_([r.trial_id for r in batch]), Trial.launcher == IMPORTED_LAUNCHER)
        keys = dict(session.execute(of).tuples().all())
        documents = [{"trial_pk": keys[r.trial_id], "schema_version": r.schema_version, "content": r.model_dump_json()} for r in batch]
        session.execute(insert(Document), documents)
        metrics = [{"trial_pk": keys[r.trial_id], **m.model_dump()} for r in batch for m in r.metrics]
        if metrics:
            session.execute(insert(Metric), metrics)
    return PublishedImport(len(inserted), unchanged, tuple(kept_out))


def published_result(session: Session, trial_id: str) -> PublishedResult | None:
    """An imported result as it was imported; None if there is none of that id. InvalidResult if it no longer holds."""
    query = select(Document.content).join(Trial, Trial.id == Document.trial_pk)
    content = session.scalars(query.where(Trial.trial_id == trial_id, Trial.launcher == IMPORTED_LAUNCHER)).first()
    if content is None:
        return None
    return bounded_json.validate_model(PublishedResult, content, f"the imported result {trial_id} does not hold")


def published_results(session: Session, *workloads: str, latest: int = 12) -> list[PublishedResult]:
    """Runs imported from files of other benchmark tools for these workloads, newest first, at most `latest`."""
    query = select(Document.content).join(Trial, Trial.id == Document.trial_pk).join(Series, Series.series_key == Trial.series_key)
    query = query.where(Series.workload.in_(workloads), Series.source == "imported", Trial.launcher == IMPORTED_LAUNCHER)
    newest = session.scalars(query.order_by(Trial.planned_at.desc(), Trial.id).limit(latest))
    return [result for content in newest if (result := PublishedResult.model_validate_json(content)).source is not None]


def _insert_published_series(session: Session, result: PublishedResult, now: datetime) -> None:
    if insert_new(session, Series, {**published_series_row(result), "recorded_at": now}, ["series_key"]):
        return
    source = session.scalars(select(Series.source).where(Series.series_key == result.series_key)).one()
    if source != "imported":
        raise Refused(f"{result.trial_id}: an imported result cannot join the series {result.series_key}, which is {source}")


def published_series_row(result: PublishedResult) -> dict[str, Any]:
    """The result's series as a row without the time of recording."""
    columns = ("series_key", "kind", "workload", "version", "provider", "region", "instance_type")
    return {**{name: getattr(result, name) for name in columns}, "source": "imported"}


def published_trial_row(result: PublishedResult) -> dict[str, Any]:
    """The result as a row of `trials` without the time of recording."""
    own = ("series_key", "campaign_id", "repeat", "trial_id", "spec_hash", "criteria_hash", "checksum")
    absent = ("schedule_hash", "started_at", "finished_at", "replay_of", "dag_id", "run_id", "bundle_version")
    return {
        **{name: getattr(result, name) for name in own},
        **dict.fromkeys(absent),
        "slot": result.system,
        "attempt": 1,
        "status": result.validity.status,
        "reasons": [r.model_dump() for r in result.validity.reasons],
        "failure_class": result.validity.failure_class,
        "quality_action": "accept",
        "quality_reasons": [],
        "environment_hash": result.environment.environment_hash,
        "launcher": IMPORTED_LAUNCHER,
        "harness_version": result.publisher,
        "planned_at": result.published_at,
        "uri": result.address,
    }


def _first_of_each(rows: Sequence[Any], name: Literal["campaign_id", "series_key", "environment_hash"]) -> list[Any]:
    """One of each value, in the values' order: all writers lock in one order, so that no two wait for each other."""
    firsts: dict[str, Any] = {}
    for row in rows:
        firsts.setdefault(cast(str, getattr(row, name)), row)
    return [firsts[key] for key in sorted(firsts)]


@dataclass(frozen=True)
class ImportedRuns:
    """The runs of one import for one provider and workload. `import_id`: its campaign, named by the file's hash; `file`: None for a publisher's
    page."""

    import_id: str
    publisher: str
    file: str | None
    provider: str
    workload: str
    version: int
    runs: int
    measured_on: date
    imported_at: datetime


def list_imports(session: Session, import_id: str | None = None) -> list[ImportedRuns]:
    """Every import, newest first, or only the named one."""
    grouped = (Trial.campaign_id, Series.provider, Series.workload, Series.version)
    query = (
        select(*grouped, func.min(Trial.id).label("first"), func.count().label("runs"), func.max(Trial.recorded_at).label("at"))
        .join(Series, Series.series_key == Trial.series_key)
        .where(Series.source == "imported", *([] if import_id is None else [Trial.campaign_id == import_id]))
        .group_by(*grouped)
        .order_by(func.max(Trial.recorded_at).desc(), *grouped)
    )
    rows = session.execute(query).all()
    contents = dict(
        session.execute(select(Document.trial_pk, Document.content).where(Document.trial_pk.in_([r.first for r in rows]))).tuples().all()
    )
    imports = []
    for row in rows:
        result = PublishedResult.model_validate_json(contents[row.first])
        file = result.source.name if result.source is not None else None
        about = (row.campaign_id, result.publisher, file, row.provider, row.workload, row.version, row.runs)
        imports.append(ImportedRuns(*about, result.published_at.date(), row.at))
    return imports


def forget_import(
    session: Session, now: datetime, import_id: str, *, by: str, why: str, provider: str | None = None, workload: str | None = None
) -> list[ImportedRuns]:
    """Delete what an import wrote, all of it or of one provider and workload; the audit log keeps what it was.

    ValueError without who and why. LookupError for an unknown id. Refused for measured or simulated results, for an import of several providers
    or workloads of which none is named, and for one that a baseline, finding or correction names."""
    audit.require_author(by, why, "forgets the import")
    own = [runs for runs in list_imports(session, import_id) if provider in (None, runs.provider) and workload in (None, runs.workload)]
    if not own:
        _refuse_measured(session, import_id)
        scope = "".join(f" for {kind} {name}" for kind, name in (("provider", provider), ("workload", workload)) if name is not None)
        raise LookupError(f'the archive has no import "{import_id}"{scope}; `plumbline archive imports` lists them')
    if len({(runs.provider, runs.workload) for runs in own}) > 1 and provider is None and workload is None and own[0].file is not None:
        pairs = ", ".join(f"{runs.provider} {runs.workload}" for runs in own)
        raise Refused(f"{import_id} was imported for several: {pairs}; expected --provider, --workload or both")
    chosen = {(runs.provider, runs.workload, runs.version) for runs in own}
    keys = [
        key
        for key, *names in session.execute(
            select(Series.series_key, Series.provider, Series.workload, Series.version)
            .join(SeriesCampaign, SeriesCampaign.series_key == Series.series_key)
            .where(SeriesCampaign.campaign_id == import_id, Series.source == "imported")
        )
        if tuple(names) in chosen
    ]
    place = (Trial.campaign_id == import_id, Trial.series_key.in_(keys))
    trials = session.execute(select(Trial.id, Trial.trial_id, Trial.environment_hash).where(*place)).all()
    pks = [trial.id for trial in trials]
    _refuse_named(session, import_id, keys, pks)
    for batch in batches(pks):
        for model in (Metric, Document):
            session.execute(delete(model).where(model.trial_pk.in_(batch)))
        session.execute(delete(Trial).where(Trial.id.in_(batch)))
    session.execute(delete(SeriesCampaign).where(SeriesCampaign.campaign_id == import_id, SeriesCampaign.series_key.in_(keys)))
    unused = ~exists().where(SeriesCampaign.series_key == Series.series_key)
    session.execute(delete(Series).where(Series.series_key.in_(keys), unused))
    empty = ~exists().where(SeriesCampaign.campaign_id == Campaign.campaign_id)
    session.execute(delete(Campaign).where(Campaign.campaign_id == import_id, empty))
    hashes = {trial.environment_hash for trial in trials}
    unnamed = ~exists().where(Trial.environment_hash == Environment.environment_hash)
    session.execute(delete(Environment).where(Environment.environment_hash.in_(hashes), unnamed))
    for runs in own:
        detail = {"file": runs.file, "publisher": runs.publisher, "provider": runs.provider, "workload": runs.workload, "runs": runs.runs}
        audit.write_entry(session, now, who=by, what="import_forgotten", subject=import_id, why=why, detail=detail)
    return own


def _refuse_measured(session: Session, import_id: str) -> None:
    query = select(Series.source).join(SeriesCampaign, SeriesCampaign.series_key == Series.series_key)
    sources = set(session.scalars(query.where(SeriesCampaign.campaign_id == import_id))) - {"imported"}
    if sources:
        raise Refused(f"{import_id} is a campaign with {' and '.join(sorted(sources))} results, which stay; expected the id of an import")


def _refuse_named(session: Session, import_id: str, keys: Sequence[str], pks: Sequence[int]) -> None:
    """Imports take no part in baselines, findings and corrections; what a person linked to one by hand is not deleted."""
    named = {
        "baseline": select(Baseline.series_key).where(Baseline.campaign_id == import_id, Baseline.series_key.in_(keys)),
        "finding": select(Finding.finding_id).where(Finding.campaign_id == import_id),
        "correction": select(Correction.trial_pk).where(or_(Correction.trial_pk.in_(pks), Correction.corrects.in_(pks))),
    }
    for what, query in named.items():
        if session.execute(query.limit(1)).first() is not None:
            raise Refused(f"{import_id}: a {what} names it, so it stays; expected an import that nothing refers to")
