"""Times of each campaign's last recorded attempt and of its bundle's last change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from plumbline.archive.engine import reads
from plumbline.archive.schema import AuditEntry, Baseline, Expired, Finding, Quarantined, Trial


@dataclass(frozen=True)
class CampaignChange:
    """`recorded_at`: the last attempt of the campaign; `changed_at`: that, or what was concluded, corrected, quarantined or expired since."""

    campaign_id: str
    recorded_at: datetime
    changed_at: datetime


def campaign_changes(session: Session) -> list[CampaignChange]:
    """Campaign → times of its last recorded attempt and of its bundle's last change; campaigns without a trial are left out."""
    recorded = dict(session.execute(select(Trial.campaign_id, func.max(Trial.recorded_at)).group_by(Trial.campaign_id)).tuples().all())
    changes = (
        select(Finding.campaign_id, func.max(Finding.updated_at)).group_by(Finding.campaign_id),
        select(Finding.campaign_id, func.max(Finding.last_seen_at)).group_by(Finding.campaign_id),
        select(Baseline.campaign_id, func.max(Baseline.accepted_at)).group_by(Baseline.campaign_id),
        select(Baseline.campaign_id, func.max(Baseline.superseded_at)).group_by(Baseline.campaign_id),
        select(Quarantined.campaign_id, func.max(Quarantined.updated_at)).group_by(Quarantined.campaign_id),
        select(AuditEntry.subject, func.max(AuditEntry.at)).where(AuditEntry.subject.in_(recorded)).group_by(AuditEntry.subject),
        select(Trial.campaign_id, func.max(Expired.expired_at)).join(Expired, Expired.trial_pk == Trial.id).group_by(Trial.campaign_id),
    )
    last = dict(recorded)
    for query in changes:
        for campaign_id, at in session.execute(query):
            if campaign_id in last and at is not None:
                last[campaign_id] = max(last[campaign_id], at)
    return [CampaignChange(name, recorded[name], last[name]) for name in sorted(recorded)]


class Campaigns:
    """Changes of campaigns."""

    moved = reads(campaign_changes)
