"""Checks of uptime and capacity between campaigns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import cast, get_args

from sqlalchemy import ColumnElement, CursorResult, DateTime, delete, func, literal, select, type_coerce, union_all
from sqlalchemy.orm import Session

from plumbline.archive.repository import Span, batches, insert_missing, view_of, where_within
from plumbline.archive.schema import AvailabilityCheck as Row
from plumbline.declarations.installation import CLOCK_SKEW
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.results.availability_check import AvailabilityCheck


def save_availability_checks(session: Session, now: datetime, checks: Sequence[AvailabilityCheck]) -> None:
    """Store checks; one that is known changes nothing."""
    insert_missing(session, Row, [dict(vars(one)) for one in checks], ["provider", "kind", "simulated", "at"])


def availability_checks(
    session: Session, provider: str, kind: WatchKind, simulated: bool, between: Span = (None, None)
) -> list[AvailabilityCheck]:
    """A provider's checks of one kind, oldest first."""
    columns = (Row.at, Row.cause, Row.detail, Row.seconds, Row.gpus)  # as entities of the session they would take five times as long
    query = where_within(select(*columns).where(*_of(provider, kind, simulated)), Row.at, between)
    rows = session.execute(query.order_by(Row.at))
    return [AvailabilityCheck(provider, kind, at, cause, detail, seconds, gpus, simulated) for at, cause, detail, seconds, gpus in rows]


def answered_checks(session: Session, provider: str, kind: WatchKind, simulated: bool, between: Span = (None, None)) -> list[datetime]:
    """When a provider's checks of one kind were answered, oldest first: a tenth of the time that whole checks take."""
    # The column's own type would call Python for each row.
    query = select(type_coerce(Row.at, DateTime(timezone=True))).where(*_of(provider, kind, simulated), Row.cause.is_(None))
    times: list[datetime] = list(session.scalars(where_within(query, Row.at, between).order_by(Row.at)))
    return times if not times or times[0].tzinfo else [at.replace(tzinfo=timezone.utc) for at in times]


def missed_checks(
    session: Session, provider: str, kind: WatchKind, simulated: bool, between: Span = (None, None)
) -> list[AvailabilityCheck]:
    """A provider's checks of one kind that were not answered, oldest first."""
    query = select(Row).where(*_of(provider, kind, simulated), Row.cause.is_not(None))
    return [view_of(AvailabilityCheck, row) for row in session.scalars(where_within(query, Row.at, between).order_by(Row.at))]


def count_availability_checks(session: Session, provider: str, kind: WatchKind, simulated: bool, between: Span = (None, None)) -> int:
    """How many checks of one kind there are."""
    query = select(func.count()).select_from(Row).where(*_of(provider, kind, simulated))
    return session.scalar(where_within(query, Row.at, between)) or 0


def newest_checks(session: Session, providers: Sequence[str], until: datetime) -> dict[str, list[datetime]]:
    """By provider, when the newest check of each kind was, `until` then: a row after it, of a wrong clock, hides none. One statement of as many
    seeks in the index."""
    newest: dict[str, list[datetime]] = {}
    for names in batches(providers, 50):
        seeks = [
            select(literal(name).label("provider"), func.max(Row.at, type_=Row.at.type)).where(*_of(name, kind, simulated), Row.at <= until)
            for name in names
            for kind in get_args(WatchKind)
            for simulated in (False, True)
        ]
        for name, at in session.execute(union_all(*seeks)):
            if at is not None:
                newest.setdefault(name, []).append(at)
    return newest


def _of(provider: str, kind: WatchKind, simulated: bool) -> tuple[ColumnElement[bool], ...]:
    return Row.provider == provider, Row.kind == kind, Row.simulated == simulated


def latest_availability_check(
    session: Session, provider: str, kind: WatchKind, simulated: bool, until: datetime
) -> AvailabilityCheck | None:
    """The provider's last check of a kind `until` a time; None if there is none. What a wrong clock wrote after it is no last check."""
    query = select(Row).where(*_of(provider, kind, simulated), Row.at <= until)
    row = session.scalars(query.order_by(Row.at.desc()).limit(1)).first()
    return None if row is None else view_of(AvailabilityCheck, row)


@dataclass(frozen=True)
class ChecksAhead:
    """Measured checks of a kind that are dated later than they can be: so many, from `first` to `last`."""

    provider: str
    kind: WatchKind
    count: int
    first: datetime
    last: datetime


def checks_ahead(session: Session, now: datetime) -> list[ChecksAhead]:
    """Checks later than CLOCK_SKEW after `now`, which a wrong clock wrote; simulated ones may lie ahead."""
    first, last = func.min(Row.at, type_=Row.at.type), func.max(Row.at, type_=Row.at.type)
    query = select(Row.provider, Row.kind, func.count(), first, last).where(Row.at > now + CLOCK_SKEW, Row.simulated.is_(False))
    rows = session.execute(query.group_by(Row.provider, Row.kind).order_by(Row.provider, Row.kind))
    return [ChecksAhead(provider, cast(WatchKind, kind), count, begin, end) for provider, kind, count, begin, end in rows]


def forget_availability_checks(session: Session, now: datetime, keep_s: float) -> int:
    """Delete checks that are older; how many."""
    gone = session.execute(delete(Row).where(Row.at < now - timedelta(seconds=keep_s)))
    assert isinstance(gone, CursorResult)
    return gone.rowcount
