"""Review one campaign: every series against its baseline, what drifted kept as findings, what is over resolved. No Airflow in here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from plumbline.declarations import METRICS, AnyWorkload, Declarations, load

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Comparison, Finding
    from plumbline.drift.compare import Pair

REVIEWER = "drift"


@dataclass(frozen=True)
class Reviewed:
    """One series of the campaign. `first_baseline`: this very campaign became the series' first baseline, so nothing could drift yet.

    `findings` are those, new or continued, that the series stands in after the review.
    """

    series_key: str
    comparison: Comparison
    findings: tuple[Finding, ...]
    first_baseline: bool


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
        by_provider: dict[str, dict[str, AnyWorkload]] = {}
        for series_key, workload in workloads.items():
            by_provider.setdefault(series_key.split("/")[4], {})[series_key] = workload
        return [one for name, series in by_provider.items() for one in _provider(archive, declared, campaign_id, name, series)]


def told(reviewed: Reviewed) -> dict[str, Any]:
    """One series of a review in a few plain words: verdict, findings, what is to be asked of a person, what more repeats would settle."""
    from plumbline.drift import wording
    from plumbline.orchestration.deciding import questions

    comparison = reviewed.comparison
    return {
        "series_key": reviewed.series_key,
        "verdict": comparison.verdict,
        "findings": [f.finding_id for f in reviewed.findings],
        "questions": [{"finding_id": i, "campaign_id": comparison.candidate_campaign} for i in questions(reviewed.findings)],
        "suspected": [
            f"{r.metric} {r.statistic} {wording.change(r)}: {wording.repeats_needed(r)}"
            for r in comparison.rows
            if r.verdict == "suspected"
        ],
    }


def alert() -> dict[str, list[str]]:
    """Tell people about every finding that is not settled, and of those that were told and are over now: that they are.

    What was told already is recognised, what could not be told is retried. Finding ids by what became of them; to the log always, to
    Slack where a connection exists.
    """
    from plumbline.alerts import connect, deliver
    from plumbline.archive import open_archive
    from plumbline.drift import Finding

    with open_archive() as archive:
        wanted = {f.finding_id: f for state in ("open", "acknowledged") for f in archive.findings(state)}
        for incident in archive.incidents():
            if incident.state not in ("accepted", "resolved") and incident.finding_id not in wanted:
                wanted[incident.finding_id] = archive.finding(incident.finding_id)
        return asdict(deliver([Finding.of(f.detail).with_state(f.state) for f in wanted.values()], archive, connect()))


def compared(
    archive: Archive,
    declared: Declarations,
    series_key: str,
    campaign_id: str,
    workload: AnyWorkload,
    against: Sequence[str] | None = None,
) -> Comparison:
    """The campaign's part of a series against the campaigns `against` (None: the accepted baseline), by the thresholds that its trials
    were planned with. Of one series alone: its metrics are corrected for by themselves."""
    from plumbline.drift.compare import compare_together

    pair = _pair(archive, declared, series_key, campaign_id, workload, (), against)
    return compare_together([pair], rules=declared.thresholds.drift)[0]


def _provider(
    archive: Archive, declared: Declarations, campaign_id: str, provider: str, workloads: dict[str, AnyWorkload]
) -> list[Reviewed]:
    from plumbline.drift import Finding, findings_of
    from plumbline.drift.compare import compare_together
    from plumbline.drift.life import course
    from plumbline.orchestration.past import with_past

    for series_key in workloads:
        archive.bootstrap_baseline(series_key, declared.thresholds.drift)
    drifted = _drifted(archive, provider)
    pairs = [_pair(archive, declared, key, campaign_id, w, drifted.get(key, ())) for key, w in workloads.items()]
    comparisons = [with_past(archive, c) for c in compare_together(pairs, rules=declared.thresholds.drift)]
    standing = [Finding.of(f.detail).with_state(f.state) for f in archive.findings_of(provider, unsettled=True)]
    newest = {key for key in workloads if archive.latest_campaign(key) == campaign_id}
    went = course([f for c in comparisons for f in findings_of(c)], standing, comparisons, newest)
    _keep(archive, went.new, went.continued, campaign_id)
    for finding, why in went.over:
        archive.set_finding_state(finding.finding_id, "resolved", by=REVIEWER, why=why)
    now = (*went.new, *went.continued)
    return [
        Reviewed(
            c.series_key,
            c,
            tuple(f for f in now if c.series_key in f.standing),
            archive.baseline(c.series_key) == [campaign_id],
        )
        for c in comparisons
    ]


def _keep(archive: Archive, new: Sequence[Finding], continued: Sequence[Finding], campaign_id: str) -> None:
    from plumbline.orchestration.stored import record_of

    archive.save_findings([record_of(finding) for finding in new])
    for finding in continued:
        archive.continue_finding(record_of(finding), campaign_id, finding.headline)


def _pair(
    archive: Archive,
    declared: Declarations,
    series_key: str,
    campaign_id: str,
    workload: AnyWorkload,
    drifted: Sequence[str],
    against: Sequence[str] | None = None,
) -> Pair:
    from plumbline.drift import CampaignSample
    from plumbline.drift.compare import Pair

    accepted = [c for c in archive.baseline(series_key) if c != campaign_id] if against is None else against
    baseline = [CampaignSample.of(archive.sample(series_key, c).plain()) for c in accepted]
    candidate = CampaignSample.of(archive.sample(series_key, campaign_id).plain())
    since = _since(archive, series_key, campaign_id, accepted, drifted)
    judged = [metric for metric in METRICS if declared.thresholds.drift_limits(workload, metric) is not None]
    levels = archive.levels(series_key, since, judged) if since else {}
    return Pair(
        baseline,
        candidate,
        lambda metric: declared.thresholds.drift_limits(workload, metric),
        [
            CampaignSample.of(
                {"series_key": series_key, "campaign_id": c, "simulated": candidate.simulated, "observations": [vars(o) for o in found]}
            )
            for c, found in levels.items()
        ],
    )


def _since(archive: Archive, series_key: str, campaign_id: str, accepted: Sequence[str], drifted: Sequence[str]) -> list[str]:
    """Campaigns between the baseline and the one in question, oldest first, in which the series stood in no performance finding."""
    from plumbline.orchestration.past import HISTORY

    known = dict(archive.series_campaigns(series_key, HISTORY))
    if campaign_id not in known:
        return []
    began = min((known[c] for c in accepted if c in known), default=min(known.values()))
    return [c for c, at in known.items() if began < at < known[campaign_id] and c not in accepted and c not in drifted]


def _drifted(archive: Archive, provider: str) -> dict[str, list[str]]:
    """Series → campaigns in which it stood in a performance finding, whatever became of that."""
    from plumbline.drift import Finding

    found: dict[str, list[str]] = {}
    for finding in (Finding.of(f.detail) for f in archive.findings_of(provider, "performance")):
        for series_key in finding.series:
            found.setdefault(series_key, []).extend((finding.campaign_id, *finding.seen_in))
    return found


def workloads_of(archive: Archive, campaign_id: str, provider: str | None = None) -> dict[str, AnyWorkload]:
    """Each series of the campaign with the workload as it was planned, so that nothing is judged by criteria younger than itself.

    Imported series are left out: nobody here planned them. LookupError if the archive has no other of it.
    """
    found: dict[str, AnyWorkload] = {}
    trials = archive.trials(campaign_id, provider=provider)
    for trial in trials:
        if trial.series_key not in found and trial.source != "imported":
            document = archive.document(trial.trial_id, trial.attempt)
            assert document is not None
            found[trial.series_key] = document.trial.workload
    if not found:
        if trials:
            raise LookupError(f'"{campaign_id}" holds imported results only, which are never reviewed; `plumbline compare` compares them')
        raise LookupError(f'the archive has no trial of campaign "{campaign_id}"{f" on {provider}" if provider else ""}')
    return found
