"""Findings in the archive: apply a reconciliation, convert records."""

from __future__ import annotations

from plumbline.archive import Archive
from plumbline.findings import Reconciliation
from plumbline.findings.headline import headline
from plumbline.results.finding import Finding
from plumbline.results.stored import FindingRecord

TAKEN_BACK = "taken_back"
"""Cause in the audit log: a correction took the finding back, so what shows it again is another finding."""


def finding_record(finding: Finding) -> FindingRecord:
    """The row of a finding; `detail` has all its fields."""
    columns = FindingRecord.__dataclass_fields__.keys() - {"headline", "detail", "state"}
    return FindingRecord(**{name: getattr(finding, name) for name in columns}, headline=headline(finding), detail=finding.to_dict())


def apply(archive: Archive, reconciliation: Reconciliation, *, by: str, seen_in: str) -> tuple[str, ...]:
    """Store a reconciliation; the ids of the new findings. `seen_in`: the campaign, or the day of the check (ISO 8601).

    An opened finding that is stored already keeps its state, so a crashed run is repeated safely.
    """
    opened = archive.save_findings([finding_record(finding) for finding in (*reconciliation.opened, *reconciliation.unchanged)])
    for finding in reconciliation.continued:
        archive.continue_finding(finding_record(finding), seen_in, headline(finding))
    for finding, why in reconciliation.resolved:
        archive.set_finding_state(finding.finding_id, "resolved", by=by, why=why)
    for finding, why in reconciliation.taken_back:
        archive.set_finding_state(finding.finding_id, "resolved", by=by, why=why, cause=TAKEN_BACK)
    return opened
