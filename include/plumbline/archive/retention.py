"""Which raw evidence is kept no longer.

The rows of the evidence stay. A row of `expired_evidence` says that a file is not to be missed; it is written before the file is deleted,
so that no crash in between makes `verify` cry, and says afterwards that it is deleted, so that no crash leaves a file behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Literal

from sqlalchemy import Row, Select, delete, func, inspect, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.engine import utc_now
from plumbline.archive.repository import batches, insert_missing
from plumbline.archive.schema import (
    Baseline,
    Campaign,
    Correction,
    Decision,
    Evidence,
    Expired,
    Finding,
    Quarantined,
    Series,
    SeriesCampaign,
    Snapshot,
    Trial,
)
from plumbline.declarations.addresses import path_below

ACTOR = "retention"
_KEY = ("trial_pk", "position")
SAME_FILE = (Expired.trial_pk == Evidence.trial_pk) & (Expired.position == Evidence.position)
"""Condition: the two rows are of one raw file."""
_RAW = (Evidence.uri.startswith("evidence/"), ~Evidence.uri.contains(".."))
"""In the folder of raw files: nothing else of an attempt's folder is ever deleted, whatever a document lists as evidence."""


@dataclass(frozen=True)
class OldEvidence:
    """The raw files of one attempt: `files` (relative to `uri`, the attempt's folder in the result store) of `bytes` together."""

    trial_pk: int
    campaign_id: str
    trial_id: str
    attempt: int
    uri: str
    files: tuple[str, ...]
    positions: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class DueEvidence:
    """Evidence older than its limit: `due` is removed, `cited` stays (with the references to it), `elsewhere` lies in another store."""

    due: tuple[OldEvidence, ...]
    cited: dict[Citation, int]
    elsewhere: int


def due_evidence(session: Session, keep_s: float, store_url: str, now: datetime | None = None) -> DueEvidence:
    """Evidence in the store at `store_url` that was measured more than `keep_s` seconds before `now` and has not expired yet."""
    measured_at = func.coalesce(Trial.finished_at, Trial.planned_at)
    query = (
        _files()
        .outerjoin(Expired, SAME_FILE)
        .where(Expired.trial_pk.is_(None), measured_at < (now or utc_now()) - timedelta(seconds=keep_s), *_RAW)
    )
    cited = citations(session)
    due, kept_by, elsewhere = [], Counter[Citation](), 0
    for one, about in _attempts(session, query):
        why = cited.of(about.series_key, about.provider, one.campaign_id, one.trial_id, one.attempt)
        if not _in_store(one, store_url):
            elsewhere += 1
        elif why is not None:
            kept_by[why] += 1
        else:
            due.append(one)
    return DueEvidence(tuple(due), dict(kept_by), elsewhere)


def expire_evidence(session: Session, now: datetime, keep_s: float, rule: str, store_url: str) -> DueEvidence:
    """Mark what is due as expired by `rule` (words); from then on `verify` does not miss it. The audit log has an entry for each campaign."""
    due = due_evidence(session, keep_s, store_url, now)
    rows = [
        {"trial_pk": one.trial_pk, "position": position, "expired_at": now, "rule": rule, "removed_at": None}
        for one in due.due
        for position in one.positions
    ]
    insert_missing(session, Expired, rows, _KEY)
    for campaign_id, attempts in groupby(due.due, lambda one: one.campaign_id):
        gone = list(attempts)
        detail = {"attempts": len(gone), "files": sum(len(one.files) for one in gone), "bytes": sum(one.bytes for one in gone)}
        audit.write_entry(session, now, who=ACTOR, what="evidence_expired", subject=campaign_id, why=rule, detail=detail)
    return due


def evidence_to_delete(session: Session, store_url: str) -> list[tuple[OldEvidence, datetime, str]]:
    """Expired evidence in the store at `store_url` that is not deleted yet, each with the time and the rule of its expiry."""
    query = _files(Expired.expired_at, Expired.rule).join(Expired, SAME_FILE)
    attempts = _attempts(session, query.where(Expired.removed_at.is_(None), *_RAW))
    return [(one, about.expired_at, about.rule) for one, about in attempts if _in_store(one, store_url)]


def expired_files(session: Session, trial_id: str, attempt: int) -> dict[str, tuple[datetime, str]]:
    """File (relative to the attempt's folder) → since when, and by which rule, it is kept no longer."""
    query = (
        select(Evidence.uri, Expired.expired_at, Expired.rule)
        .join(Expired, SAME_FILE)
        .join(Trial, Trial.id == Evidence.trial_pk)
        .where(Trial.trial_id == trial_id, Trial.attempt == attempt)
    )
    return {row.uri: (row.expired_at, row.rule) for row in session.execute(query)}


def mark_deleted(session: Session, now: datetime, attempts: Sequence[OldEvidence]) -> None:
    """Note that the files of these attempts are deleted."""
    for one in attempts:
        where = (Expired.trial_pk == one.trial_pk, Expired.position.in_(one.positions), Expired.removed_at.is_(None))
        session.execute(update(Expired).where(*where).values(removed_at=now))


def copy_expiry(session: Session, old: int, new: int) -> None:
    """Mark a correction's files as expired if the same files of the corrected attempt had expired and could not be copied."""
    query = select(Expired.expired_at, Expired.rule, Evidence.uri).join(Evidence, SAME_FILE)
    gone = {row.uri: row for row in session.execute(query.where(Expired.trial_pk == old))}
    for position, uri in session.execute(select(Evidence.position, Evidence.uri).where(Evidence.trial_pk == new)).all():
        if uri in gone:
            values = {"expired_at": gone[uri].expired_at, "rule": gone[uri].rule, "removed_at": gone[uri].expired_at}
            insert_missing(session, Expired, [{"trial_pk": new, "position": position, **values}], _KEY)


def _files(*more: object) -> Select[tuple[object, ...]]:
    columns = (Evidence.trial_pk, Evidence.position, Evidence.uri, Evidence.bytes, Trial.uri.label("folder"))
    named = (Trial.campaign_id, Trial.trial_id, Trial.attempt, Trial.series_key, Series.provider)
    query: Select[tuple[object, ...]] = select(*columns, *named, *more)  # type: ignore[call-overload]
    joined = query.join(Trial, Trial.id == Evidence.trial_pk).join(Series, Series.series_key == Trial.series_key)
    return joined.order_by(Trial.campaign_id, Evidence.trial_pk, Evidence.position)


def _attempts(session: Session, query: Select[tuple[object, ...]]) -> list[tuple[OldEvidence, Row[tuple[object, ...]]]]:
    """Attempts with their files, each with the first of its rows."""
    attempts = []
    for pk, group in groupby(session.execute(query), lambda row: row.trial_pk):
        rows = list(group)
        first = rows[0]
        files, positions = tuple(row.uri for row in rows), tuple(row.position for row in rows)
        size = sum(row.bytes for row in rows)
        attempts.append((OldEvidence(pk, first.campaign_id, first.trial_id, first.attempt, first.folder, files, positions, size), first))
    return attempts


def _in_store(one: OldEvidence, store_url: str) -> bool:
    """Whether the attempt lies at its place in this store: an archive may hold attempts whose evidence others keep."""
    return path_below(one.uri, store_url) == f"{one.campaign_id}/{one.trial_id}/attempt-{one.attempt}"


Citation = Literal["baseline", "finding", "decision", "correction", "quarantine", "newest campaign"]


@dataclass(frozen=True)
class Citations:
    """References to evidence: attempt, series or campaign → what refers to it."""

    series_campaigns: dict[tuple[str, str], Citation] = field(default_factory=dict)
    provider_campaigns: dict[tuple[str, str], Citation] = field(default_factory=dict)
    campaigns: dict[str, Citation] = field(default_factory=dict)
    trials: dict[str, Citation] = field(default_factory=dict)
    attempts: dict[tuple[str, int], Citation] = field(default_factory=dict)

    def of(self, series_key: str, provider: str, campaign_id: str, trial_id: str, attempt: int) -> Citation | None:
        """The reference to an attempt; None without one."""
        return (
            self.series_campaigns.get((series_key, campaign_id))
            or self.provider_campaigns.get((provider, campaign_id))
            or self.campaigns.get(campaign_id)
            or self.trials.get(trial_id)
            or self.attempts.get((trial_id, attempt))
        )


def citations(session: Session) -> Citations:
    """Everything that is pointed to: by baselines, old ones too, by findings and decisions whatever their state, by corrections, by what
    waits in quarantine for a second look. Each series' newest campaign counts as well: the next report and comparison start from it.
    """
    cited = Citations()
    _cite_newest(session, cited)
    for series_key, campaign_id in session.execute(select(Baseline.series_key, Baseline.campaign_id)):
        cited.series_campaigns[series_key, campaign_id] = "baseline"
    known = set(session.scalars(select(SeriesCampaign.series_key).distinct()))
    for finding in session.scalars(select(Finding)):
        _cite_finding(finding, known, cited)
    _cite_decisions(session, cited)
    either = select(Correction.trial_pk).union(select(Correction.corrects))
    for trial_id, attempt in session.execute(select(Trial.trial_id, Trial.attempt).where(Trial.id.in_(either))):
        cited.attempts[trial_id, attempt] = "correction"
    for trial_id, attempt in session.execute(select(Quarantined.trial_id, Quarantined.attempt).where(Quarantined.state == "kept")):
        cited.attempts[trial_id, attempt] = "quarantine"
    return cited


def _cite_newest(session: Session, cited: Citations) -> None:
    query = select(SeriesCampaign.series_key, SeriesCampaign.campaign_id).order_by(SeriesCampaign.planned_at)
    query = query.join(Campaign, Campaign.campaign_id == SeriesCampaign.campaign_id)
    for condition in (Campaign.purpose == "acceptance", Campaign.purpose != "acceptance"):
        for key, campaign_id in dict(session.execute(query.where(condition)).tuples().all()).items():  # the last one of a series wins
            cited.series_campaigns[key, campaign_id] = "newest campaign"


def _cite_finding(finding: Finding, known: set[str], cited: Citations) -> None:
    """A finding cites its series in the campaigns that showed it and in its baseline campaigns."""
    detail = finding.detail
    series = {finding.series_key, *detail.get("series", ())} & known
    for campaign_id in {finding.campaign_id, *detail.get("seen_in", ()), *detail.get("baseline_campaigns", ())} - {None}:
        for key in series:
            cited.series_campaigns[key, campaign_id] = "finding"
        if not series:
            cited.provider_campaigns[finding.provider, campaign_id] = "finding"


def _cite_decisions(session: Session, cited: Citations) -> None:
    # Whatever a decision was made from, it names it by campaign or by trial, somewhere in its detail.
    details: dict[str, None] = dict.fromkeys(text for detail in session.scalars(select(Decision.detail)) for text in _texts(detail))
    if not details:
        return
    for campaign_id in session.scalars(select(SeriesCampaign.campaign_id).distinct()):
        if campaign_id in details:
            cited.campaigns[campaign_id] = "decision"
    for trial_id in session.scalars(select(Trial.trial_id).distinct()):
        if trial_id in details:
            cited.trials[trial_id] = "decision"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


_NEWEST_KEPT = 200
"""Snapshots of each provider and kind that stay at any age: figures of probes are compared with earlier ones."""


def thin_snapshots(session: Session, now: datetime, keep_s: float) -> int:
    """Delete snapshots older than `keep_s` seconds whose facts equal those of their neighbours; how many. Both sides of each change stay."""
    before = now - timedelta(seconds=keep_s)
    columns = (Snapshot.snapshot_id, Snapshot.provider, Snapshot.kind, Snapshot.taken_at, Snapshot.facts_hash)
    rows = session.execute(select(*columns).order_by(Snapshot.provider, Snapshot.kind, Snapshot.taken_at, Snapshot.snapshot_id)).all()
    due: list[str] = []
    for _, group in groupby(rows, lambda row: (row.provider, row.kind)):
        checks = list(group)
        for earlier, row, later in zip(checks, checks[1:], checks[2 : len(checks) - _NEWEST_KEPT + 1], strict=False):
            if row.taken_at < before and earlier.facts_hash == row.facts_hash == later.facts_hash:
                due.append(row.snapshot_id)
    for batch in batches(due):
        session.execute(delete(Snapshot).where(Snapshot.snapshot_id.in_(batch)))
    return len(due)


def delete_quarantined(session: Session, now: datetime, keep_s: float, below: str, rule: str) -> list[str]:
    """Delete the rows of documents quarantined more than `keep_s` seconds ago whose copy lies below the URL `below`; the URLs of the copies,
    which the caller deletes. The audit log describes each one.
    """
    before = now - timedelta(seconds=keep_s)
    rows = session.scalars(select(Quarantined).where(Quarantined.quarantined_at < before).order_by(Quarantined.quarantine_id)).all()
    gone = [row for row in rows if (path := path_below(row.uri, below)) and ".." not in path.split("/")]
    for row in gone:
        detail = {"uri": row.uri, "sha256": row.sha256, "trial_id": row.trial_id, "attempt": row.attempt, "state": row.state}
        audit.write_entry(session, now, who=ACTOR, what="document_forgotten", subject=row.quarantine_id, why=rule, detail=detail)
        session.delete(row)
    return [row.uri for row in gone]


_SQLITE = text("SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s JOIN sqlite_master m ON m.name = s.name GROUP BY m.tbl_name")
_POSTGRESQL = text("""
    SELECT relname, pg_total_relation_size(oid) FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
""")


@dataclass(frozen=True)
class TableSize:
    """A table's rows, and bytes with its indexes; None where SQLite was built without dbstat."""

    table: str
    rows: int
    bytes: int | None


def table_sizes(session: Session) -> list[TableSize]:
    """Rows and bytes of every table, the largest first."""
    names = inspect(session.connection()).get_table_names()
    rows = {name: int(session.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one()) for name in names}
    try:
        query = _SQLITE if session.get_bind().dialect.name == "sqlite" else _POSTGRESQL
        sizes = {str(name): int(size) for name, size in session.execute(query)}
    except OperationalError:
        sizes = {}
    tables = [TableSize(name, count, sizes.get(name)) for name, count in rows.items()]
    return sorted(tables, key=lambda one: (-(one.bytes or 0), -one.rows, one.table))
