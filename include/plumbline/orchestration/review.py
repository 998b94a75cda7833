"""Review one provider's part of a campaign: every series against its baseline, what drifted kept as findings. No Airflow in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from plumbline.declarations import AnyWorkload, Declarations, load

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.views import FindingRecord
    from plumbline.drift import Comparison, Finding


@dataclass(frozen=True)
class Reviewed:
    """One series of the campaign. `first_baseline`: this very campaign became the series' first baseline, so nothing could drift yet."""

    series_key: str
    comparison: Comparison
    findings: tuple[Finding, ...]
    first_baseline: bool


def review(campaign_id: str, provider: str | None = None) -> list[Reviewed]:
    """Compare every series of the campaign (of one provider if named) and store the findings; one that is known stays as it is.

    LookupError if the archive has nothing of it.
    """
    from plumbline.archive import open_archive

    declared = load()
    with open_archive() as archive:
        reviewed = [
            _series(archive, declared, series_key, campaign_id, workload)
            for series_key, workload in workloads_of(archive, campaign_id, provider).items()
        ]
        archive.save_findings([_record(finding) for one in reviewed for finding in one.findings])
    return reviewed


def alert() -> dict[str, list[str]]:
    """Tell people about every finding that is not settled: those that were told already are recognised, those that were not are retried.

    Finding ids by what became of them; to the log always, to Slack where a connection exists.
    """
    from plumbline.alerts import connect, deliver
    from plumbline.archive import open_archive
    from plumbline.drift import Finding

    with open_archive() as archive:
        unsettled = [*archive.findings("open"), *archive.findings("acknowledged")]
        return asdict(deliver([Finding.of(f.detail).with_state(f.state) for f in unsettled], archive, connect()))


def compared(
    archive: Archive,
    declared: Declarations,
    series_key: str,
    campaign_id: str,
    workload: AnyWorkload,
    against: Sequence[str] | None = None,
) -> Comparison:
    """The campaign's part of a series against the campaigns `against` (None: the accepted baseline), by the thresholds that its trials
    were planned with."""
    from plumbline.drift import CampaignSample, compare

    baseline = [c for c in archive.baseline(series_key) if c != campaign_id] if against is None else against
    return compare(
        [CampaignSample.of(archive.sample(series_key, c).plain()) for c in baseline],
        CampaignSample.of(archive.sample(series_key, campaign_id).plain()),
        rules=declared.thresholds.drift,
        limits=lambda metric: declared.thresholds.drift_limits(workload, metric),
    )


def _series(archive: Archive, declared: Declarations, series_key: str, campaign_id: str, workload: AnyWorkload) -> Reviewed:
    from plumbline.drift import findings_of

    archive.bootstrap_baseline(series_key, declared.thresholds.drift)
    comparison = compared(archive, declared, series_key, campaign_id, workload)
    return Reviewed(series_key, comparison, findings_of(comparison), archive.baseline(series_key) == [campaign_id])


def workloads_of(archive: Archive, campaign_id: str, provider: str | None = None) -> dict[str, AnyWorkload]:
    """Each series of the campaign with the workload as it was planned, so that nothing is judged by criteria younger than itself."""
    found: dict[str, AnyWorkload] = {}
    for trial in archive.trials(campaign_id, provider=provider):
        if trial.series_key not in found:
            document = archive.document(trial.trial_id, trial.attempt)
            assert document is not None
            found[trial.series_key] = document.trial.workload
    if not found:
        raise LookupError(f'the archive has no trial of campaign "{campaign_id}"{f" on {provider}" if provider else ""}')
    return found


def _record(finding: Finding) -> FindingRecord:
    from plumbline.archive.views import FindingRecord

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
