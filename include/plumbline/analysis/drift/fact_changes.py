"""Changes of environment facts over a fleet: who has a new value since when, who is still on another one, and what it did where it came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


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
    """A provider changed to the value, first seen in this campaign. `current`: it still has it."""

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
    """Every value that a provider changed to and some provider still has, the newest change first."""
    now: dict[tuple[str, str], str] = {}
    moved: dict[tuple[str, str], list[FactReading]] = {}
    was: dict[tuple[str, str, str, str], str] = {}
    for r in sorted(readings, key=lambda r: (r.at, r.campaign, r.value)):
        before = now.get((r.fact, r.provider))
        if before is not None and before != r.value:
            moved.setdefault((r.fact, r.value), []).append(r)
            was[r.fact, r.value, r.provider, r.campaign] = before
        now[r.fact, r.provider] = r.value
    found = []
    for (fact, value), own in moved.items():
        values = {provider: v for (f, provider), v in now.items() if f == fact}
        have = tuple(sorted(p for p, v in values.items() if v == value))
        last = {r.provider: r for r in own}  # a provider that went back and forth changed when it last did
        adoptions = tuple(
            Adoption(p, was[fact, value, p, r.campaign], r.campaign, r.at, p in have)
            for p, r in sorted(last.items(), key=lambda each: (each[1].at, each[0]))
        )
        others = tuple(sorted((p, v) for p, v in values.items() if v != value))
        if have:
            found.append(FactChange(fact, value, adoptions, have, len(values), others))
    return tuple(sorted(found, key=lambda c: (-c.newest.timestamp(), c.fact, c.value)))
