"""A campaign's series of one provider against their accepted baselines: what the review and the report both go by. No Airflow in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from plumbline.declarations import METRICS, AnyWorkload, Declarations

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import Comparison
    from plumbline.drift.compare import Pair


def by_provider(workloads: Mapping[str, AnyWorkload]) -> dict[str, dict[str, AnyWorkload]]:
    """The series of each provider: what is corrected for together."""
    from plumbline.drift.sample import Series

    found: dict[str, dict[str, AnyWorkload]] = {}
    for series_key, workload in workloads.items():
        found.setdefault(Series.parse(series_key).provider, {})[series_key] = workload
    return found


def compared(
    archive: Archive, declared: Declarations, campaign_id: str, provider: str, workloads: Mapping[str, AnyWorkload]
) -> list[Comparison]:
    """One comparison for each series of the provider, corrected together and held against its past, by the thresholds that its trials were
    planned with."""
    from plumbline.drift.compare import compare_together
    from plumbline.orchestration.past import with_past

    drifted = _drifted(archive, provider)
    pairs = [_pair(archive, declared, key, campaign_id, w, drifted.get(key, ())) for key, w in workloads.items()]
    return [with_past(archive, c) for c in compare_together(pairs, rules=declared.thresholds.drift)]


def _pair(
    archive: Archive,
    declared: Declarations,
    series_key: str,
    campaign_id: str,
    workload: AnyWorkload,
    drifted: Sequence[str],
) -> Pair:
    from plumbline.drift import CampaignSample
    from plumbline.drift.compare import Pair

    # One that is part of the baseline is held against what was accepted before it, as its review held it.
    accepted = list(takewhile(lambda c: c != campaign_id, archive.baseline(series_key)))
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
    from plumbline.orchestration.stored import readable

    found: dict[str, list[str]] = {}
    for finding in readable(archive.findings_of(provider, "performance")):
        for series_key in finding.series:
            found.setdefault(series_key, []).extend(finding.campaigns)
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
