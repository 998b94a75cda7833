"""Twelve months of the fleet: each provider's speed over its campaigns, and the facts that providers share."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.analysis.drift.environment import FACT_NAMES
from plumbline.archive import Archive
from plumbline.archive.pages import CampaignHead
from plumbline.archive.repository import Span
from plumbline.metrics import METRICS, leading_names

MONTHS = 12


def speed_index(archive: Archive, campaigns: Sequence[str]) -> dict[str, dict[str, float]]:
    """Provider → campaign → 100 × the geometric mean over its series of how much faster they are than in their first campaign: of all these metrics
    less is faster."""
    levels: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for level in archive.campaign_levels(campaigns, {name: METRICS[name].statistic for name in leading_names("hardware")}):
        if level.value > 0:
            levels[level.provider, level.series_key][level.metric][level.campaign_id] = level.value
    logs: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (provider, _), by_metric in levels.items():
        values = next(by_metric[name] for name in leading_names("hardware") if name in by_metric)
        base = next(values[c] for c in campaigns if c in values)
        for campaign, value in values.items():
            logs[provider][campaign].append(math.log(base / value))
    return {provider: {c: 100 * math.exp(sum(v) / len(v)) for c, v in own.items()} for provider, own in logs.items()}


SHARED_FACTS = ("driver.version", "cuda.version", "rocm.version", "nccl.version")
"""Facts of an environment that the fleet is counted by."""


@dataclass(frozen=True)
class FleetYear:
    """`campaigns`: oldest first. `index`: provider → campaign → speed over all its workloads, 100 in its first of these campaigns.
    `facts`: provider → what its newest environments say of SHARED_FACTS."""

    campaigns: tuple[CampaignHead, ...]
    index: Mapping[str, Mapping[str, float]]
    facts: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class LaneFact:
    """One shared fact: `same` of `known` providers have this one's value."""

    name: str
    value: str
    same: int
    known: int


def fleet_year(archive: Archive, between: Span = (None, None)) -> FleetYear:
    """The newest twelve campaigns that providers are compared over, or those of a span; in a fixed number of statements."""
    most = MONTHS if between == (None, None) else 5 * MONTHS
    heads = archive.compared_campaigns(most, between=between)
    newest: dict[str, tuple[datetime, str, str]] = {}
    for part in archive.newest_usable():
        newest[part.series.provider] = max(
            newest.get(part.series.provider, (part.planned_at, "", "")), (part.planned_at, part.series.series_key, part.campaign_id)
        )
    newest_facts = archive.newest_facts([(key, campaign) for _, key, campaign in newest.values()])
    facts = {provider: _shared(newest_facts.get(key, ())) for provider, (_, key, _) in newest.items()}
    return FleetYear(heads, speed_index(archive, [head.campaign_id for head in heads]) if heads else {}, facts)


def _shared(environments: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """The facts on which all environments agree."""
    values = {key: {str(facts[key]) for facts in environments if facts.get(key) is not None} for key in SHARED_FACTS}
    return {key: next(iter(own)) for key, own in values.items() if len(own) == 1}


def fleet_lane(year: FleetYear, provider: str) -> tuple[LaneFact, ...]:
    """How many providers share each of this one's facts."""
    return tuple(
        LaneFact(
            FACT_NAMES[key],
            value,
            sum(own.get(key) == value for own in year.facts.values()),
            sum(key in own for own in year.facts.values()),
        )
        for key, value in year.facts.get(provider, {}).items()
    )
