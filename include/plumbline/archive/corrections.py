"""Setting a measurement right: a new row that names the old one. The old row stays as it was, and no longer counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from plumbline.archive import audit, retention
from plumbline.archive.inserts import insert_new
from plumbline.archive.models import Correction, Trial
from plumbline.archive.record import Recorded, Refused, record
from plumbline.archive.views import Action
from plumbline.results import MetricRow, Reason, ResultDocument


def correct(
    session: Session,
    document: ResultDocument,
    corrects: int,
    *,
    action: Action,
    quality_reasons: Sequence[Reason],
    uri: str,
    extra_metrics: Sequence[MetricRow],
    by: str,
    why: str,
    now: datetime,
) -> Recorded:
    """Record `document` in the place of the same trial's attempt `corrects`; the same correction again is "unchanged".

    LookupError without such an attempt; ValueError without who and why; Refused if the document is of another trial, is not of a new
    attempt, or if another correction stands in the old attempt's place.
    """
    for name, value in (("by", by), ("why", why)):
        if not value.strip():
            raise ValueError(f"{name} is empty; expected who corrects the measurement and why")
    trial = document.trial
    old = session.execute(
        select(Trial.id, Trial.series_key, Trial.campaign_id, Trial.slot, Trial.repeat, Trial.checksum).where(
            Trial.trial_id == trial.trial_id, Trial.attempt == corrects, Trial.campaign_id == trial.campaign_id
        )
    ).first()
    subject = f"{trial.trial_id}#{corrects}"
    if old is None:
        raise LookupError(f'the archive has no attempt "{subject}" to correct')
    key = (trial.series_key, trial.campaign_id, trial.slot, trial.repeat)
    if (old.series_key, old.campaign_id, old.slot, old.repeat) != key or trial.attempt <= corrects:
        raise Refused(
            f"{subject} cannot be corrected by attempt {trial.attempt} of {' '.join(map(str, key))}; expected a later attempt of it"
        )
    said = record(session, document, action=action, quality_reasons=quality_reasons, uri=uri, extra_metrics=extra_metrics, now=now)
    new = session.scalars(
        select(Trial.id).where(Trial.trial_id == trial.trial_id, Trial.attempt == trial.attempt, Trial.checksum == document.checksum)
    ).first()
    if new is None:
        raise Refused(
            f"{trial.trial_id}#{trial.attempt} is in the archive with another document; expected an attempt that is not there yet"
        )
    values = {"trial_pk": new, "corrects": old.id, "corrected_at": now, "corrected_by": by, "why": why}
    if not insert_new(session, Correction, values, ["corrects"]):
        standing = session.scalars(select(Correction.trial_pk).where(Correction.corrects == old.id)).one()
        if standing != new:
            raise Refused(f"{subject} was corrected already; expected the correction itself to be corrected")
        return "unchanged"
    retention.carry_over(session, old.id, new)
    detail = {"by": f"{trial.trial_id}#{trial.attempt}", "action": action, "before": old.checksum, "after": document.checksum}
    audit.write(session, now, who=by, what="measurement_corrected", subject=subject, why=why, detail=detail)
    return said
