"""What can be decided from now: of each provider and workload the newest campaign's trials, at the prices of a day.

Reads no more than the newest campaign of each series. What is left out says why: results of other versions, of simulated providers beside
measured ones, of providers that are no longer declared beside declared ones, and documents that no longer hold. Imported results never count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING

from plumbline.declarations import AnyWorkload, Declarations, Provider, TrainingWorkload
from plumbline.declarations.provider import Purchase
from plumbline.reports.content import Quality
from plumbline.reports.kept import kept
from plumbline.reports.numbers import at_quality
from plumbline.reports.priced import at_accepted_prices, at_factor
from plumbline.scorecards import TrialNumbers, priced

if TYPE_CHECKING:
    from plumbline.archive import Archive
    from plumbline.archive.standing import NewestView

Place = tuple[str, str]
"""(provider, workload)"""


@dataclass(frozen=True)
class LeftOut:
    """What a provider measured of a workload and does not count, with why in words."""

    provider: str
    workload: str
    reason: str


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
        places = {name: at_factor(p, factors[name]) if name in factors else p for name, p in self.providers.items()}
        return _priced(self.trials, places, self.day, self.purchase, self.workloads)

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
) -> Standing:
    """What stands on the day `on`; of these workloads if named. Empty if nothing usable was ever measured of them.

    Simulated results count only where nothing was measured at all (a rehearsal), or, alone, where `simulated` asks for them.
    """
    parts, left_out = _chosen(archive, declared, simulated)
    if workloads is not None:
        parts = [p for p in parts if p.series.workload in workloads]
        left_out = [gone for gone in left_out if gone.workload in workloads]
    by_key = {part.series.series_key: part for part in parts}
    attempts = archive.attempts_of(parts)
    found, damaged = kept(archive, attempts)
    left_out += [LeftOut(by_key[a.series_key].series.provider, by_key[a.series_key].series.workload, why) for a, why in damaged]
    trials, places, specs = [], {}, {}
    for attempt in attempts:
        one = found.get(attempt.trial_pk)
        if one is None:
            continue
        reasons = tuple(f"{r.code}: {r.detail}" for r in attempt.quality_reasons)
        trials.append(at_quality(one.numbers, Quality(attempt.quality_action, reasons)))
        places[one.provider.name] = one.provider
        specs[one.workload.name] = one.workload
    providers = {name: at_accepted_prices(archive, declared.providers.get(name, p)) for name, p in sorted(places.items())}
    return Standing(
        trials=_priced(trials, providers, on, purchase, specs),
        providers=providers,
        campaigns={_place(p): p.campaign_id for p in parts},
        simulated=frozenset(name for name, p in places.items() if p.simulated),
        day=on,
        purchase=purchase,
        series={_place(p): p.series.series_key for p in parts},
        measured={_place(p): p.planned_at for p in parts},
        workloads=specs,
        left_out=tuple(left_out),
    )


def _place(part: NewestView) -> Place:
    return part.series.provider, part.series.workload


def _priced(
    trials: Sequence[TrialNumbers], providers: Mapping[str, Provider], on: date, purchase: Purchase, workloads: Mapping[str, AnyWorkload]
) -> tuple[TrialNumbers, ...]:
    epochs = {w.name: w.data.tokens for w in workloads.values() if isinstance(w, TrainingWorkload) and w.data.source != "images"}
    return priced(trials, providers, on, epoch_tokens=epochs, purchase=purchase)


def _chosen(archive: Archive, declared: Declarations, simulated: bool) -> tuple[list[NewestView], list[LeftOut]]:
    """The series that count, one for each provider and workload, and why the others do not. Which ones are simulated or gone is asked of the
    whole archive: an answer must not depend on which workloads somebody looks at."""
    parts = archive.newest_usable()
    left_out: list[LeftOut] = []

    def without(gone: list[NewestView], why: str) -> None:
        left_out.extend(LeftOut(*_place(part), why) for part in gone)

    made_up = [p for p in parts if p.series.source == "simulated"]
    real = [p for p in parts if p.series.source != "simulated"]
    if simulated:
        parts = made_up
        without(real, "it was measured, and the question is about simulated results")
    elif real:
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
    # The same version with another engine, harness protocol or instance is another series: the newest one is what the provider shows now.
    return list({_place(part): part for part in parts}.values()), left_out
