"""A finding as the archive stores it."""

from __future__ import annotations

from plumbline.archive.records import FindingRecord
from plumbline.drift import Finding


def record_of(finding: Finding) -> FindingRecord:
    """The row of a finding; all of it stays in `detail`."""
    return FindingRecord(
        finding_id=finding.finding_id,
        series_key=finding.series_key,
        campaign_id=finding.campaign_id,
        provider=finding.provider,
        kind=finding.kind,
        severity=finding.severity,
        headline=finding.headline,
        detail=finding.to_dict(),
        effect=finding.effect,
        ci_low=finding.ci_low,
        ci_high=finding.ci_high,
        metric=finding.metric,
    )
