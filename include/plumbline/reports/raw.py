"""The way back from a number to what was measured: trials, documents, checksums, raw files and the command that repeats each trial."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.reports.content import CampaignData
from plumbline.results import Evidence


@dataclass(frozen=True)
class RawRow:
    """One attempt. `document`: its path below the result store, empty if nothing came back."""

    trial_id: str
    attempt: int
    provider: str
    kind: str
    status: str
    reasons: tuple[str, ...]
    document: str
    checksum: str
    evidence: tuple[Evidence, ...]
    replay: str


def raw_rows(campaign: CampaignData) -> tuple[RawRow, ...]:
    """Every attempt of the campaign in the order of its trials, planned ones without a result included."""
    rows = []
    for d in campaign.documents:
        trial = d.trial
        quality = campaign.quality.get((trial.trial_id, trial.attempt))
        reasons = tuple(r.detail for r in d.validity.reasons) + (quality.reasons if quality else ())
        rejected = quality is not None and quality.action == "reject"
        rows.append(
            RawRow(
                trial_id=trial.trial_id,
                attempt=trial.attempt,
                provider=trial.provider.name,
                kind=trial.workload.kind,
                status="rejected" if rejected else d.validity.status,
                reasons=reasons,
                document=f"{trial.campaign_id}/{trial.trial_id}/attempt-{trial.attempt}/collected.json",
                checksum=d.checksum,
                evidence=d.evidence,
                replay=d.replay or "",
            )
        )
    seen = {d.trial.trial_id for d in campaign.documents}
    rows += [
        RawRow(t.trial_id, t.attempt, t.provider.name, t.workload.kind, "missing", ("planned, but nothing came back",), "", "", (), "")
        for t in campaign.planned
        if t.trial_id not in seen
    ]
    return tuple(sorted(rows, key=lambda r: (r.kind != "training", r.trial_id, r.attempt)))
