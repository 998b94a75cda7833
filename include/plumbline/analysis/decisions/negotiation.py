"""Effects of an offered price of one provider: each team's first choice, the cheapest setup, the bill, and the walk-away prices.

Nothing new is estimated: every price is decided by `decide` and `cheapest` on the trials priced with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.savings import PriceOf, Switch, cost_answers, find_switches, instance_hours
from plumbline.analysis.prices.book import with_price_factor
from plumbline.declarations.alerts import RentedVolume

LEVELS = (0.5, 0.8, 0.9)
"""Probabilities of the walk-away prices."""
DISCOUNTS = (5, 10, 20)
"""Percent off today's price that a negotiation begins with."""
LOWEST, HIGHEST = 0.5, 1.5
"""Shares of today's price between which prices are looked at."""
_GRID, _HALVINGS = 13, 6

Aim = Literal["first", "cheapest"]


@dataclass(frozen=True)
class TeamChoice:
    """`first`, `cheapest`: providers, None where there is none. The probabilities are those of the provider that negotiates; 0 where it is not
    eligible, None where they cannot be computed."""

    first: str | None
    cheapest: str | None
    probability_first: float | None
    probability_cheapest: float | None


@dataclass(frozen=True)
class TeamAnswer:
    """One team's choice about one set of workloads at today's price and at the offered one."""

    team: str
    workloads: tuple[str, ...]
    now: TeamChoice
    offered: TeamChoice

    @property
    def moves(self) -> bool:
        return self.now.first != self.offered.first

    @property
    def moves_cost(self) -> bool:
        """Whether the cheapest setup changes."""
        return self.now.cheapest != self.offered.cheapest


@dataclass(frozen=True)
class Offer:
    """An offered price of one provider, USD per instance-hour. `switches`: moves to it that save at the declared volumes; `kept_usd`: less a
    month for what runs there already."""

    provider: str
    usd_per_hour: float
    offered: float
    teams: tuple[TeamAnswer, ...]
    switches: tuple[Switch, ...]
    kept_usd: float

    @property
    def saves(self) -> float:
        """USD a month."""
        return self.kept_usd + sum(s.usd for s in self.switches)


@dataclass(frozen=True)
class WalkAway:
    """`usd_per_hour`: the highest price at which the provider is first (or cheapest) with `probability`; None where no price from LOWEST to
    HIGHEST is low enough. `open`: it still is at the highest price looked at."""

    aim: Aim
    probability: float
    usd_per_hour: float | None
    open: bool = False


@dataclass(frozen=True)
class PriceCurve:
    """P(first) and P(cheapest) by price, for one choice; `cheapest` is empty for a choice about several workloads."""

    prices: tuple[float, ...]
    first: tuple[float, ...]
    cheapest: tuple[float, ...]
    walk_away: tuple[WalkAway, ...]


def at_factor(decided: TeamDecision, provider: str, factor: float) -> TeamDecision:
    """The choice with the provider's instance price multiplied."""
    current, decision = decided.current, decided.decision
    places = {**current.providers, provider: with_price_factor(current.providers[provider], factor)}
    moved = replace(current, trials=current.priced({provider: factor}), providers=places)
    return TeamDecision(decide(decision.team, decision.kind, decided.preference, moved.trials), decided.preference, moved)


def price_now(decided: TeamDecision, provider: str) -> float:
    """The provider's price in force, USD per instance-hour; ValueError without one."""
    quote = decided.prices[provider]
    if quote.basis is None:
        raise ValueError(f"{provider} has no price in use: {quote.reason}")
    return quote.basis.usd_per_hour


def make_offer(
    decided: Sequence[TeamDecision], provider: str, usd_per_hour: float, offered: float, volumes: Sequence[RentedVolume]
) -> Offer:
    """`decided`: every team's choices that the provider takes part in, at today's price `usd_per_hour`; both prices above 0."""
    moved = [at_factor(d, provider, offered / usd_per_hour) for d in decided]
    teams = tuple(
        TeamAnswer(d.decision.team, d.preference.workloads, _choice_at(d, provider), _choice_at(m, provider))
        for d, m in zip(decided, moved, strict=True)
    )
    before = {
        (s.provider, s.workload): s.usd for s in find_switches([a for d in decided for a in cost_answers(d)], volumes) if s.to == provider
    }
    after = [s for s in find_switches([a for m in moved for a in cost_answers(m)], volumes) if s.to == provider]
    new = tuple(replace(s, usd=s.usd - before.get((s.provider, s.workload), 0.0)) for s in after)
    workloads = {w for d in decided for w in d.preference.workloads}
    hours = instance_hours(provider, sorted(workloads), volumes)
    price: PriceOf | None = next((a.price for d in decided for a in cost_answers(d)), None)
    today = sum(h * ((price(provider, purchase) if price else None) or 0.0) for purchase, h in hours)
    return Offer(provider, usd_per_hour, offered, teams, tuple(s for s in new if s.usd > 0), today * (1 - offered / usd_per_hour))


def price_curve(decided: TeamDecision, provider: str, usd_per_hour: float) -> PriceCurve:
    """Probabilities over prices, and the walk-away prices. The draws are the same at each price, so the curves fall."""
    known: dict[float, TeamChoice] = {}

    def at(factor: float) -> TeamChoice:
        if factor not in known:
            known[factor] = _choice_at(at_factor(decided, provider, factor), provider)
        return known[factor]

    grid = [LOWEST * (HIGHEST / LOWEST) ** (i / (_GRID - 1)) for i in range(_GRID)]
    ofs: dict[Aim, Callable[[float], float | None]] = {"first": lambda f: at(f).probability_first}
    if len(decided.preference.workloads) == 1:
        ofs["cheapest"] = lambda f: at(f).probability_cheapest
    walk = tuple(_walk_away(aim, level, grid, of, usd_per_hour) for aim, of in ofs.items() for level in LEVELS if of(grid[0]) is not None)
    points = sorted(known)
    curves = {aim: [of(f) for f in points] for aim, of in ofs.items()}
    complete = {aim: tuple(v for v in own if v is not None) if None not in own else () for aim, own in curves.items()}
    return PriceCurve(tuple(usd_per_hour * f for f in points), complete["first"], complete.get("cheapest", ()), walk)


def _walk_away(aim: Aim, level: float, grid: Sequence[float], of: Callable[[float], float | None], usd: float) -> WalkAway:
    reached = [f for f in grid if (of(f) or 0.0) >= level]
    if not reached:
        return WalkAway(aim, level, None)
    low = max(reached)
    if low == grid[-1]:
        return WalkAway(aim, level, usd * low, open=True)
    high = grid[grid.index(low) + 1]
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if (of(middle) or 0.0) >= level:
            low = middle
        else:
            high = middle
    return WalkAway(aim, level, usd * low)


def _choice_at(decided: TeamDecision, provider: str) -> TeamChoice:
    decision = decided.decision
    own = next((r for r in decision.ranking if r.provider == provider), None)
    first = None if own is None or not own.eligible else own.probability_first
    alone = decision.first is not None and decision.winner is None and decision.first.provider == provider
    if len(decided.preference.workloads) > 1:
        best, chance = None, None
    else:
        answer = decided.cheapest[0]
        best = answer.answer.provider if answer.answer else None
        setup = next((s for s in answer.setups if s.provider == provider), None)
        only = best == provider and sum(s.meets for s in answer.setups) == 1
        chance = 1.0 if only else 0.0 if setup is None or not setup.meets else setup.probability_cheapest
    return TeamChoice(
        decision.first.provider if decision.first else None,
        best,
        1.0 if alone else 0.0 if own is None or not own.eligible else first,
        chance,
    )
