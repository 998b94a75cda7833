"""Compare two campaigns, or two trials, that a person names. No Airflow in here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plumbline.declarations import Declarations
from plumbline.orchestration.review import compared, workloads_of

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.drift import CampaignSample, Comparison
    from plumbline.results import ResultDocument


def compare_named(archive: Archive, declared: Declarations, old: str, new: str) -> list[Comparison]:
    """One comparison per series that both have; `old` and `new` are campaign ids or both trial ids.

    LookupError if the archive does not have them, or has nothing that both share.
    """
    campaigns = [bool(archive.trials(campaign_id=name)) for name in (old, new)]
    if all(campaigns):
        return _campaigns(archive, declared, old, new)
    documents = [None if is_campaign else archive.document(name) for is_campaign, name in zip(campaigns, (old, new), strict=True)]
    for name, is_campaign, document in zip((old, new), campaigns, documents, strict=True):
        if not is_campaign and document is None:
            raise LookupError(f'the archive has neither a campaign nor a trial "{name}"; `plumbline campaigns` lists what is there')
    first, second = documents
    if first is None or second is None:
        raise LookupError("one of the two is a campaign and the other a trial; expected two campaigns or two trials")
    return [_trials(archive, declared, first, second)]


def _campaigns(archive: Archive, declared: Declarations, old: str, new: str) -> list[Comparison]:
    before, after = workloads_of(archive, old), workloads_of(archive, new)
    shared = sorted(before.keys() & after.keys())
    if not shared:
        raise LookupError(f"{old} and {new} have no series in common: other workloads, versions or providers")
    return [compared(archive, declared, key, new, after[key], [old]) for key in shared]


def _trials(archive: Archive, declared: Declarations, first: ResultDocument, second: ResultDocument) -> Comparison:
    from plumbline.drift import CampaignSample
    from plumbline.drift.single import compare_trials

    series_key = first.trial.series_key
    history = [
        CampaignSample.of(archive.sample(series_key, c.campaign_id).plain())
        for c in archive.campaigns(series_key)
        if c.campaign_id != second.trial.campaign_id
    ]
    return compare_trials(
        _sample(first),
        _sample(second),
        history,
        rules=declared.thresholds.drift,
        limits=lambda metric: declared.thresholds.drift_limits(second.trial.workload, metric),
    )


def _sample(document: ResultDocument) -> CampaignSample:
    from plumbline.drift import CampaignSample

    trial = document.trial
    usable = document.validity.status in ("valid", "degraded")
    return CampaignSample.of(
        {
            "series_key": trial.series_key,
            "campaign_id": trial.trial_id,
            "simulated": document.simulated,
            "observations": [
                {
                    **row.model_dump(include={"metric", "statistic", "phase", "unit", "direction", "value"}),
                    "slot": trial.slot,
                    "repeat": trial.repeat,
                }
                for row in (document.metrics if usable else ())
            ],
            "environments": [document.environment.facts] if document.environment else [],
            "planned": 1,
        }
    )
