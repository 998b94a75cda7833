"""What can be decided from now: of each provider and workload the newest campaign's trials, at the prices of a day.

Reads no more than the newest campaign of each series. What is left out says why: results of other versions, of simulated providers beside
measured ones, of providers that are no longer declared beside declared ones, and documents that no longer hold. Imported results never count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from plumbline.declarations import AnyWorkload, Declarations, Preference, Provider, TrainingWorkload, with_weights
from plumbline.declarations.provider import Purchase
from plumbline.prices import Quote, quote
from plumbline.reports.content import Quality
from plumbline.reports.kept import kept
from plumbline.reports.numbers import at_quality
from plumbline.reports.priced import all_at_accepted_prices, at_factor
from plumbline.reports.standing_series import LeftOut, Place, chosen, place_of
from plumbline.scorecards import Decision, TrialNumbers, decide, priced
from plumbline.scorecards.cheapest import Cheapest, Requirements, cheapest, fitting_cost
from plumbline.scorecards.inputs import Kind
from plumbline.scorecards.price_sensitivity import PriceSwing, price_sensitivity
from plumbline.scorecards.weights import WeightSwing, weight_sensitivity

if TYPE_CHECKING:
    from plumbline.archive import Archive


@dataclass(frozen=True)
class Standing:
    """What every provider shows of every workload now.

    `trials`: every attempt of the campaigns named in `campaigns`, failed ones too, with its costs in USD at the prices of the `day`.
    `providers`: as declared (as measured, of one that is gone) at accepted prices. `series`, `measured`: the series key and the time for
    which its campaign was planned. `workloads`: as the newest trial was planned with, by name. `simulated`: names of simulated providers.
    """

    trials: tuple[TrialNumbers, ...]
    providers: Mapping[str, Provider]
    campaigns: Mapping[Place, str]
    simulated: frozenset[str]
    day: date
    purchase: Purchase = "on_demand"
    series: Mapping[Place, str] = field(default_factory=dict)
    measured: Mapping[Place, datetime] = field(default_factory=dict)
    workloads: Mapping[str, AnyWorkload] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()

    def priced(self, factors: Mapping[str, float]) -> tuple[TrialNumbers, ...]:
        """The trials with each named provider's instance prices multiplied by a factor above 0; the others' stay as they are."""
        places = {name: at_factor(self.providers[name], factor) for name, factor in factors.items() if name in self.providers}
        moved = iter(_priced([t for t in self.trials if t.provider in places], places, self.day, self.purchase, self.workloads))
        return tuple(next(moved) if t.provider in places else t for t in self.trials)

    def of(self, workloads: Collection[str]) -> Standing:
        """The part about these workloads."""

        def own(by_place: Mapping[Place, object]) -> dict[Place, object]:
            return {place: value for place, value in by_place.items() if place[1] in workloads}

        trials = tuple(t for t in self.trials if t.workload in workloads)
        there = {provider for provider, workload in self.campaigns if workload in workloads}
        return Standing(
            trials=trials,
            providers={name: p for name, p in self.providers.items() if name in there},
            campaigns=own(self.campaigns),  # type: ignore[arg-type]
            simulated=self.simulated & there,
            day=self.day,
            purchase=self.purchase,
            series=own(self.series),  # type: ignore[arg-type]
            measured=own(self.measured),  # type: ignore[arg-type]
            workloads={name: w for name, w in self.workloads.items() if name in workloads},
            left_out=tuple(gone for gone in self.left_out if gone.workload in workloads),
        )


def standing(
    archive: Archive,
    declared: Declarations,
    on: date,
    *,
    workloads: Collection[str] | None = None,
    purchase: Purchase = "on_demand",
    simulated: bool = False,
    providers: Collection[str] | None = None,
) -> Standing:
    """What stands on the day `on`; of these workloads and these providers if named. Empty if nothing usable was ever measured of them.

    Simulated results count only where nothing was measured at all (a rehearsal), or, alone, where `simulated` asks for them.
    """
    parts, left_out = chosen(archive, declared, simulated, providers)
    if workloads is not None:
        parts = [p for p in parts if p.series.workload in workloads]
        left_out = [gone for gone in left_out if gone.workload in workloads]
    by_key = {part.series.series_key: part for part in parts}
    attempts = archive.attempts_of(parts)
    found, damaged = kept(archive, attempts)
    left_out += [LeftOut(by_key[a.series_key].series.provider, by_key[a.series_key].series.workload, why) for a, why in damaged]
    trials: list[TrialNumbers] = []
    places: dict[str, Provider] = {}
    specs: dict[str, AnyWorkload] = {}
    for attempt in attempts:
        one = found.get(attempt.trial_pk)
        if one is None:
            continue
        reasons = tuple(f"{r.code}: {r.detail}" for r in attempt.quality_reasons)
        trials.append(at_quality(one.numbers, Quality(attempt.quality_action, reasons)))
    # By when they were planned, not by name: what stands is what the newest one was asked.
    for attempt in sorted(attempts, key=lambda a: by_key[a.series_key].planned_at):
        if (one := found.get(attempt.trial_pk)) is not None:
            places[one.provider.name] = one.provider
            specs[one.workload.name] = one.workload
    providers = all_at_accepted_prices(archive, (declared.providers.get(name, p) for name, p in sorted(places.items())))
    return Standing(
        trials=_priced(trials, providers, on, purchase, specs),
        providers=providers,
        campaigns={place_of(p): p.campaign_id for p in parts},
        simulated=frozenset(name for name, p in places.items() if p.simulated),
        day=on,
        purchase=purchase,
        series={place_of(p): p.series.series_key for p in parts},
        measured={place_of(p): p.planned_at for p in parts},
        workloads=specs,
        left_out=tuple(left_out),
    )


def _priced(
    trials: Sequence[TrialNumbers], providers: Mapping[str, Provider], on: date, purchase: Purchase, workloads: Mapping[str, AnyWorkload]
) -> tuple[TrialNumbers, ...]:
    epochs = {w.name: w.data.tokens for w in workloads.values() if isinstance(w, TrainingWorkload) and w.data.source != "images"}
    return priced(trials, providers, on, epoch_tokens=epochs, purchase=purchase)


@dataclass(frozen=True)
class Decided:
    """One team's choice for the workloads of one preference, with all that it rests on.

    `standing`: the part about these workloads. What would change the decision is worked out when it is first asked for.
    """

    decision: Decision
    preference: Preference
    standing: Standing

    @property
    def prices(self) -> dict[str, Quote]:
        """The instance price of every provider that was ranked, or why there is none."""
        names = [r.provider for r in self.decision.ranking]
        return {name: quote(self.standing.providers[name], self.standing.day, self.standing.purchase) for name in names}

    @cached_property
    def weight_swings(self) -> tuple[WeightSwing, ...]:
        """How far each weight must move to change the first place."""
        return weight_sensitivity(self.decision.team, self.decision.kind, self.preference, self.standing.trials)

    @cached_property
    def price_swings(self) -> tuple[PriceSwing, ...]:
        """At which instance price of each provider the first place changes."""
        usd = {name: q.basis.usd_per_hour for name, q in self.prices.items() if q.basis is not None}
        return price_sensitivity(self.decision.team, self.decision.kind, self.preference, self.standing.priced, usd)

    @cached_property
    def cheapest(self) -> tuple[Cheapest, ...]:
        """For each workload, the cheapest setup that meets the team's gates and the workload's own criteria."""
        kind, found = self.decision.kind, []
        for name in self.preference.workloads:
            spec = self.standing.workloads.get(name)
            needs = Requirements(kind, name, self.preference.gates, spec.acceptance if spec is not None else ())
            found.append(cheapest(needs, fitting_cost(kind, name, self.standing.trials), self.standing.trials))
        return tuple(found)


def decide_from(
    archive: Archive,
    declared: Declarations,
    on: date,
    *,
    team: str | None = None,
    kind: Kind | None = None,
    workload: str | None = None,
    weights: Mapping[str, float] | None = None,
    purchase: Purchase = "on_demand",
    simulated: bool = False,
) -> tuple[Decided, ...]:
    """The decisions of every team (or one), by team and kind, as of the day `on`; see `standing` for what counts.

    `workload`: that one alone, of the choices that name it. `weights`: by metric, in place of the declared ones; the others are rescaled.
    LookupError for a team or a workload that is not declared, or that fits no choice, with what there is; ValueError for impossible weights.
    """
    asked = _asked(declared, team, kind, workload)
    if weights:
        if len(asked) != 1:
            of = ", ".join(f"{name} {of} {'+'.join(p.workloads)}" for name, of, p in asked)
            raise ValueError(f"weights are of one choice, and {len(asked)} fit ({of}); expected a team with a workload")
        asked = [(name, of, with_weights(preference, weights)) for name, of, preference in asked]
    wanted = {w for _, _, preference in asked for w in preference.workloads}
    now = standing(archive, declared, on, workloads=wanted, purchase=purchase, simulated=simulated)
    found = []
    for name, of, preference in asked:
        part = now.of(preference.workloads)
        found.append(Decided(decide(name, of, preference, part.trials), preference, part))
    return tuple(found)


def _asked(declared: Declarations, team: str | None, kind: Kind | None, workload: str | None) -> list[tuple[str, Kind, Preference]]:
    """(team, kind, preference) of each choice that fits; LookupError if none does."""
    if team is not None and team not in declared.teams:
        raise LookupError(f'no team is called "{team}"; expected one of {", ".join(sorted(declared.teams)) or "(none is declared)"}')
    teams = [t for name, t in sorted(declared.teams.items()) if team in (None, name)]
    kinds: tuple[Kind, ...] = ("training", "inference")
    fits = [(t.name, of, p) for t in teams for of in kinds if kind in (None, of) for p in t.preferences(of)]
    if workload is not None:
        named = [(name, of, p.model_copy(update={"workloads": (workload,)})) for name, of, p in fits if workload in p.workloads]
        if not named:
            known = "" if workload in declared.workloads else f'no workload is called "{workload}"; '
            whose = f"team {team}" if team else "no team"
            there = ", ".join(sorted({f"{w} ({name}, {of})" for name, of, p in fits for w in p.workloads})) or "nothing"
            verb = "does not decide" if team else "decides"
            raise LookupError(f"{known}{whose} {verb} about {workload}{f' in {kind}' if kind else ''}; decided about: {there}")
        return named
    if not fits:
        raise LookupError(
            f"{f'team {team}' if team else 'no team'} chooses no provider{f' for {kind}' if kind else ''}; see include/config/teams"
        )
    return fits
