"""Findings, their states and their alert threads. Every change of state is in the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.records import IncidentRecord, IncidentView
from plumbline.archive.repository import insert_new, view_of, where_equal
from plumbline.archive.schema import Campaign, Finding, Incident, Series, SeriesCampaign
from plumbline.results.finding import FLEET, OPEN_STATES, FindingKind, FindingState, gravity
from plumbline.results.stored import FindingRecord, FindingView

NEXT_STATES: dict[FindingState, tuple[FindingState, ...]] = {
    "open": ("acknowledged", "accepted", "resolved"),
    "acknowledged": ("accepted", "resolved"),
    "accepted": ("open",),
    "resolved": (),
}


class WrongState(ValueError):
    """A finding cannot go from its state to the requested one."""


def save_findings(session: Session, now: datetime, findings: Sequence[FindingRecord]) -> tuple[str, ...]:
    """Store findings; the ids of those that are new. One that is known keeps everything, its state too, and is seen once more."""
    new = []
    for finding in sorted(findings, key=lambda f: f.finding_id):  # one order for all writers: no two can wait for each other
        values = {**asdict(finding), "detail": dict(finding.detail), "opened_at": now, "updated_at": now, "last_seen_at": now}
        if insert_new(session, Finding, values, ["finding_id"]):
            new.append(finding.finding_id)
            detail = {"kind": finding.kind, "severity": finding.severity, "state": finding.state}
            audit.write_entry(
                session, now, who="drift", what="finding_opened", subject=finding.finding_id, why=finding.headline, detail=detail
            )
        else:
            finding_row(session, finding.finding_id).last_seen_at = now
    return tuple(new)


def find_findings(
    session: Session,
    state: FindingState | tuple[FindingState, ...] | None = None,
    campaign_id: str | None = None,
    latest: int | None = None,
) -> list[FindingView]:
    """Findings, newest first, in one state or several; with a campaign, those that it opened or showed again."""
    query = where_equal(select(Finding).order_by(Finding.opened_at.desc(), Finding.finding_id), (Finding.state, state))
    if campaign_id is not None:
        shown = (view for view in map(finding_view, session.scalars(query.where(_candidates_of(session, campaign_id)))))
        return list(islice((view for view in shown if view.shown_by(campaign_id)), latest))
    return [finding_view(row) for row in session.scalars(query.limit(latest) if latest is not None else query)]


def _candidates_of(session: Session, campaign_id: str) -> ColumnElement[bool]:
    """Findings that the campaign opened, or that were seen since it was recorded and are open or of a provider that took part."""
    providers, since = (*providers_in(session, campaign_id), FLEET), seen_since(campaign_id)
    return or_(Finding.campaign_id == campaign_id, Finding.provider.in_(providers) & since, Finding.state.in_(OPEN_STATES) & since)


def providers_in(session: Session, campaign_id: str) -> Sequence[str]:
    """Providers that took part in a campaign."""
    took_part = select(Series.provider).join(SeriesCampaign, SeriesCampaign.series_key == Series.series_key)
    return session.scalars(took_part.where(SeriesCampaign.campaign_id == campaign_id).distinct()).all()


def seen_since(campaign_id: str) -> ColumnElement[bool]:
    """Findings that were seen since the campaign was recorded."""
    return Finding.last_seen_at >= select(Campaign.recorded_at).where(Campaign.campaign_id == campaign_id).scalar_subquery()


def provider_findings(
    session: Session, provider: str | Sequence[str], kind: FindingKind | None = None, unsettled: bool = False
) -> list[FindingView]:
    """Findings of a provider, or of several, oldest first; `unsettled`: only those that are open or acknowledged."""
    wanted = ((Finding.provider, provider), (Finding.kind, kind), (Finding.state, OPEN_STATES if unsettled else None))
    query = where_equal(select(Finding).order_by(Finding.opened_at, Finding.finding_id), *wanted)
    return [finding_view(row) for row in session.scalars(query)]


def continue_finding(session: Session, now: datetime, finding: FindingRecord, seen_in: str, why: str) -> None:
    """Update an open finding with the numbers of a later campaign, or of a later environment check (its day, ISO 8601); its state, campaign
    and time of opening stay. A settled finding stays as it is.

    The audit log gets one entry for each campaign or day. A snooze ends when the severity rises. LookupError for an unknown id.
    """
    row = finding_row(session, finding.finding_id, lock=True)
    if row.state not in OPEN_STATES:
        return
    if seen_in != row.campaign_id:
        detail = {"seen_in": seen_in, "severity": finding.severity, "before": row.severity}
        once = f"finding_continued {finding.finding_id} {seen_in}"
        audit.write_entry(
            session, now, who="drift", what="finding_continued", subject=finding.finding_id, why=why, detail=detail, once=once
        )
    if row.snoozed_until is not None and gravity(finding.severity) < gravity(row.severity):
        before = {"severity": finding.severity, "before": row.severity}
        audit.write_entry(
            session, now, who="drift", what="finding_woken", subject=finding.finding_id, why="it became graver", detail=before
        )
        row.snoozed_until = None
    row.severity, row.headline, row.detail = finding.severity, finding.headline, {**finding.detail, "state": row.state}
    row.effect, row.ci_low, row.ci_high, row.metric = finding.effect, finding.ci_low, finding.ci_high, finding.metric
    # A change that comes to another provider widens the finding from one provider to the fleet.
    row.provider, row.series_key, row.updated_at, row.last_seen_at = finding.provider, finding.series_key, now, now


def restate_findings(session: Session, _now: datetime, findings: Sequence[FindingRecord]) -> None:
    """Store other words and details of known findings, settled ones too; state, times and the audit log stay. LookupError for an unknown id."""
    for finding in sorted(findings, key=lambda f: f.finding_id):
        row = finding_row(session, finding.finding_id, lock=True)
        row.headline, row.detail = finding.headline, {**finding.detail, "state": row.state}


def get_finding(session: Session, finding_id: str) -> FindingView:
    """One finding; LookupError if there is none of that id."""
    return finding_view(finding_row(session, finding_id))


def set_state(session: Session, now: datetime, finding_id: str, state: FindingState, by: str, why: str, cause: str = "") -> FindingView:
    """Move a finding to its next state; its present state again changes nothing. Goes to the audit log, with `cause`, a word for programs.

    LookupError for an unknown id, WrongState for a step that is not in NEXT, ValueError without who and why.
    """
    if state not in NEXT_STATES:
        raise ValueError(f'"{state}" is not a state of a finding; expected one of {", ".join(NEXT_STATES)}')
    audit.require_author(by, why, "decides about the finding")
    row = finding_row(session, finding_id, lock=True)
    before: Any = row.state
    if before == state:
        return finding_view(row)
    allowed = NEXT_STATES[before]
    if state not in allowed:
        raise WrongState(
            f"finding {finding_id} is {before} and cannot become {state}; expected {' or '.join(allowed) or 'no further step'}"
        )
    row.state, row.updated_at = state, now
    audit.write_entry(
        session,
        now,
        who=by,
        what=f"finding_{'reopened' if state == 'open' else state}",
        subject=finding_id,
        why=why,
        detail={"before": before, **({"cause": cause} if cause else {})},
    )
    session.flush()
    return finding_view(row)


def finding_row(session: Session, finding_id: str, lock: bool = False) -> Finding:
    """The row of a finding; LookupError if there is none of that id."""
    query = select(Finding).where(Finding.finding_id == finding_id)
    row = session.scalars(query.with_for_update() if lock else query).first()
    if row is None:
        raise LookupError(f'the archive has no finding "{finding_id}"')
    return row


def finding_view(row: Finding) -> FindingView:
    """A row as plain data."""
    return view_of(FindingView, row)


def save_incident(session: Session, now: datetime, incident: IncidentRecord) -> None:
    """Store the thread of a finding and its posts; LookupError if the finding is unknown."""
    finding_row(session, incident.finding_id)
    values = {name: getattr(incident, name) for name in IncidentRecord.__dataclass_fields__ if name != "posts"}
    values["said"] = {what: dict(post) for what, post in incident.posts.items()}
    if insert_new(session, Incident, {**values, "posted_at": now, "updated_at": now}, ["finding_id", "channel"]):
        return
    query = select(Incident).where(Incident.finding_id == incident.finding_id, Incident.channel == incident.channel)
    row = session.scalars(query.with_for_update()).one()
    for name, value in values.items():
        setattr(row, name, value)
    row.updated_at = now


def find_incidents(session: Session, finding_id: str | None = None) -> list[IncidentView]:
    """Threads, oldest first."""
    query = where_equal(select(Incident).order_by(Incident.posted_at, Incident.id), (Incident.finding_id, finding_id))
    return [_incident_view(row) for row in session.scalars(query)]


def _incident_view(row: Incident) -> IncidentView:
    values = {name: getattr(row, name) for name in IncidentView.__dataclass_fields__ if name != "posts"}
    return IncidentView(**{**values, "severity": row.severity or ""}, posts=row.said or {})


def snooze_finding(session: Session, now: datetime, finding_id: str, until: datetime, by: str, why: str) -> FindingView:
    """Send no reminders of a finding until an instant; one that is past ends the snooze. Goes to the audit log; again, nothing changes.

    LookupError for an unknown id, WrongState for one that is settled, ValueError without who and why.
    """
    audit.require_author(by, why, "snoozes the finding")
    row = finding_row(session, finding_id, lock=True)
    if row.state not in OPEN_STATES:
        raise WrongState(f"finding {finding_id} is {row.state} and sends no reminders; expected {' or '.join(OPEN_STATES)}")
    snoozed_until = until if until > now else None
    if row.snoozed_until != snoozed_until:
        what = "finding_snoozed" if snoozed_until else "finding_woken"
        detail = {"until": snoozed_until.isoformat(), "severity": row.severity} if snoozed_until else {}
        audit.write_entry(session, now, who=by, what=what, subject=finding_id, why=why, detail=detail)
        row.snoozed_until, row.updated_at = snoozed_until, now
        session.flush()
    return finding_view(row)
