"""Where findings are talked about, what was said there, and until when a finding is to be left in peace."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive import audit
from plumbline.archive.findings import UNSETTLED, WrongState, known, view_of
from plumbline.archive.inserts import insert_new
from plumbline.archive.judgements import Incident
from plumbline.archive.records import FindingView, IncidentRecord, IncidentView


def save(session: Session, incident: IncidentRecord, now: datetime) -> None:
    """Store where a finding is talked about, or what was last said there; LookupError if the finding is unknown."""
    known(session, incident.finding_id)
    values = {name: getattr(incident, name) for name in IncidentRecord.__dataclass_fields__}
    values["said"] = {what: dict(post) for what, post in incident.said.items()}
    if insert_new(session, Incident, {**values, "posted_at": now, "updated_at": now}, ["finding_id", "channel"]):
        return
    query = select(Incident).where(Incident.finding_id == incident.finding_id, Incident.channel == incident.channel)
    row = session.scalars(query.with_for_update()).one()
    for name, value in values.items():
        setattr(row, name, value)
    row.updated_at = now


def listed(session: Session, finding_id: str | None = None) -> list[IncidentView]:
    """Threads, oldest first."""
    query = select(Incident).order_by(Incident.posted_at, Incident.id)
    if finding_id is not None:
        query = query.where(Incident.finding_id == finding_id)
    return [_view(row) for row in session.scalars(query)]


def _view(row: Incident) -> IncidentView:
    values = {name: getattr(row, name) for name in IncidentView.__dataclass_fields__}
    return IncidentView(**{**values, "severity": row.severity or "", "said": row.said or {}})


def snooze(session: Session, finding_id: str, until: datetime, by: str, why: str, now: datetime) -> FindingView:
    """Leave a finding in peace until an instant; one that is not after `now` ends that. Goes to the audit log; again, nothing changes.

    LookupError for an unknown id, WrongState for one that is settled, ValueError without who and why.
    """
    for name, value in (("by", by), ("why", why)):
        if not value.strip():
            raise ValueError(f"{name} is empty; expected who snoozes the finding and why")
    row = known(session, finding_id, lock=True)
    if row.state not in UNSETTLED:
        raise WrongState(f"finding {finding_id} is {row.state}: nobody is reminded of it; expected {' or '.join(UNSETTLED)}")
    wanted = until if until > now else None
    if row.snoozed_until != wanted:
        what = "finding_snoozed" if wanted else "finding_woken"
        detail = {"until": wanted.isoformat(), "severity": row.severity} if wanted else {}
        audit.write(session, now, who=by, what=what, subject=finding_id, why=why, detail=detail)
        row.snoozed_until, row.updated_at = wanted, now
        session.flush()
    return view_of(row)
