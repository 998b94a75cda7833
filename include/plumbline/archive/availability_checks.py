"""Checks of uptime and capacity between campaigns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import CursorResult, delete, select
from sqlalchemy.orm import Session

from plumbline.archive.repository import Span, insert_missing, view_of, where_within
from plumbline.archive.schema import AvailabilityCheck as Row
from plumbline.declarations.providers.launcher_base import WatchKind
from plumbline.results.availability_check import AvailabilityCheck


def save_availability_checks(session: Session, now: datetime, checks: Sequence[AvailabilityCheck]) -> None:
    """Store checks; one that is known changes nothing."""
    insert_missing(session, Row, [dict(vars(one)) for one in checks], ["provider", "kind", "simulated", "at"])


def availability_checks(
    session: Session, provider: str, kind: WatchKind, simulated: bool, between: Span = (None, None)
) -> list[AvailabilityCheck]:
    """A provider's checks of one kind, oldest first."""
    query = select(Row).where(Row.provider == provider, Row.kind == kind, Row.simulated == simulated)
    return [view_of(AvailabilityCheck, row) for row in session.scalars(where_within(query, Row.at, between).order_by(Row.at))]


def latest_availability_check(session: Session, provider: str, kind: WatchKind, simulated: bool) -> AvailabilityCheck | None:
    """The provider's last check of a kind; None if there is none."""
    query = select(Row).where(Row.provider == provider, Row.kind == kind, Row.simulated == simulated)
    row = session.scalars(query.order_by(Row.at.desc()).limit(1)).first()
    return None if row is None else view_of(AvailabilityCheck, row)


def forget_availability_checks(session: Session, now: datetime, keep_s: float) -> int:
    """Delete checks that are older; how many."""
    gone = session.execute(delete(Row).where(Row.at < now - timedelta(seconds=keep_s)))
    assert isinstance(gone, CursorResult)
    return gone.rowcount
