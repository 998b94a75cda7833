"""What may be compared with what: refused field by field before any number is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.drift.sample import CampaignSample, Series

_ALWAYS = {
    "kind": "training and inference are never compared",
    "workload": "different workloads measure different things",
    "version": "a workload's version is raised when what it measures changes",
    "protocol": "the harness measures differently",
    "engine": "a different engine is a different product",
}
_WITHIN_A_SERIES = {
    "provider": "ask for a comparison across providers if that is meant",
    "region": "ask for a comparison across providers if that is meant",
    "instance_type": "ask for a comparison across providers if that is meant",
}


def problems(baseline: Sequence[CampaignSample], candidate: CampaignSample, across_providers: bool = False) -> tuple[str, ...]:
    """Every reason why the comparison is refused, each naming the field and both values; empty if it may go on."""
    found: list[str] = []
    new = Series.parse(candidate.series_key)
    fields = _ALWAYS if across_providers else {**_ALWAYS, **_WITHIN_A_SERIES}
    for sample in baseline:
        old = Series.parse(sample.series_key)
        for field, why in fields.items():
            before, after = getattr(old, field), getattr(new, field)
            if before != after:
                found.append(f"{field}: {before} in {sample.campaign_id}, {after} in {candidate.campaign_id}: {why}")
        if sample.simulated != candidate.simulated:
            which = candidate if candidate.simulated else sample
            found.append(f"simulated: {which.campaign_id} is simulated and the other is measured; they never mix")
        if (sample.series_key, sample.campaign_id) == (candidate.series_key, candidate.campaign_id):
            found.append(f"campaign: {candidate.campaign_id} is part of the baseline that it is compared with")
    if not baseline:
        found.append("baseline: the series has no accepted baseline yet")
    elif not any(sample.observations for sample in baseline):
        found.append(f"baseline: no believed number in {', '.join(s.campaign_id for s in baseline)}")
    if not candidate.observations:
        found.append(f"candidate: no believed number in {candidate.campaign_id}")
    return tuple(dict.fromkeys(found))
