"""Savings of a month at the declared volumes at the cheapest provider that meets the requirements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from plumbline.analysis.cost.monthly_worth import monthly_hours, relative_cost
from plumbline.analysis.decisions.cheapest import Cheapest
from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.prices.book import quote
from plumbline.declarations.alerts import RentedVolume
from plumbline.declarations.providers.rates import Purchase
from plumbline.metrics.units import Amount


@dataclass(frozen=True)
class Switch:
    """One workload moves from `provider` to `to`, the cheapest that meets the requirements of all teams that decide about it.

    `usd`: less a month; 0 without a declared volume. `saving`: as a fraction of the cost. `probability`: that `to` is the cheapest; None if
    unknown.
    """

    workload: str
    teams: tuple[str, ...]
    provider: str
    to: str
    usd: Amount
    saving: Amount
    probability: float | None


PriceOf = Callable[[str, Purchase], "float | None"]
"""USD per instance-hour of a provider; None if it is not known."""


@dataclass(frozen=True)
class CostAnswer:
    """A team's costs of one workload. `costs`: USD per outcome by provider, of those that have one; `cheapest`: the cheapest that meets the
    requirements; `current`: where the team runs the workload today, as declared or accepted. A ranking says nothing of that."""

    team: str
    kind: str
    workload: str
    costs: Mapping[str, Amount]
    cheapest: str
    probability: float | None
    price: PriceOf
    current: str | None = None


def switches(decided: Sequence[TeamDecision], volumes: Sequence[RentedVolume]) -> tuple[Switch, ...]:
    """`find_switches` of decisions at the prices that they rest on."""
    return find_switches([answer for d in decided for answer in cost_answers(d)], volumes)


def places_of(answer: CostAnswer, volumes: Sequence[RentedVolume]) -> frozenset[str]:
    """Where the answer's workload runs, of the providers that have a cost: at the team's place, else where a volume is rented by the provider's
    name. A volume for a pattern of names says what a month is worth, not where anything runs."""
    if answer.current is not None:
        return frozenset({answer.current} & answer.costs.keys())
    return frozenset(name for name in answer.costs for v in volumes if v.provider == name and v.workload in (None, answer.workload))


def _has_volume(answer: CostAnswer, volumes: Sequence[RentedVolume]) -> bool:
    """Whether a volume says how much of the workload runs at the team's place."""
    at = answer.current
    return at is not None and any(fnmatchcase(at, v.provider) and v.workload in (None, answer.workload) for v in volumes)


def switches_of(answers: Sequence[CostAnswer], volumes: Sequence[RentedVolume]) -> tuple[Switch, ...]:
    """Every switch that saves from where a workload runs, the best first: in USD a month at the declared volumes.

    After them, as shares of the cost, those from a team's place without a volume."""
    return (*find_switches(answers, volumes, placed=True), *relative_switches([a for a in answers if not _has_volume(a, volumes)]))


@dataclass(frozen=True)
class Savings:
    """`moves`: what saves, the best first. `placed` of `of` answers: those whose workload has a cost where it is known to run."""

    moves: tuple[Switch, ...]
    placed: int
    of: int


def savings_of(answers: Sequence[CostAnswer], volumes: Sequence[RentedVolume]) -> Savings:
    """`switches_of`, and of how many answers it is known where the workload runs."""
    placed = sum(bool(places_of(answer, volumes)) for answer in answers)
    return Savings(switches_of(answers, volumes), placed, len(answers))


def cost_answers(decided: TeamDecision) -> tuple[CostAnswer, ...]:
    """Cost answers of a live decision at its own prices: one for each workload with a cheapest setup."""
    current = decided.current

    def price(provider: str, purchase: Purchase) -> float | None:
        basis = quote(current.providers[provider], current.day, purchase).basis if provider in current.providers else None
        return None if basis is None else basis.usd_per_hour

    return answers_of(decided.decision, decided.cheapest, price, decided.preference.current)


def answers_of(decision: Decision, cheapest: Sequence[Cheapest], price: PriceOf, current: str | None = None) -> tuple[CostAnswer, ...]:
    """Cost answers of any decision with its cheapest setups. `current`: where the team's workloads run as far as it is known."""
    return tuple(
        CostAnswer(
            decision.team,
            decision.kind,
            one.workload,
            {s.provider: s.cost for s in one.setups if s.cost},
            best.provider,
            best.probability_cheapest,
            price,
            current,
        )
        for one in cheapest
        if (best := one.answer) is not None and best.cost is not None
    )


def find_switches(answers: Sequence[CostAnswer], volumes: Sequence[RentedVolume], placed: bool = False) -> tuple[Switch, ...]:
    """Every switch of a declared volume that saves money, the dearest first; one for each provider and workload. `placed`: only from where the
    workload is known to run.

    A volume without a workload is shared equally among the workloads that its provider ran and no other volume names. Where several teams
    decide about a workload, the smallest saving counts.
    """
    switches: dict[tuple[str, str], list[Switch]] = {}
    for provider in sorted({name for a in answers for name in a.costs}):
        among = {a.workload for a in answers if provider in a.costs}
        for a in answers:
            if placed and provider not in places_of(a, volumes):
                continue
            saving = _saving(a, provider)
            hours = monthly_hours(provider, a.workload, among, volumes)
            worth = sum(each * (a.price(provider, volume.purchase) or 0.0) for volume, each in hours)
            if saving > 0 and worth:
                one = Switch(a.workload, (a.team,), provider, a.cheapest, worth * saving, saving, a.probability)
                switches.setdefault((provider, a.workload), []).append(one)
    least = [min(each, key=lambda s: s.usd) for each in switches.values()]
    teams = {key: tuple(sorted({t for s in each for t in s.teams})) for key, each in switches.items()}
    merged = [replace(s, teams=teams[s.provider, s.workload]) for s in least]
    return tuple(sorted(merged, key=lambda s: (-s.usd, s.provider, s.workload)))


def relative_switches(answers: Sequence[CostAnswer]) -> tuple[Switch, ...]:
    """Without volumes: each team's move from where it runs to the cheapest, the largest share first; `usd` is 0, not known."""
    switches = [
        Switch(a.workload, (a.team,), a.current, a.cheapest, 0.0, _saving(a, a.current), a.probability)
        for a in answers
        if a.current is not None and _saving(a, a.current) > 0
    ]
    return tuple(sorted(switches, key=lambda s: (-s.saving, s.teams, s.workload)))


def _saving(answer: CostAnswer, provider: str) -> float:
    """How much less an outcome costs at the cheapest, as a fraction; 0 if that is this provider or one of both costs is not known."""
    now, best = answer.costs.get(provider), answer.costs.get(answer.cheapest)
    return 0.0 if not now or best is None or provider == answer.cheapest else -relative_cost(now, best)
