"""Findings and their life: open → acknowledged → accepted or resolved. Every step is in the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.inserts import insert_new
from plumbline.archive.judgements import Finding
from plumbline.archive.models import Campaign, Series, SeriesCampaign
from plumbline.archive.records import FindingKind, FindingRecord, FindingState, FindingView

NEXT: dict[FindingState, tuple[FindingState, ...]] = {
    "open": ("acknowledged", "accepted", "resolved"),
    "acknowledged": ("accepted", "resolved"),
    "accepted": (),
    "resolved": (),
}


_GRAVITY = ("info", "warn", "page")
UNSETTLED: tuple[FindingState, ...] = ("open", "acknowledged")


class WrongState(ValueError):
    """A finding cannot go from its state to the one that was asked for."""


def save(session: Session, findings: Sequence[FindingRecord], now: datetime) -> tuple[str, ...]:
    """Store findings; the ids of those that are new. One that is known keeps everything, its state too, and is seen once more."""
    new = []
    for finding in sorted(findings, key=lambda f: f.finding_id):  # one order for all writers: no two can wait for each other
        values = {**asdict(finding), "detail": dict(finding.detail), "opened_at": now, "updated_at": now, "last_seen_at": now}
        if insert_new(session, Finding, values, ["finding_id"]):
            new.append(finding.finding_id)
            detail = {"kind": finding.kind, "severity": finding.severity, "state": finding.state}
            audit.write(session, now, who="drift", what="finding_opened", subject=finding.finding_id, why=finding.headline, detail=detail)
        else:
            known(session, finding.finding_id).last_seen_at = now
    return tuple(new)


def listed(
    session: Session, state: FindingState | None = None, campaign_id: str | None = None, latest: int | None = None
) -> list[FindingView]:
    """Findings, newest first; of one campaign, those that it opened and those that it showed again."""
    query = select(Finding).order_by(Finding.opened_at.desc(), Finding.finding_id)
    if state is not None:
        query = query.where(Finding.state == state)
    if campaign_id is not None:
        shown = (view for view in map(view_of, session.scalars(query.where(_perhaps_shown_by(session, campaign_id)))))
        return list(islice((view for view in shown if view.shown_by(campaign_id)), latest))
    return [view_of(row) for row in session.scalars(query.limit(latest) if latest is not None else query)]


def _perhaps_shown_by(session: Session, campaign_id: str) -> ColumnElement[bool]:
    """What indexes can say of it: opened by the campaign; or seen since that was recorded, of a provider that took part or still standing."""
    recorded_at = select(Campaign.recorded_at).where(Campaign.campaign_id == campaign_id).scalar_subquery()
    took_part = select(Series.provider).join(SeriesCampaign, SeriesCampaign.series_key == Series.series_key)
    providers = session.scalars(took_part.where(SeriesCampaign.campaign_id == campaign_id).distinct()).all()
    since = Finding.last_seen_at >= recorded_at
    return or_(Finding.campaign_id == campaign_id, Finding.provider.in_(providers) & since, Finding.state.in_(UNSETTLED) & since)


def of_provider(session: Session, provider: str, kind: FindingKind | None = None, unsettled: bool = False) -> list[FindingView]:
    """Findings of a provider, oldest first; `unsettled`: only those that are open or acknowledged."""
    query = select(Finding).where(Finding.provider == provider).order_by(Finding.opened_at, Finding.finding_id)
    if kind is not None:
        query = query.where(Finding.kind == kind)
    if unsettled:
        query = query.where(Finding.state.in_(UNSETTLED))
    return [view_of(row) for row in session.scalars(query)]


def go_on(session: Session, finding: FindingRecord, seen_in: str, why: str, now: datetime) -> None:
    """Store what a standing finding looks like by a later campaign, or on the day of a later look at the provider; its state, campaign and
    times of opening stay.

    That it went on is in the audit log once per campaign, however often that is reviewed, or day. One that is settled meanwhile keeps everything. A snooze ends
    when it becomes graver: who asked for it did not know that.
    LookupError for an unknown id.
    """
    row = known(session, finding.finding_id, lock=True)
    if row.state not in UNSETTLED:
        return
    if seen_in != row.campaign_id:
        detail = {"seen_in": seen_in, "severity": finding.severity, "before": row.severity}
        once = f"finding_continued {finding.finding_id} {seen_in}"
        audit.write(session, now, who="drift", what="finding_continued", subject=finding.finding_id, why=why, detail=detail, once=once)
    if row.snoozed_until is not None and _GRAVITY.index(finding.severity) > _GRAVITY.index(row.severity):
        before = {"severity": finding.severity, "before": row.severity}
        audit.write(session, now, who="drift", what="finding_woken", subject=finding.finding_id, why="it became graver", detail=before)
        row.snoozed_until = None
    row.severity, row.headline, row.detail = finding.severity, finding.headline, {**finding.detail, "state": row.state}
    row.effect, row.ci_low, row.ci_high, row.metric = finding.effect, finding.ci_low, finding.ci_high, finding.metric
    row.series_key, row.updated_at, row.last_seen_at = finding.series_key, now, now


def one(session: Session, finding_id: str) -> FindingView:
    """One finding; LookupError if there is none of that id."""
    return view_of(known(session, finding_id))


def move(session: Session, finding_id: str, state: FindingState, by: str, why: str, now: datetime) -> FindingView:
    """Take a finding to its next state; to the state it has is no change.

    LookupError for an unknown id, WrongState for a step that is not in NEXT, ValueError without who and why.
    """
    if state not in NEXT:
        raise ValueError(f'"{state}" is not a state of a finding; expected one of {", ".join(NEXT)}')
    for name, value in (("by", by), ("why", why)):
        if not value.strip():
            raise ValueError(f"{name} is empty; expected who decides about the finding and why")
    row = known(session, finding_id, lock=True)
    before: Any = row.state
    if before == state:
        return view_of(row)
    allowed = NEXT[before]
    if state not in allowed:
        raise WrongState(
            f"finding {finding_id} is {before} and cannot become {state}; expected {' or '.join(allowed) or 'no further step'}"
        )
    row.state, row.updated_at = state, now
    audit.write(session, now, who=by, what=f"finding_{state}", subject=finding_id, why=why, detail={"before": before})
    session.flush()
    return view_of(row)


def known(session: Session, finding_id: str, lock: bool = False) -> Finding:
    """The row of a finding; LookupError if there is none of that id."""
    query = select(Finding).where(Finding.finding_id == finding_id)
    row = session.scalars(query.with_for_update() if lock else query).first()
    if row is None:
        raise LookupError(f'the archive has no finding "{finding_id}"')
    return row


def view_of(row: Finding) -> FindingView:
    """A row as plain data."""
    return FindingView(**{name: getattr(row, name) for name in FindingView.__dataclass_fields__})
