"""Relative acceptance criteria get their limits from the archive: of a series' accepted baseline, or of another provider's newest result."""

from __future__ import annotations

from statistics import median

from plumbline.archive import Archive
from plumbline.declarations import AnyWorkload, Criterion, RelativeCriterion


def resolve_criteria(archive: Archive, series_key: str, campaign_id: str, workload: AnyWorkload) -> dict[str, Criterion]:
    """The criteria with their limits, by text of the relative ones; without those whose reference is not known yet or 0."""
    relative = [each for each in workload.acceptance if isinstance(each, RelativeCriterion)]
    resolved = ((each.text, _resolve(archive, series_key, campaign_id, each)) for each in relative)
    return {text: criterion for text, criterion in resolved if criterion is not None}


def _resolve(archive: Archive, series_key: str, campaign_id: str, criterion: RelativeCriterion) -> Criterion | None:
    """The reference is a median over usable trials, as in drift: of the baseline that the campaign's review compares, or of a newest campaign."""
    if criterion.provider is None:
        campaigns = [b.campaign_id for b in archive.baselines_of_campaigns(series_key, [campaign_id]).get(campaign_id, ())]
        source = f"the baseline {', '.join(campaigns)}"
    else:
        *work, own, _, _ = series_key.split("/")  # comparable: the same workload@version, protocol and engine
        parts = archive.newest_usable(workloads=[work[1].partition("@")[0]], providers=[own, criterion.provider])
        sources = {p.series.source for p in parts if p.series.series_key == series_key}
        fitting = [p for p in parts if p.series.series_key.split("/")[:-2] == [*work, criterion.provider] and p.series.source in sources]
        if (newest := max(fitting, key=lambda p: p.planned_at, default=None)) is None:
            return None
        series_key, campaigns, source = newest.series.series_key, [newest.campaign_id], f"{criterion.provider} in {newest.campaign_id}"
    levels = archive.levels(series_key, campaigns, [criterion.metric])
    values = [o.value for own in levels.values() for o in own if (o.statistic, o.phase) == (criterion.statistic, criterion.phase)]
    # A percentage of 0 is 0: a single failed request would break it for ever.
    return criterion.limited_by(median(values), source) if values and median(values) else None
