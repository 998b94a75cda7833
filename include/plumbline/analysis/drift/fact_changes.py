"""Changes of environment facts over a fleet: who has a new value since when, who is still on another one, and what it did where it came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

FACT_NAMES = {
    "driver.version": "driver",
    "cuda.version": "CUDA",
    "rocm.version": "ROCm",
    "nccl.version": "NCCL",
    "kubernetes.version": "Kubernetes",
    "os.kernel": "kernel",
    "host.instance_type": "node type",
}
"""Facts that a provider changes without being asked, with their names for people."""


@dataclass(frozen=True)
class FactReading:
    """What a provider's trials of one campaign reported of one fact."""

    provider: str
    campaign: str
    at: datetime
    fact: str
    value: str


@dataclass(frozen=True)
class Adoption:
    """The value came to a provider, first seen in this campaign; `before`: its values in the one before. `current`: it still has it."""

    provider: str
    before: str
    campaign: str
    at: datetime
    current: bool


@dataclass(frozen=True)
class FactChange:
    """One value of a fact that at least one provider changed to. `have`: providers with it now, of `known` that report the fact; `others`:
    (provider, its value now) of the rest."""

    fact: str
    value: str
    adoptions: tuple[Adoption, ...]
    have: tuple[str, ...]
    known: int
    others: tuple[tuple[str, str], ...]

    @property
    def newest(self) -> datetime:
        return max(a.at for a in self.adoptions)


def fact_changes(readings: Sequence[FactReading]) -> tuple[FactChange, ...]:
    """Every value that came to a provider and that some provider still has, the newest change first.

    Nodes of one campaign may differ: a value comes where the campaign before has it on no node, and counts for a provider that has it on any.
    """
    seen: dict[tuple[str, str], dict[str, tuple[datetime, set[str]]]] = {}
    for r in sorted(readings, key=lambda r: (r.at, r.campaign)):
        seen.setdefault((r.fact, r.provider), {}).setdefault(r.campaign, (r.at, set()))[1].add(r.value)
    now: dict[str, dict[str, set[str]]] = {}
    came: dict[tuple[str, str], dict[str, tuple[str, str, datetime]]] = {}
    for (fact, provider), campaigns in seen.items():
        for (_, was), (campaign, (at, values)) in pairwise(campaigns.items()):
            for value in values - was[1]:
                came.setdefault((fact, value), {})[provider] = (", ".join(sorted(was[1])), campaign, at)  # of several times the last
        now.setdefault(fact, {})[provider] = list(campaigns.values())[-1][1]
    found = []
    for (fact, value), own in came.items():
        have = tuple(sorted(p for p, values in now[fact].items() if value in values))
        adoptions = tuple(Adoption(p, *each, p in have) for p, each in sorted(own.items(), key=lambda one: (one[1][2], one[0])))
        others = tuple(sorted((p, ", ".join(sorted(values))) for p, values in now[fact].items() if value not in values))
        if have:
            found.append(FactChange(fact, value, adoptions, have, len(now[fact]), others))
    return tuple(sorted(found, key=lambda c: (-c.newest.timestamp(), c.fact, c.value)))
