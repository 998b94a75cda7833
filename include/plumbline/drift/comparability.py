"""What may be compared with what: refused field by field before any number is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plumbline.drift.sample import CampaignSample, Series

_ALWAYS = {
    "kind": "training and inference are never compared",
    "workload": "different workloads measure different things",
    "version": "a workload's version is raised when what it measures changes",
    "protocol": "the harness measures differently",
    "engine": "a different engine is a different product",
}
_WITHIN_A_SERIES = {
    "provider": "name the two providers to compare them with each other",
    "region": "another region is another place",
    "instance_type": "another instance type is another machine",
}
_NAMED_BY_THE_SERIES = ("kind", "name", "version")
_WHY = {
    "precision": "cheaper arithmetic is another product",
    "model.precision": "cheaper arithmetic is another product",
    "model": "another model computes something else",
    "batch": "another batch is other work in each step",
    "parallelism": "the work is spread differently",
    "requests.input_tokens": "longer prompts take longer",
    "requests.output_tokens": "longer answers take longer",
    "requests.exact_output": "answers that may end earlier are not of one length",
    "server.client_placement": "the network between client and server is part of the numbers",
    "server.prefix_cache": "a prefix that is cached is not computed",
    "phases": "another load is another question",
}


def problems(baseline: Sequence[CampaignSample], candidate: CampaignSample, across_providers: bool = False) -> tuple[str, ...]:
    """Every reason why the comparison is refused, each naming the field and both values; empty if it may go on."""
    found: list[str] = []
    new = Series.parse(candidate.series_key)
    fields = _ALWAYS if across_providers else {**_ALWAYS, **_WITHIN_A_SERIES}
    for sample in baseline:
        old = Series.parse(sample.series_key)
        names = _names(sample, candidate)
        if _source(sample) != _source(candidate):
            found.append(f"source: {_source(sample)} in {names[0]}, {_source(candidate)} in {names[1]}: the two never mix")
        for field, why in fields.items():
            before, after = getattr(old, field), getattr(new, field)
            if before != after:
                found.append(f"{field}: {before} in {names[0]}, {after} in {names[1]}: {why}")
        if sample.spec is not None and candidate.spec is not None:
            found += [
                f"{field}: {before} in {names[0]}, {after} in {names[1]}: {_why(field)}"
                for field, before, after in _differences(sample.spec, candidate.spec)
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


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    before, after = dict(_flat(old)), dict(_flat(new))
    for field in sorted(before.keys() | after.keys()):
        values = [told.get(field, "absent") for told in (before, after)]
        if values[0] != values[1]:
            yield field, values[0], values[1]


def _flat(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _flat(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, (list, tuple)) and data:
        for i, value in enumerate(data):
            yield from _flat(value, f"{path}[{i}]")
    else:
        yield path, data


def _why(field: str) -> str:
    """By the longest name that the field begins with."""
    fits = (name for name in _WHY if field == name or field.startswith((f"{name}.", f"{name}[")))
    return _WHY.get(max(fits, key=len, default=""), "the trials were asked for something else")
