"""Read current results from the archive and decide on them; parsed documents are cached by checksum."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from threading import Lock

from pydantic import ValidationError

from plumbline.analysis.campaign_data import CampaignQuality
from plumbline.analysis.cost.priced_trials import with_costs
from plumbline.analysis.decisions.current_results import CurrentResults, ExcludedSeries, Place, TeamDecision, decide_choice
from plumbline.analysis.document_sample import sample_of, with_quality_verdict
from plumbline.analysis.prices.book import all_with_effective_prices
from plumbline.analysis.service_record import service_metrics
from plumbline.analysis.trial_sample import TrialSample, WorkloadKind
from plumbline.answers.relative_criteria import resolve_criteria
from plumbline.answers.service_record import service_records
from plumbline.archive import Archive
from plumbline.archive.samples import CurrentSeries, EffectiveAttempt
from plumbline.declarations import AnyWorkload, Declarations, Provider, with_weights
from plumbline.declarations.choices import matching_preferences
from plumbline.declarations.providers.rates import Purchase
from plumbline.results import ResultDocument

CACHE_SIZE = 4096
"""Documents in memory, some 50 kB each: hundreds of series with a dozen trials."""


_CHECKED = timedelta(days=59)
"""Of the months of these days the checks between campaigns count."""


@dataclass(frozen=True)
class CachedDocument:
    """The part of a document that rankings need: numbers without costs and quality verdict, provider and workload."""

    numbers: TrialSample
    provider: Provider
    workload: AnyWorkload


_KEPT: dict[str, CachedDocument] = {}
_LOCK = Lock()


def cached_documents(
    archive: Archive, attempts: Sequence[EffectiveAttempt]
) -> tuple[dict[int, CachedDocument], list[tuple[EffectiveAttempt, str]]]:
    """The documents by row number; and the attempts with invalid documents, each with the reason."""
    with _LOCK:
        documents = {a.trial_pk: _KEPT[a.checksum] for a in attempts if a.checksum in _KEPT}
    missing = [a for a in attempts if a.trial_pk not in documents]
    damaged = []
    fresh: dict[str, CachedDocument] = {}
    contents = archive.contents([a.trial_pk for a in missing])
    for attempt in missing:
        try:
            document = ResultDocument.model_validate_json(contents[attempt.trial_pk])
        except (KeyError, ValidationError) as error:
            why = "is not in the archive" if isinstance(error, KeyError) else f"does not hold: {error.errors(include_url=False)[0]['msg']}"
            damaged.append((attempt, f"the document of {attempt.trial_id}#{attempt.attempt} {why} (`plumbline archive verify`)"))
            continue
        one = CachedDocument(sample_of(document), document.trial.provider, document.trial.workload)
        documents[attempt.trial_pk] = fresh[attempt.checksum] = one
    with _LOCK:
        _KEPT.update(fresh)
        while len(_KEPT) > CACHE_SIZE:
            del _KEPT[next(iter(_KEPT))]
    return documents, damaged


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
    """The current results of the day `on`, of these workloads and providers if named; empty without usable results.

    Simulated results count only if nothing was measured (a rehearsal), or with `simulated`, which excludes measured ones.
    """
    only = next(iter(workloads)) if workloads is not None and len(workloads) == 1 else None
    parts, left_out = select_series(archive, declared, simulated, providers, only)
    if workloads is not None:
        parts = [p for p in parts if p.series.workload in workloads]
        left_out = [gone for gone in left_out if gone.workload in workloads]
    by_key = {part.series.series_key: part for part in parts}
    attempts = archive.attempts_of(parts)
    documents, damaged = cached_documents(archive, attempts)
    left_out += [ExcludedSeries(by_key[a.series_key].series.provider, by_key[a.series_key].series.workload, why) for a, why in damaged]
    trials: list[TrialSample] = []
    places: dict[str, Provider] = {}
    specs: dict[str, AnyWorkload] = {}
    # By planned time: the newest trial's declaration is the current one.
    for attempt in sorted(attempts, key=lambda a: by_key[a.series_key].planned_at):
        if (one := documents.get(attempt.trial_pk)) is not None:
            places[one.provider.name] = archive.visible(one.provider)
            specs[one.workload.name] = one.workload
    judged = {key: (part.campaign_id, specs.get(part.series.workload)) for key, part in by_key.items()}
    resolved = {key: resolve_criteria(archive, key, campaign, spec) for key, (campaign, spec) in judged.items() if spec is not None}
    for attempt in attempts:
        if (one := documents.get(attempt.trial_pk)) is not None:
            reasons = tuple(f"{r.code}: {r.detail}" for r in attempt.quality_reasons)
            numbers = with_quality_verdict(one.numbers, CampaignQuality(attempt.quality_action, reasons))
            trials.append(replace(numbers, resolved=resolved.get(attempt.series_key, {})))
    providers = all_with_effective_prices(
        (declared.providers.get(name, p) for name, p in sorted(places.items())), archive.prices(sorted(places))
    )
    return CurrentResults(
        trials=with_costs(trials, providers, on, workloads=specs, purchase=purchase, economics=declared.economics),
        providers=providers,
        campaigns={series_place(p): p.campaign_id for p in parts},
        simulated=frozenset(name for name, p in places.items() if p.simulated),
        day=on,
        purchase=purchase,
        series={series_place(p): p.series.series_key for p in parts},
        measured={series_place(p): p.planned_at for p in parts},
        workloads=specs,
        left_out=tuple(left_out),
        economics=declared.economics,
    )


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
    """The decisions of every team (or one), by team and kind, on the `current_results` of the day `on`.

    `workload`: only the choices about it. `weights`: by metric, in place of the declared ones; the others are rescaled.
    LookupError for an undeclared team or workload, or one without a choice; ValueError for impossible weights.
    """
    matching = matching_preferences(declared, team, kind, workload)
    if weights:
        if len(matching) != 1:
            of = ", ".join(f"{name} {of} {'+'.join(p.workloads)}" for name, of, p in matching)
            raise ValueError(f"weights need one choice, but {len(matching)} match ({of}); expected a team with a workload")
        matching = [(name, of, with_weights(preference, weights)) for name, of, preference in matching]
    wanted = {w for _, _, preference in matching for w in preference.workloads}
    now = current_results(archive, declared, on, workloads=wanted, purchase=purchase, simulated=simulated)
    if any(service_metrics(preference) for _, _, preference in matching):
        now = replace(now, service=service_records(archive, now.providers, (on - _CHECKED, on)))
    return tuple(decide_choice(name, of, preference, now) for name, of, preference in matching)


def select_series(
    archive: Archive,
    declared: Declarations,
    simulated: bool,
    providers: Collection[str] | None = None,
    workload: str | None = None,
) -> tuple[list[CurrentSeries], list[ExcludedSeries]]:
    """The series that count, one for each provider and workload, and the excluded ones with reasons; of these providers and this workload if
    named. Which ones are simulated, undeclared or of an older version depends on the whole archive, never on the filter."""
    if workload is not None:
        parts = archive.newest_usable(workloads=[workload])
        if parts and (simulated or not _decides_alone(archive, declared, parts)):
            parts = archive.newest_usable()
    else:
        parts = archive.newest_usable(providers=providers)
        if providers is not None and not _is_independent(archive, declared, parts):
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
        without([p for p in parts if p.series.provider not in declared.providers], "the provider is no longer declared")
        parts = known
    newest: dict[str, int] = {}
    for part in parts:
        newest[part.series.workload] = max(part.series.version, newest.get(part.series.workload, 0))
    for part in parts:
        if part.series.version < newest[part.series.workload]:
            without(
                [part], f"it ran version {part.series.version} of the workload, and the others ran version {newest[part.series.workload]}"
            )
    parts = sorted((p for p in parts if p.series.version == newest[p.series.workload]), key=lambda p: (p.planned_at, p.series.series_key))
    if providers is not None:
        parts = [p for p in parts if p.series.provider in providers]
        left_out = [gone for gone in left_out if gone.provider in providers]
    if workload is not None:
        parts = [p for p in parts if p.series.workload == workload]
        left_out = [gone for gone in left_out if gone.workload == workload]
    # The same version with another engine, protocol or instance is another series: the newest one counts.
    return list({series_place(part): part for part in parts}.values()), left_out


def _decides_alone(archive: Archive, declared: Declarations, parts: Sequence[CurrentSeries]) -> bool:
    """Whether other workloads' series cannot matter: a declared provider's series is measured here, or nothing is measured anywhere."""
    known = [part for part in parts if part.series.provider in declared.providers]
    return any(part.series.source != "simulated" for part in known) or (bool(known) and not archive.measured_anything())


def _is_independent(archive: Archive, declared: Declarations, parts: Sequence[CurrentSeries]) -> bool:
    """Whether other providers' series cannot matter: all of these are declared, and of the newest version in the archive."""
    newest: dict[str, int] = {}
    for name in archive.workload_names():
        newest[name.workload] = max(name.version, newest.get(name.workload, 0))
    own: dict[Place, int] = {}
    for part in parts:
        own[series_place(part)] = max(part.series.version, own.get(series_place(part), 0))
    return all(provider in declared.providers and version == newest[workload] for (provider, workload), version in own.items())


def series_place(part: CurrentSeries) -> Place:
    return part.series.provider, part.series.workload
