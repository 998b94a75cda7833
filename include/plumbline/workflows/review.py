"""Review a campaign: compare every series with its accepted baseline, store findings, report missing series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

from plumbline.analysis.drift.comparison import Comparison
from plumbline.analysis.drift.environment import FACT_NAMES, fact_name
from plumbline.analysis.drift.series_state import state_of
from plumbline.answers.baseline_comparison import compare_with_baselines, series_by_provider, workloads_of
from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive, open_archive
from plumbline.archive.audit import SERIES_REVIEWED
from plumbline.archive.records import TrialView
from plumbline.declarations import AnyWorkload, Declarations, digest, load_in_force
from plumbline.declarations import series_key as key_of
from plumbline.declarations.purposes import is_monthly
from plumbline.findings import Reconciliation
from plumbline.findings.campaign import findings_of
from plumbline.findings.reconcile import reconcile
from plumbline.findings.types import about_facts, about_speed
from plumbline.findings.types.silence import campaign_deadline, is_complete, missing_series_findings
from plumbline.findings.types.unusable_workload import UnusableWorkload, unusable_workload_finding
from plumbline.results.finding import FLEET, Finding
from plumbline.results.sample import Series
from plumbline.words.drift import format_effect, format_repeats_needed
from plumbline.workflows.baseline_decision import undecided_findings
from plumbline.workflows.causes import review_causes, unsettled_witnesses
from plumbline.workflows.findings import apply
from plumbline.workflows.missing_reviews import note_review

_MONTHS = 24
"""Campaigns of a series of which the newest month is taken."""


def missing_data_findings(
    archive: Archive,
    declared: Declarations,
    campaign_id: str,
    provider: str | None = None,
    now: datetime | None = None,
    *,
    unmeasured: bool = False,
) -> tuple[Finding, ...]:
    """Findings about series that stopped reporting; none for a campaign on demand or one that still runs.

    `unmeasured`: also providers that never took part in a monthly campaign."""
    if not is_monthly(campaign_id) or not is_complete(campaign_id, now or datetime.now(timezone.utc)):
        return ()
    # Simulated providers are rehearsed without being enabled.
    enabled = {p.name for p in declared.enabled_providers()}
    providers = [p for name, p in declared.providers.items() if name == provider and (name in enabled or p.simulated)]
    if provider is None:
        providers = list(declared.enabled_providers())
    left_out = {key_of(w, p): p for p in providers for w, _ in declared.left_out(p)}
    month = int(campaign_id[-2:])
    expected = {key_of(w, p): p for p in providers for w in declared.monthly_workloads(p, month=month)} | left_out
    last = {
        key: max((c for c, _ in archive.series_campaigns(key, _MONTHS, purpose="monthly") if c <= campaign_id), default=None)
        for key in expected
    }
    # An excluded series that reported before is missing; one that never did is a warning of `plumbline check`.
    expected = {key: p for key, p in expected.items() if key not in left_out or last[key] is not None}
    last = {key: last[key] for key in expected}
    simulated = frozenset(key for key, p in expected.items() if p.simulated)
    never = set()
    for name in {p.name for p in expected.values()}:
        keys = [key for key, p in expected.items() if p.name == name]
        if any(last[key] is not None for key in keys):
            continue
        # All series are new, as after a new version of every workload: earlier series of the provider count.
        own = [s.series_key for s in archive.series(provider=name) if s.source != "imported"]
        before = [c for key in own for c in archive.series_campaigns(key, _MONTHS)]
        months = (c for key in own for c, _ in archive.series_campaigns(key, _MONTHS, purpose="monthly"))
        newest = max((c for c in months if c <= campaign_id), default=None)
        if newest is not None:
            last |= dict.fromkeys(keys, newest)
        elif unmeasured and (not before or min(at for _, at in before) < campaign_deadline(campaign_id)):
            never.add(name)
    return missing_series_findings(campaign_id, last, simulated, frozenset(never))


def store_missing_data(archive: Archive, findings: tuple[Finding, ...], campaign_id: str) -> None:
    """Open new findings, continue known ones."""
    opened, continued = [], []
    for finding in findings:
        known = {f.finding_id: f for f in archive.findings_of(finding.provider, "missing_data")}.get(finding.finding_id)
        if known is None:
            opened.append(replace(finding, seen_in=(campaign_id,)))
        elif campaign_id not in (shown_by := Finding.of(known.detail).seen_in):
            continued.append(replace(finding, since=Finding.of(known.detail).since, seen_in=(*shown_by, campaign_id)))
    apply(archive, Reconciliation(tuple(opened), tuple(continued)), by=REVIEWER, seen_in=campaign_id)


def check_missing_data(now: datetime | None = None) -> list[str]:
    """`missing_data_findings` of the month of `now` (default: the present), stored; their ids."""
    now = now or datetime.now(timezone.utc)
    campaign_id = f"{now:%Y-%m}"
    with open_archive() as archive:
        findings = missing_data_findings(archive, load_in_force(), campaign_id, now=now, unmeasured=True)
        store_missing_data(archive, findings, campaign_id)
    return [finding.finding_id for finding in findings]


REVIEWER = "drift"


@dataclass(frozen=True)
class ReviewResult:
    """One series of the campaign, with its new and continued findings."""

    series_key: str
    comparison: Comparison
    findings: tuple[Finding, ...]

    @property
    def quiet(self) -> bool:
        """Whether the campaign was compared and shows no change, also none below its threshold, and no doubt that matters."""
        doubted = any(row.verdict in ("suspected", "moved") and row.family == "lead" for row in self.comparison.rows)
        changed = any(about_speed(f) or about_facts(f) for f in self.findings)
        return bool(self.comparison.baseline_campaigns) and not (self.comparison.problems or doubted or changed)


def review_campaign(campaign_id: str, provider: str | None = None) -> list[ReviewResult]:
    """Compare every series of the campaign (of one provider if named) with its baseline, and reconcile the findings, also about missing series.
    Reviewing again changes nothing.

    LookupError if the archive has no series of the campaign and none is missing.
    """
    declared = load_in_force()
    with open_archive() as archive:
        # Before anything is compared: what is recorded meanwhile needs a review of its own.
        records = {pair: at for pair, at in archive.newest_records(campaign_id).items() if provider in (None, pair[1])}
        silent = missing_data_findings(archive, declared, campaign_id, provider)
        store_missing_data(archive, silent, campaign_id)
        try:
            workloads = workloads_of(archive, campaign_id, provider)
        except LookupError:
            if silent:
                return []
            raise
        reviewed = [
            one for name, series in series_by_provider(workloads).items() for one in _provider(archive, declared, campaign_id, name, series)
        ]
        _review_unusable(archive, campaign_id, reviewed)
        explained = _with_causes(archive, declared, campaign_id, reviewed)
        note_review(archive, REVIEWER, records)
        return explained


def _review_unusable(archive: Archive, campaign_id: str, reviewed: Sequence[ReviewResult]) -> None:
    """Open, continue or resolve the finding of each reviewed workload of which no trial of the campaign is usable on any provider."""
    known = {f.subject: f for f in readable_findings(archive.findings_of(FLEET, "missing_data", unsettled=True))}
    subjects = {UnusableWorkload.of(one.series_key) for one in reviewed}
    doubted = {UnusableWorkload.of(one.series_key) for one in reviewed if one.comparison.reliability.invalid} | (subjects & known.keys())
    if not doubted:
        return
    opened, continued, resolved = [], [], []
    ran = [t for t in archive.trials(campaign_id) if t.source != "imported" and not t.corrected]
    for subject in sorted(doubted):
        trials = [t for t in ran if UnusableWorkload.of(t.series_key) == subject]
        old = known.get(subject)
        if any(t.usable for t in trials):
            if old is not None and old.campaign_id != campaign_id:
                resolved.append((old, f"resolved: campaign {campaign_id} has usable results"))
        elif trials and not all(t.status == "failed" for t in trials):  # each provider of failed ones has its own finding
            reasons = Counter(_why_unusable(t) for t in trials)
            keys = sorted({t.series_key for t in trials})
            finding = unusable_workload_finding(
                FLEET, campaign_id, keys, dict(reasons.most_common()), all(t.source == "simulated" for t in trials)
            )
            if old is None:
                opened.append(finding)
            else:
                seen = tuple(dict.fromkeys((*old.seen_in, *([campaign_id] if campaign_id != old.campaign_id else ()))))
                continued.append(replace(finding, finding_id=old.finding_id, campaign_id=old.campaign_id, seen_in=seen, state=old.state))
    apply(archive, Reconciliation(tuple(opened), tuple(continued), tuple(resolved)), by=REVIEWER, seen_in=campaign_id)


def _why_unusable(trial: TrialView) -> str:
    """The failure class, or the code of the first reason."""
    codes = [r.code for r in (*trial.reasons, *trial.quality_reasons)]
    return trial.failure_class or (codes[0] if codes else trial.status)


def _with_causes(archive: Archive, declared: Declarations, campaign_id: str, reviewed: Sequence[ReviewResult]) -> list[ReviewResult]:
    """The results with the findings of shared causes in the place of their witnesses."""
    changed = {
        Series.parse(one.series_key).provider
        for one in reviewed
        if any(about_speed(f) for f in one.findings)
        or any(fact_name(c.key) in FACT_NAMES for c in one.comparison.environment_changes if c.matters)
    }
    pooled = [f for name in sorted(changed) for f in review_causes(archive, declared, name, REVIEWER, campaign_id)]
    if not pooled:
        return list(reviewed)
    witness = unsettled_witnesses(archive)
    return [
        replace(
            one,
            findings=tuple(
                {f.finding_id: f for f in (*pooled, *one.findings) if one.series_key in f.standing and f.finding_id not in witness}.values()
            ),
        )
        for one in reviewed
    ]


def review_summary(reviewed: ReviewResult) -> dict[str, Any]:
    """One series of a review as plain data: verdict, findings, questions for a person, rows that need more repeats."""
    comparison = reviewed.comparison
    return {
        "series_key": reviewed.series_key,
        "verdict": comparison.verdict,
        "findings": [f.finding_id for f in reviewed.findings],
        "questions": [_question(f, comparison.candidate_campaign) for f in undecided_findings(reviewed.findings)],
        "suspected": [
            f"{r.metric} {r.statistic} {format_effect(r)}: {format_repeats_needed(r)}" for r in comparison.rows if r.verdict == "suspected"
        ],
    }


def _question(finding: Finding, campaign_id: str) -> dict[str, Any]:
    """The question, and the campaigns whose reviews asked it before."""
    before = [c for c in finding.campaigns if c != campaign_id]
    return {"finding_id": finding.finding_id, "campaign_id": campaign_id, "asked_in": before}


def _log_state(archive: Archive, comparison: Comparison) -> None:
    """One entry for each state that a review finds: pages read the newest one of every series at once."""
    state = state_of(comparison)
    detail = {"campaign_id": comparison.candidate_campaign, **asdict(state)}
    once = f"{SERIES_REVIEWED} {comparison.series_key} {digest(detail)}"
    archive.add_audit(who=REVIEWER, what=SERIES_REVIEWED, subject=comparison.series_key, why=state.state, detail=detail, once=once)


def _provider(
    archive: Archive, declared: Declarations, campaign_id: str, provider: str, workloads: dict[str, AnyWorkload]
) -> list[ReviewResult]:
    for series_key in workloads:
        archive.bootstrap_baseline(series_key, declared.thresholds.drift)
    comparisons = compare_with_baselines(archive, declared, campaign_id, provider, workloads, decided=False)
    # A shared cause is judged over all its series, not by each.
    open_findings = [f for f in readable_findings(archive.findings_of(provider, unsettled=True)) if f.cause is None]
    newest = {key for key in workloads if archive.latest_campaign(key) == campaign_id}
    reconciliation = reconcile([f for c in comparisons for f in findings_of(c)], open_findings, comparisons, newest)
    apply(archive, reconciliation, by=REVIEWER, seen_in=campaign_id)
    now = (*reconciliation.opened, *reconciliation.continued)
    reviewed = [ReviewResult(c.series_key, c, tuple(f for f in now if c.series_key in f.standing)) for c in comparisons]
    for one in reviewed:
        if one.series_key in newest:
            _log_state(archive, one.comparison)
        if one.quiet:
            archive.join_baseline(one.series_key, campaign_id, declared.thresholds.drift)
    return reviewed
