"""Current results: of each provider and workload the newest usable campaign, at the effective prices of a day."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from plumbline.analysis.campaign_data import Quality
from plumbline.analysis.decisions.cheapest import Cheapest, Requirements, cheapest, fitting_cost
from plumbline.analysis.decisions.decide import decide
from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.document_cache import cached_documents
from plumbline.analysis.decisions.sensitivity import PriceSwing, WeightSwing, price_sensitivity, weight_sensitivity
from plumbline.analysis.document_sample import with_quality_verdict
from plumbline.analysis.prices.book import Quote, all_with_effective_prices, quote, with_price_factor
from plumbline.analysis.trial_sample import TrialSample, WorkloadKind, with_costs
from plumbline.declarations import AnyWorkload, Declarations, Preference, Provider, TrainingWorkload, with_weights
from plumbline.declarations.providers.rates import Purchase

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.samples import CurrentSeries


@dataclass(frozen=True)
class CurrentResults:
    """What every provider shows of every workload now.

    `trials`: every attempt of the campaigns named in `campaigns`, failed ones too, with its costs in USD at the prices of the `day`.
    `providers`: as declared (as measured, of one that is gone) at accepted prices. `series`, `measured`: the series key and the time for
    which its campaign was planned. `workloads`: as the newest trial was planned with, by name. `simulated`: names of simulated providers.
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

    def priced(self, factors: Mapping[str, float]) -> tuple[TrialSample, ...]:
        """The trials with each named provider's instance prices multiplied by a factor above 0; the others' stay as they are."""
        places = {name: with_price_factor(self.providers[name], factor) for name, factor in factors.items() if name in self.providers}
        moved = iter(_priced([t for t in self.trials if t.provider in places], places, self.day, self.purchase, self.workloads))
        return tuple(next(moved) if t.provider in places else t for t in self.trials)

    def of(self, workloads: Collection[str]) -> CurrentResults:
        """The part about these workloads."""

        def own(by_place: Mapping[Place, object]) -> dict[Place, object]:
            return {place: value for place, value in by_place.items() if place[1] in workloads}

        trials = tuple(t for t in self.trials if t.workload in workloads)
        there = {provider for provider, workload in self.campaigns if workload in workloads}
        return CurrentResults(
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


def current_results(
    archive: Archive,
    declared: Declarations,
    on: date,
    *,
    workloads: Collection[str] | None = None,
    purchase: Purchase = "on_demand",
    simulated: bool = False,
    providers: Collection[str] | None = None,
) -> CurrentResults:
    """What stands on the day `on`; of these workloads and these providers if named. Empty if nothing usable was ever measured of them.

    Simulated results count only where nothing was measured at all (a rehearsal), or, alone, where `simulated` asks for them.
    """
    parts, left_out = select_series(archive, declared, simulated, providers)
    if workloads is not None:
        parts = [p for p in parts if p.series.workload in workloads]
        left_out = [gone for gone in left_out if gone.workload in workloads]
    by_key = {part.series.series_key: part for part in parts}
    attempts = archive.attempts_of(parts)
    found, damaged = cached_documents(archive, attempts)
    left_out += [ExcludedSeries(by_key[a.series_key].series.provider, by_key[a.series_key].series.workload, why) for a, why in damaged]
    trials: list[TrialSample] = []
    places: dict[str, Provider] = {}
    specs: dict[str, AnyWorkload] = {}
    for attempt in attempts:
        one = found.get(attempt.trial_pk)
        if one is None:
            continue
        reasons = tuple(f"{r.code}: {r.detail}" for r in attempt.quality_reasons)
        trials.append(with_quality_verdict(one.numbers, Quality(attempt.quality_action, reasons)))
    # By when they were planned, not by name: what stands is what the newest one was asked.
    for attempt in sorted(attempts, key=lambda a: by_key[a.series_key].planned_at):
        if (one := found.get(attempt.trial_pk)) is not None:
            places[one.provider.name] = one.provider
            specs[one.workload.name] = one.workload
    providers = all_with_effective_prices(archive, (declared.providers.get(name, p) for name, p in sorted(places.items())))
    return CurrentResults(
        trials=_priced(trials, providers, on, purchase, specs),
        providers=providers,
        campaigns={series_place(p): p.campaign_id for p in parts},
        simulated=frozenset(name for name, p in places.items() if p.simulated),
        day=on,
        purchase=purchase,
        series={series_place(p): p.series.series_key for p in parts},
        measured={series_place(p): p.planned_at for p in parts},
        workloads=specs,
        left_out=tuple(left_out),
    )


def _priced(
    trials: Sequence[TrialSample], providers: Mapping[str, Provider], on: date, purchase: Purchase, workloads: Mapping[str, AnyWorkload]
) -> tuple[TrialSample, ...]:
    epochs = {w.name: w.data.tokens for w in workloads.values() if isinstance(w, TrainingWorkload) and w.data.source != "images"}
    return with_costs(trials, providers, on, epoch_tokens=epochs, purchase=purchase)


@dataclass(frozen=True)
class TeamDecision:
    """One team's choice for the workloads of one preference, with all that it rests on.

    `standing`: the part about these workloads. What would change the decision is worked out when it is first asked for.
    """

    decision: Decision
    preference: Preference
    standing: CurrentResults

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


def decide_teams(
    archive: Archive,
    declared: Declarations,
    on: date,
    *,
    team: str | None = None,
    kind: WorkloadKind | None = None,
    workload: str | None = None,
    weights: Mapping[str, float] | None = None,
    purchase: Purchase = "on_demand",
    simulated: bool = False,
) -> tuple[TeamDecision, ...]:
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
    now = current_results(archive, declared, on, workloads=wanted, purchase=purchase, simulated=simulated)
    found = []
    for name, of, preference in asked:
        part = now.of(preference.workloads)
        found.append(TeamDecision(decide(name, of, preference, part.trials), preference, part))
    return tuple(found)


def _asked(
    declared: Declarations, team: str | None, kind: WorkloadKind | None, workload: str | None
) -> list[tuple[str, WorkloadKind, Preference]]:
    """(team, kind, preference) of each choice that fits; LookupError if none does."""
    if team is not None and team not in declared.teams:
        raise LookupError(f'no team is called "{team}"; expected one of {", ".join(sorted(declared.teams)) or "(none is declared)"}')
    teams = [t for name, t in sorted(declared.teams.items()) if team in (None, name)]
    kinds: tuple[WorkloadKind, ...] = ("training", "inference")
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


Place = tuple[str, str]
"""(provider, workload)"""


@dataclass(frozen=True)
class ExcludedSeries:
    """What a provider measured of a workload and does not count, with why in words."""

    provider: str
    workload: str
    reason: str


def select_series(
    archive: Archive, declared: Declarations, simulated: bool, providers: Collection[str] | None = None
) -> tuple[list[CurrentSeries], list[ExcludedSeries]]:
    """The series that count, one for each provider and workload, and why the others do not; of these providers if named. Which ones are
    simulated, gone or of an older version is asked of the whole archive: an answer must not depend on which workloads or providers somebody
    looks at."""
    parts = archive.newest_usable(providers=providers)
    if providers is not None and not _alone(archive, declared, parts):
        parts = archive.newest_usable()
    left_out: list[ExcludedSeries] = []

    def without(gone: Sequence[CurrentSeries], why: str) -> None:
        left_out.extend(ExcludedSeries(*series_place(part), why) for part in gone)

    made_up = [p for p in parts if p.series.source == "simulated"]
    real = [p for p in parts if p.series.source != "simulated"]
    if simulated:
        parts = made_up
        without(real, "it was measured, and the question is about simulated results")
    elif real or (providers is not None and archive.measured_anything()):
        parts = real
        without(made_up, "it is simulated, and simulated results never count beside measured ones")
    known = [p for p in parts if p.series.provider in declared.providers]
    if known:
        without([p for p in parts if p not in known], "the provider is no longer declared")
        parts = known
    newest = {name: max(p.series.version for p in parts if p.series.workload == name) for name in {p.series.workload for p in parts}}
    older = [p for p in parts if p.series.version < newest[p.series.workload]]
    for part in older:
        without([part], f"it ran version {part.series.version} of the workload, and the others ran version {newest[part.series.workload]}")
    parts = sorted((p for p in parts if p not in older), key=lambda p: (p.planned_at, p.series.series_key))
    if providers is not None:
        parts = [p for p in parts if p.series.provider in providers]
        left_out = [gone for gone in left_out if gone.provider in providers]
    # The same version with another engine, harness protocol or instance is another series: the newest one is what the provider shows now.
    return list({series_place(part): part for part in parts}.values()), left_out


def _alone(archive: Archive, declared: Declarations, parts: Sequence[CurrentSeries]) -> bool:
    """Whether nothing that other providers ran can matter: all of these are declared, and ran the newest version that there is."""
    newest: dict[str, int] = {}
    for name in archive.workload_names():
        newest[name.workload] = max(name.version, newest.get(name.workload, 0))
    own: dict[Place, int] = {}
    for part in parts:
        own[series_place(part)] = max(part.series.version, own.get(series_place(part), 0))
    return all(provider in declared.providers and version == newest[workload] for (provider, workload), version in own.items())


def series_place(part: CurrentSeries) -> Place:
    """The provider and the workload of a series."""
    return part.series.provider, part.series.workload
