"""Current results: of each provider and workload the newest usable campaign, at the effective prices of a day."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from typing import TypeVar

from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.cost.unit_costs import fitting_cost
from plumbline.analysis.decisions.cheapest import Cheapest, Requirements, cheapest
from plumbline.analysis.decisions.decide import decide, rank
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.sensitivity import PriceSwing, WeightSwing, price_sensitivity, weight_sensitivity
from plumbline.analysis.prices.book import Quote, quote, with_price_factor
from plumbline.analysis.scorecards.comparability import refusals
from plumbline.analysis.scorecards.scorecard import last_attempts
from plumbline.analysis.service_record import ServiceRecord, with_service
from plumbline.analysis.trial_sample import TrialSample, WorkloadKind
from plumbline.declarations import AnyWorkload, Preference, Provider
from plumbline.declarations.economics import Economics
from plumbline.declarations.providers.rates import Purchase

_Value = TypeVar("_Value")
STALE_DAYS = 40
"""Campaigns are monthly: what is older than this missed one."""


@dataclass(frozen=True)
class CurrentResults:
    """The current results of all providers and workloads.

    `trials`: every attempt of the campaigns named in `campaigns`, failed ones too, with its costs in USD at the prices of the `day`.
    `providers`: as declared (as measured, of one that is gone) at accepted prices. `series`, `measured`: the series key and the time for
    which its campaign was planned. `workloads`: as the newest trial was planned with, by name. `simulated`: names of simulated providers.
    `service`: by provider, where a preference weighs it.
    """

    trials: tuple[TrialSample, ...]
    providers: Mapping[str, Provider]
    campaigns: Mapping[Place, str]
    simulated: frozenset[str]
    day: date
    purchase: Purchase = "on_demand"
    series: Mapping[Place, str] = field(default_factory=dict)
    measured: Mapping[Place, datetime] = field(default_factory=dict)
    workloads: Mapping[str, AnyWorkload] = field(default_factory=dict)
    left_out: tuple[ExcludedSeries, ...] = ()
    economics: Economics = field(default_factory=Economics)
    service: Mapping[str, ServiceRecord] = field(default_factory=dict)

    def priced(self, factors: Mapping[str, float]) -> tuple[TrialSample, ...]:
        """The trials with each named provider's instance prices multiplied by a factor above 0; the others' stay as they are."""
        places = {name: with_price_factor(self.providers[name], factor) for name, factor in factors.items() if name in self.providers}
        own = [t for t in self.trials if t.provider in places]
        moved = iter(with_costs(own, places, self.day, workloads=self.workloads, purchase=self.purchase, economics=self.economics))
        return tuple(next(moved) if t.provider in places else t for t in self.trials)

    @property
    def too_old(self) -> dict[str, str]:
        """Providers with results older than STALE_DAYS on any of the workloads, and why they are left out of a decision. Where all results on
        a workload are older, those count that are at most STALE_DAYS older than the newest."""
        ages = {place: (self.day - at.date()).days for place, at in self.measured.items()}
        reasons = {}
        for (provider, workload), age in ages.items():
            newest = min(other for (_, of), other in ages.items() if of == workload)
            if age - (newest if newest > STALE_DAYS else 0) > STALE_DAYS:
                reasons[provider] = f"its results on {workload} are {age} days old, older than {STALE_DAYS} days"
        return reasons

    def out_of(self, residency: Sequence[str]) -> dict[str, str]:
        """Providers that declare none of the places where data may stay (empty: anywhere), and why they are left out of a decision."""
        kept = {name: self.providers[name].residency if name in self.providers else () for name in {t.provider for t in self.trials}}
        return {
            name: f"data must stay in {' or '.join(residency)}; it declares {', '.join(places) or 'no residency'}"
            for name, places in kept.items()
            if residency and not set(residency) & set(places)
        }

    def set_apart(self, reasons: Mapping[str, str]) -> CurrentResults:
        """The same, with these providers' trials out of decisions, for a reason by provider."""
        if not reasons:
            return self
        return replace(self, trials=tuple(replace(t, apart=reasons[t.provider]) if t.provider in reasons else t for t in self.trials))

    def of(self, workloads: Collection[str]) -> CurrentResults:
        """The part about these workloads."""

        def own(by_place: Mapping[Place, _Value]) -> dict[Place, _Value]:
            return {place: value for place, value in by_place.items() if place[1] in workloads}

        trials = tuple(t for t in self.trials if t.workload in workloads)
        there = {provider for provider, workload in self.campaigns if workload in workloads}
        return replace(
            self,
            trials=trials,
            providers={name: p for name, p in self.providers.items() if name in there},
            campaigns=own(self.campaigns),
            simulated=self.simulated & there,
            series=own(self.series),
            measured=own(self.measured),
            workloads={name: w for name, w in self.workloads.items() if name in workloads},
            left_out=tuple(gone for gone in self.left_out if gone.workload in workloads),
        )


@dataclass(frozen=True)
class TeamDecision:
    """One team's choice for the workloads of one preference, with all that it rests on.

    `current`: the part about these workloads. What would change the decision is worked out when it is first asked for.
    """

    decision: Decision
    preference: Preference
    current: CurrentResults

    def leading(self, most: int) -> TeamDecision:
        """The same choice among the first `most` providers: the order does not depend on the others, each value is relative to the best."""
        ranking = self.decision.ranking
        if len(ranking) <= most:
            return self
        return self.among({r.provider for r in ranking[:most]})

    def among(self, names: Collection[str]) -> TeamDecision:
        """The same choice among these providers."""
        current = self.current
        trials = tuple(t for t in current.trials if t.provider in names)
        part = replace(current, trials=trials, providers={name: p for name, p in current.providers.items() if name in names})
        ranking = tuple(r for r in self.decision.ranking if r.provider in names)
        return TeamDecision(replace(self.decision, ranking=ranking), self.preference, part)

    @property
    def prices(self) -> dict[str, Quote]:
        """The instance price of every provider that was ranked, or why there is none."""
        names = [r.provider for r in self.decision.ranking]
        return {name: quote(self.current.providers[name], self.current.day, self.current.purchase) for name in names}

    @cached_property
    def weight_swings(self) -> tuple[WeightSwing, ...]:
        """How far each weight must move to change the first place."""
        return weight_sensitivity(self.decision.team, self.decision.kind, self.preference, self.current.trials)

    @cached_property
    def price_swings(self) -> tuple[PriceSwing, ...]:
        """At which instance price of each provider the first place changes."""
        usd = {name: q.basis.usd_per_hour for name, q in self.prices.items() if q.basis is not None}
        return price_sensitivity(self.decision.team, self.decision.kind, self.preference, self.current.priced, usd)

    @cached_property
    def cheapest(self) -> tuple[Cheapest, ...]:
        """For each workload, the cheapest setup that meets the team's gates and the workload's own criteria."""
        kind, answers = self.decision.kind, []
        for name in self.preference.workloads:
            spec = self.current.workloads.get(name)
            needs = Requirements(kind, name, self.preference.gates, spec.acceptance if spec is not None else ())
            answers.append(cheapest(needs, fitting_cost(kind, name, self.current.trials), self.current.trials))
        return tuple(answers)


def decide_choice(team: str, kind: WorkloadKind, preference: Preference, results: CurrentResults) -> TeamDecision:
    """A team's decision on what of these results is about its workloads, new enough, and answers the same question at each provider."""
    part = results.of(preference.workloads)
    part = replace(part, trials=with_service(part.trials, part.service, preference))
    part = part.set_apart(part.too_old).set_apart(part.out_of(preference.residency))
    # A provider that is out anyway takes no side.
    eligible = {r.provider for r in rank(team, kind, preference, part.trials).eligible}
    part = part.set_apart(refusals(t for t in last_attempts(part.trials) if t.provider in eligible and t.workload in preference.workloads))
    return TeamDecision(decide(team, kind, preference, part.trials), preference, part)


Place = tuple[str, str]
"""(provider, workload)"""


@dataclass(frozen=True)
class ExcludedSeries:
    """A provider's results of a workload that do not count, with the reason in words."""

    provider: str
    workload: str
    reason: str
