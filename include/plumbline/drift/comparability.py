"""What may be compared with what: refused field by field before any number is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.declarations.differences import ALWAYS, SOURCE, differences, reason_of
from plumbline.drift.sample import CampaignSample, Series

_WITHIN_A_SERIES = {
    "provider": "name the two providers to compare them with each other",
    "region": "another region is another place",
    "instance_type": "another instance type is another machine",
}
_NAMED_BY_THE_SERIES = ("kind", "name", "version")


def problems(baseline: Sequence[CampaignSample], candidate: CampaignSample, across_providers: bool = False) -> tuple[str, ...]:
    """Every reason why the comparison is refused, each naming the field and both values; empty if it may go on."""
    found: list[str] = []
    new = Series.parse(candidate.series_key)
    fields = ALWAYS if across_providers else {**ALWAYS, **_WITHIN_A_SERIES}
    for sample in baseline:
        old = Series.parse(sample.series_key)
        names = _names(sample, candidate)
        if _source(sample) != _source(candidate):
            found.append(f"source: {_source(sample)} in {names[0]}, {_source(candidate)} in {names[1]}: {SOURCE}")
        for field, why in fields.items():
            before, after = getattr(old, field), getattr(new, field)
            if before != after:
                found.append(f"{field}: {before} in {names[0]}, {after} in {names[1]}: {why}")
        if sample.spec is not None and candidate.spec is not None:
            found += [
                f"{field}: {before} in {names[0]}, {after} in {names[1]}: {reason_of(field)}"
                for field, before, after in differences(sample.spec, candidate.spec)
                if field not in _NAMED_BY_THE_SERIES
            ]
        if (sample.series_key, sample.campaign_id) == (candidate.series_key, candidate.campaign_id):
            found.append(f"campaign: {candidate.campaign_id} is part of the baseline that it is compared with")
    if not baseline:
        found.append("baseline: the series has no accepted baseline yet")
    elif not any(sample.observations for sample in baseline):
        found.append(f"baseline: no believed number in {', '.join(s.campaign_id for s in baseline)}")
    if not candidate.observations:
        found.append(f"candidate: no believed number in {candidate.campaign_id}")
    return tuple(dict.fromkeys(found))


def _names(old: CampaignSample, new: CampaignSample) -> tuple[str, str]:
    """What tells the two apart: the campaigns, or the providers where both took part in one campaign."""
    if old.campaign_id != new.campaign_id:
        return old.campaign_id, new.campaign_id
    return Series.parse(old.series_key).provider, Series.parse(new.series_key).provider


def _source(sample: CampaignSample) -> str:
    return "imported" if sample.imported else "simulated" if sample.simulated else "measured"
