"""Review one campaign: every series against its baseline, what drifted kept as findings, what is over resolved. No Airflow in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plumbline.declarations import AnyWorkload, Declarations, load
from plumbline.orchestration.against_baseline import by_provider, compared, workloads_of

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Comparison, Finding

REVIEWER = "drift"


@dataclass(frozen=True)
class Reviewed:
    """One series of the campaign, with the findings, new or continued, that it stands in after the review."""

    series_key: str
    comparison: Comparison
    findings: tuple[Finding, ...]

    @property
    def quiet(self) -> bool:
        """Whether the campaign could be held against the baseline and nothing in it differs, nor may differ, by what matters."""
        doubted = any(row.verdict == "suspected" and row.family == "lead" for row in self.comparison.rows)
        changed = any(f.kind in ("performance", "environment") for f in self.findings)
        return bool(self.comparison.baseline_campaigns) and not (self.comparison.problems or doubted or changed)


def review(campaign_id: str, provider: str | None = None) -> list[Reviewed]:
    """Compare every series of the campaign (of one provider if named), and store what that means for the findings: new ones open, known
    ones go on, those that are over resolve themselves, and what stopped reporting is missed. To review again changes nothing.

    LookupError if the archive has nothing of it, nor of anything that it should have had.
    """
    from plumbline.archive import open_archive
    from plumbline.orchestration.silence import keep_missed, missed

    declared = load()
    with open_archive() as archive:
        silent = missed(archive, declared, campaign_id, provider)
        keep_missed(archive, silent, campaign_id)
        try:
            workloads = workloads_of(archive, campaign_id, provider)
        except LookupError:
            if silent:
                return []
            raise
        return [one for name, series in by_provider(workloads).items() for one in _provider(archive, declared, campaign_id, name, series)]


def told(reviewed: Reviewed) -> dict[str, Any]:
    """One series of a review in a few plain words: verdict, findings, what is to be asked of a person, what more repeats would settle."""
    from plumbline.drift import wording
    from plumbline.orchestration.deciding import questions

    comparison = reviewed.comparison
    return {
        "series_key": reviewed.series_key,
        "verdict": comparison.verdict,
        "findings": [f.finding_id for f in reviewed.findings],
        "questions": [_question(f, comparison.candidate_campaign) for f in questions(reviewed.findings)],
        "suspected": [
            f"{r.metric} {r.statistic} {wording.change(r)}: {wording.repeats_needed(r)}"
            for r in comparison.rows
            if r.verdict == "suspected"
        ],
    }


def _question(finding: Finding, campaign_id: str) -> dict[str, Any]:
    """What to ask about, and the campaigns whose reviews have asked about it before."""
    before = [c for c in finding.campaigns if c != campaign_id]
    return {"finding_id": finding.finding_id, "campaign_id": campaign_id, "asked_in": before}


def _provider(
    archive: Archive, declared: Declarations, campaign_id: str, provider: str, workloads: dict[str, AnyWorkload]
) -> list[Reviewed]:
    from plumbline.drift import findings_of
    from plumbline.drift.life import course
    from plumbline.orchestration.stored import readable

    for series_key in workloads:
        archive.bootstrap_baseline(series_key, declared.thresholds.drift)
    comparisons = compared(archive, declared, campaign_id, provider, workloads)
    standing = readable(archive.findings_of(provider, unsettled=True))
    newest = {key for key in workloads if archive.latest_campaign(key) == campaign_id}
    went = course([f for c in comparisons for f in findings_of(c)], standing, comparisons, newest)
    _keep(archive, went.new, went.continued, campaign_id)
    for finding, why in went.over:
        archive.set_finding_state(finding.finding_id, "resolved", by=REVIEWER, why=why)
    now = (*went.new, *went.continued)
    reviewed = [Reviewed(c.series_key, c, tuple(f for f in now if c.series_key in f.standing)) for c in comparisons]
    for one in reviewed:
        if one.quiet:
            archive.join_baseline(one.series_key, campaign_id, declared.thresholds.drift)
    return reviewed


def _keep(archive: Archive, new: Sequence[Finding], continued: Sequence[Finding], campaign_id: str) -> None:
    from plumbline.orchestration.stored import record_of

    archive.save_findings([record_of(finding) for finding in new])
    for finding in continued:
        archive.continue_finding(record_of(finding), campaign_id, finding.headline)
