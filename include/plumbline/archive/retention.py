"""Which raw evidence is kept no longer.

The rows of the evidence stay. A row of `expired_evidence` says that a file is not to be missed; it is written before the file is deleted,
so that no crash in between makes `verify` cry, and says afterwards that it is deleted, so that no crash leaves a file behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from sqlalchemy import Row, Select, func, select, update
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.citations import Citation, citations
from plumbline.archive.inserts import insert_missing
from plumbline.archive.models import Evidence, Expired, Series, Trial

WHO = "retention"
_KEY = ("trial_pk", "position")
_BELOW = "evidence/"
"""Where a harness keeps raw files: nothing else of an attempt's folder is ever deleted, whatever a document lists as evidence."""


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
class Aged:
    """What is past its time. `due` goes; `cited` attempts stay, by what points to them; `elsewhere` lie in another store than this one."""

    due: tuple[OldEvidence, ...]
    cited: dict[Citation, int]
    elsewhere: int


def aged(session: Session, keep_s: float, store_url: str, now: datetime) -> Aged:
    """What was measured more than `keep_s` seconds ago and has not expired yet, of the store at `store_url`."""
    measured_at = func.coalesce(Trial.finished_at, Trial.planned_at)
    query = (
        _files()
        .outerjoin(Expired, (Expired.trial_pk == Evidence.trial_pk) & (Expired.position == Evidence.position))
        .where(
            Expired.trial_pk.is_(None),
            measured_at < now - timedelta(seconds=keep_s),
            Evidence.uri.startswith(_BELOW),
            ~Evidence.uri.contains(".."),
        )
    )
    cited = citations(session)
    due, kept, elsewhere = [], Counter[Citation](), 0
    for one, about in _attempts(session, query):
        why = cited.of(about.series_key, about.provider, one.campaign_id, one.trial_id, one.attempt)
        if not _within(one, store_url):
            elsewhere += 1
        elif why is not None:
            kept[why] += 1
        else:
            due.append(one)
    return Aged(tuple(due), dict(kept), elsewhere)


def expire(session: Session, keep_s: float, rule: str, store_url: str, now: datetime) -> Aged:
    """Say of everything that is due that it is kept no longer, by this `rule`; the audit log keeps it, campaign by campaign."""
    found = aged(session, keep_s, store_url, now)
    rows = [
        {"trial_pk": one.trial_pk, "position": position, "expired_at": now, "rule": rule, "removed_at": None}
        for one in found.due
        for position in one.positions
    ]
    insert_missing(session, Expired, rows, _KEY)
    for campaign_id, attempts in groupby(found.due, lambda one: one.campaign_id):
        gone = list(attempts)
        detail = {"attempts": len(gone), "files": sum(len(one.files) for one in gone), "bytes": sum(one.bytes for one in gone)}
        audit.write(session, now, who=WHO, what="evidence_expired", subject=campaign_id, why=rule, detail=detail)
    return found


def to_remove(session: Session, store_url: str) -> list[tuple[OldEvidence, datetime, str]]:
    """What expired and is not deleted yet, of the store at `store_url`, each with since when and by which rule."""
    query = _files(Expired.expired_at, Expired.rule).join(
        Expired, (Expired.trial_pk == Evidence.trial_pk) & (Expired.position == Evidence.position)
    )
    found = _attempts(session, query.where(Expired.removed_at.is_(None), Evidence.uri.startswith(_BELOW), ~Evidence.uri.contains("..")))
    return [(one, about.expired_at, about.rule) for one, about in found if _within(one, store_url)]


def of_attempt(session: Session, trial_id: str, attempt: int) -> dict[str, tuple[datetime, str]]:
    """File (relative to the attempt's folder) → since when, and by which rule, it is kept no longer."""
    query = (
        select(Evidence.uri, Expired.expired_at, Expired.rule)
        .join(Expired, (Expired.trial_pk == Evidence.trial_pk) & (Expired.position == Evidence.position))
        .join(Trial, Trial.id == Evidence.trial_pk)
        .where(Trial.trial_id == trial_id, Trial.attempt == attempt)
    )
    return {row.uri: (row.expired_at, row.rule) for row in session.execute(query)}


def removed(session: Session, attempts: Sequence[OldEvidence], now: datetime) -> None:
    """Say that the files of these attempts are deleted."""
    for one in attempts:
        where = (Expired.trial_pk == one.trial_pk, Expired.position.in_(one.positions), Expired.removed_at.is_(None))
        session.execute(update(Expired).where(*where).values(removed_at=now))


def carry_over(session: Session, old: int, new: int) -> None:
    """What expired of an attempt was not there to be copied into the one that corrects it: the same files of that one expired with it."""
    query = select(Expired.expired_at, Expired.rule, Evidence.uri).join(
        Evidence, (Expired.trial_pk == Evidence.trial_pk) & (Expired.position == Evidence.position)
    )
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
    found = []
    for pk, group in groupby(session.execute(query), lambda row: row.trial_pk):
        rows = list(group)
        first = rows[0]
        files, positions = tuple(row.uri for row in rows), tuple(row.position for row in rows)
        size = sum(row.bytes for row in rows)
        found.append((OldEvidence(pk, first.campaign_id, first.trial_id, first.attempt, first.folder, files, positions, size), first))
    return found


def _within(one: OldEvidence, store_url: str) -> bool:
    """Whether the attempt lies where this store keeps it, and nowhere else: an archive may hold what others measured, keep or claim."""
    return one.uri == f"{store_url.rstrip('/')}/{one.campaign_id}/{one.trial_id}/attempt-{one.attempt}"
