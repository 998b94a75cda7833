"""What a month at the declared volumes would cost less at the cheapest provider that meets the requirements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.prices.book import quote
from plumbline.declarations.alerts import RentedVolume


@dataclass(frozen=True)
class Switch:
    """One workload moves from `provider` to `to`, the cheapest that meets the requirements of all teams that decide about it.

    `usd`: less a month. `saving`: as a fraction of the cost. `probability`: that `to` is the cheapest; None if unknown.
    """

    workload: str
    teams: tuple[str, ...]
    provider: str
    to: str
    usd: float
    saving: float
    probability: float | None


def switches(decided: Sequence[TeamDecision], volumes: Sequence[RentedVolume]) -> tuple[Switch, ...]:
    """Every switch of a declared volume that saves money, the dearest first; one for each provider and workload.

    A volume without a workload is shared equally among the workloads that its provider ran and no other volume names. Where several teams
    decide about a workload, the smallest saving counts.
    """
    found: dict[tuple[str, str], list[Switch]] = {}
    for provider in sorted({s.provider for d in decided for c in d.cheapest for s in c.setups}):
        own = [v for v in volumes if fnmatchcase(provider, v.provider)]
        named = {v.workload for v in own if v.workload}
        rest = {c.workload for d in decided for c in d.cheapest if any(s.provider == provider and s.cost for s in c.setups)} - named
        for d in decided:
            place = d.standing.providers.get(provider)
            if place is None:
                continue
            for answer in d.cheapest:
                now = next((s for s in answer.setups if s.provider == provider), None)
                best = answer.answer
                if now is None or not now.cost or best is None or best.cost is None or best.provider == provider:
                    continue
                saving = 1 - best.cost / now.cost
                worth = 0.0
                for volume in own:
                    if volume.workload not in (None, answer.workload) or (volume.workload is None and answer.workload in named):
                        continue
                    price = quote(place, d.standing.day, volume.purchase).basis
                    share = 1.0 if volume.workload else 1 / len(rest)
                    worth += share * volume.time_per_month / 3600 * (price.usd_per_hour if price is not None else 0.0)
                if saving > 0 and worth:
                    team = (d.decision.team,)
                    one = Switch(answer.workload, team, provider, best.provider, worth * saving, saving, best.probability_cheapest)
                    found.setdefault((provider, answer.workload), []).append(one)
    least = [min(each, key=lambda s: s.usd) for each in found.values()]
    teams = {key: tuple(sorted({t for s in each for t in s.teams})) for key, each in found.items()}
    merged = [replace(s, teams=teams[s.provider, s.workload]) for s in least]
    return tuple(sorted(merged, key=lambda s: (-s.usd, s.provider, s.workload)))
