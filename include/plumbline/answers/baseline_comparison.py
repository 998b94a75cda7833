"""Compare a campaign's series with the baselines that were accepted at its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from statistics import median

from plumbline.analysis.drift.compare import SeriesPair, compare_series
from plumbline.analysis.drift.comparison import Comparison
from plumbline.analysis.drift.history_verdicts import LONG_SERIES, SeriesHistory, rows_needing_history
from plumbline.analysis.drift.history_verdicts import apply_history as judged
from plumbline.answers.findings import readable_findings
from plumbline.archive import Archive
from plumbline.declarations import AnyWorkload, Declarations
from plumbline.findings.types.slow_node import slow_nodes
from plumbline.results.launch_record import nodes_of
from plumbline.results.sample import CampaignSample, Series

HISTORY_LENGTH = 48
"""Campaigns of a series that a review reads: four years of monthly ones."""


def _add_history(archive: Archive, comparison: Comparison, campaigns: Sequence[str]) -> Comparison:
    """Apply a long series' history to rows in doubt, and to creep across successive baselines. `campaigns`: of the series, oldest first."""
    key, candidate = comparison.series_key, comparison.candidate_campaign
    if len(campaigns) < LONG_SERIES or candidate not in campaigns:
        return comparison
    campaigns = campaigns[: campaigns.index(candidate) + 1]
    oldest = _oldest_baseline(archive, key)
    several = oldest is not None and comparison.baseline_campaigns != (oldest,)
    wanted = rows_needing_history(comparison, several)
    if not wanted:
        return comparison
    levels = archive.levels(key, [*campaigns, *([oldest] if oldest and oldest not in campaigns else [])], sorted({m for m, _, _ in wanted}))

    def level(campaign: str, row: tuple[str, str, str]) -> float | None:
        values = [o.value for o in levels[campaign] if (o.metric, o.statistic, o.phase) == row]
        return median(values) if values else None

    began = {row: at for row in wanted if several and oldest and (at := level(oldest, row)) is not None}
    return judged(comparison, SeriesHistory(campaigns, {row: [level(c, row) for c in campaigns] for row in wanted}, began))


def _oldest_baseline(archive: Archive, series_key: str) -> str | None:
    """The oldest baseline since the last accepted creep, a change of performance that no single baseline shows."""
    accepted = archive.baseline_history(series_key)
    crept = [
        f.updated_at
        for f in archive.findings_of(series_key.split("/")[4], "performance")
        if f.state == "accepted" and series_key in f.detail.get("series", ()) and any(m.get("crept") for m in f.detail["members"])
    ]
    since = [b for b in accepted if not crept or b.accepted_at >= max(crept)]
    return (since or accepted[-1:])[0].campaign_id if accepted else None


def series_by_provider(workloads: Mapping[str, AnyWorkload]) -> dict[str, dict[str, AnyWorkload]]:
    """The series of each provider, which share one multiple-testing correction."""
    by_provider: dict[str, dict[str, AnyWorkload]] = {}
    for series_key, workload in workloads.items():
        by_provider.setdefault(Series.parse(series_key).provider, {})[series_key] = workload
    return by_provider


def compare_with_baselines(
    archive: Archive,
    declared: Declarations,
    campaign_id: str,
    provider: str,
    workloads: Mapping[str, AnyWorkload],
    judged_only: bool = False,
    decided: bool = True,
) -> list[Comparison]:
    """One comparison for each series of the provider, corrected together, by the thresholds of the trials' plan, with the baseline of that
    time. `judged_only`: without informative rows. `decided`: also a campaign that a person accepted as the baseline since."""
    drifted, limits = _drifted(archive, provider), declared.thresholds.drift_limits
    judged = {
        key: [name for name, metric in workload.catalogue.items() if limits(workload, metric) is not None]
        for key, workload in workloads.items()
    }
    # A campaign of the baseline is compared with what was accepted before it, as in its review.
    accepted = {
        key: [b.campaign_id for b in archive.baselines_of_campaigns(key, [campaign_id]).get(campaign_id, ())]
        for key in workloads
        if decided or archive.baseline(key)[:1] != [campaign_id]
    }
    accepted = {key: accepted.get(key, []) for key in workloads}
    samples = archive.samples(
        [(key, campaign) for key, baseline in accepted.items() for campaign in (*baseline, campaign_id)],
        sorted({metric for own in judged.values() for metric in own}) if judged_only else None,
    )

    slow = slow_nodes(readable_findings(archive.findings_of(provider, "reliability", unsettled=True)))
    known = {key: dict(archive.result_campaigns(key, HISTORY_LENGTH)) for key in workloads}

    def pair(series_key: str, workload: AnyWorkload) -> SeriesPair:
        baseline = [_elsewhere(archive, samples[series_key, campaign], slow) for campaign in accepted[series_key]]
        candidate = _elsewhere(archive, samples[series_key, campaign_id], slow)
        since = _undrifted_since(known[series_key], campaign_id, accepted[series_key], drifted.get(series_key, ()))
        levels = archive.levels(series_key, since, judged[series_key]) if since else {}
        since_then = (CampaignSample(series_key, campaign, candidate.simulated, level) for campaign, level in levels.items())
        history = [_elsewhere(archive, sample, slow) for sample in since_then]
        return SeriesPair(baseline, candidate, lambda metric: limits(workload, metric), history)

    pairs = [pair(*series) for series in workloads.items()]
    compared = compare_series(pairs, rules=declared.thresholds.drift, judged_only=judged_only)
    return [_add_history(archive, c, list(known[c.series_key])) for c in compared]


def _elsewhere(archive: Archive, sample: CampaignSample, slow: Set[str]) -> CampaignSample:
    """The sample without trials on slow nodes, unless all ran there: a bad node is no noise of its provider."""
    nodes = {}
    for trial in archive.trials(sample.campaign_id, sample.series_key) if slow else ():
        if trial.usable and (document := archive.document(trial.trial_id, trial.attempt)) is not None:
            nodes[trial.slot, trial.repeat] = nodes_of(document) & slow
    kept = tuple(o for o in sample.observations if not nodes.get((o.slot, o.repeat)))
    left_out = tuple(sorted(set().union(*nodes.values())))
    return replace(sample, observations=kept, left_out=left_out) if kept and left_out else sample


def _undrifted_since(known: Mapping[str, datetime], campaign_id: str, accepted: Sequence[str], drifted: Sequence[str]) -> list[str]:
    """Campaigns between the baseline and this one, oldest first, in which the series had no performance finding."""
    if campaign_id not in known:
        return []
    began = min((known[c] for c in accepted if c in known), default=min(known.values()))
    return [c for c, at in known.items() if began < at < known[campaign_id] and c not in accepted and c not in drifted]


def _drifted(archive: Archive, provider: str) -> dict[str, list[str]]:
    """Series → campaigns in which it had a performance finding, whatever its state."""
    drifted: dict[str, list[str]] = {}
    for finding in readable_findings(archive.findings_of(provider, "performance")):
        for series_key in finding.series:
            drifted.setdefault(series_key, []).extend(finding.campaigns)
    return drifted


def workloads_of(archive: Archive, campaign_id: str, provider: str | None = None) -> dict[str, AnyWorkload]:
    """Each series of the campaign with the workload as planned, so that no criteria are newer than the trial; without imported series.

    LookupError if the archive has no other series of the campaign.
    """
    workloads: dict[str, AnyWorkload] = {}
    trials = archive.trials(campaign_id, provider=provider)
    for trial in trials:
        if trial.series_key not in workloads and trial.source != "imported":
            document = archive.document(trial.trial_id, trial.attempt)
            assert document is not None
            workloads[trial.series_key] = document.trial.workload
    if not workloads:
        if trials:
            raise LookupError(f'"{campaign_id}" has imported results only, which are not reviewed; `plumbline compare` compares them')
        raise LookupError(f'the archive has no trial of campaign "{campaign_id}"{f" on {provider}" if provider else ""}')
    return workloads
