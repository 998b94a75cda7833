"""A provider's year: the speed of all its workloads beside the fleet's, and which providers run the same driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from plumbline.analysis.drift.fact_changes import FACT_NAMES
from plumbline.archive import Archive
from plumbline.archive.pages import CampaignHead
from plumbline.archive.repository import Span
from plumbline.workflows.campaign_history import MONTHS, speed_index

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
    """The newest twelve campaigns, or those of a span; in a fixed number of statements."""
    most = MONTHS if between == (None, None) else 5 * MONTHS
    heads = archive.campaigns_page(limit=most, between=between).rows[::-1]
    newest: dict[str, tuple[datetime, str, str]] = {}
    for part in archive.newest_usable():
        newest[part.series.provider] = max(
            newest.get(part.series.provider, (part.planned_at, "", "")), (part.planned_at, part.series.series_key, part.campaign_id)
        )
    found = archive.newest_facts([(key, campaign) for _, key, campaign in newest.values()])
    facts = {provider: _shared(found.get(key, ())) for provider, (_, key, _) in newest.items()}
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
