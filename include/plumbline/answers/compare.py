"""Compare two campaigns, two providers or two trials by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from plumbline.analysis.drift.compare import SeriesPair, compare_series
from plumbline.analysis.drift.comparison import Comparison, Limits
from plumbline.analysis.drift.trial_comparison import compare_trials
from plumbline.answers.baseline_comparison import compare_with_baselines, series_by_provider, workloads_of
from plumbline.archive import Archive
from plumbline.declarations import AnyWorkload, Declarations
from plumbline.declarations.trials import requested_specification
from plumbline.results import ResultDocument
from plumbline.results.finding import Finding
from plumbline.results.launch_record import effective_environment
from plumbline.results.published import PublishedResult
from plumbline.results.sample import CampaignSample, RepeatValue, Series

Kind = Literal["campaign", "provider", "trial"]


@dataclass(frozen=True)
class ComparisonSet:
    """`series`: for each comparison, the series keys of the old and the new side; `only_old`, `only_new`: the series without a counterpart."""

    kind: Kind
    comparisons: tuple[Comparison, ...]
    series: tuple[tuple[str, str], ...]
    only_old: tuple[str, ...] = ()
    only_new: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Part:
    """A series of one side, in the campaign that is compared."""

    series_key: str
    campaign_id: str
    source: str
    named: Series


_Sides = tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]
"""Old and new side: series key → campaign and source."""


def compare_named(
    archive: Archive, declared: Declarations, old: str, new: str, *, provider: str | None = None, workload: str | None = None
) -> ComparisonSet:
    """One comparison for each series of `new` with a counterpart in `old`; both are campaigns, both providers or both trials.

    Campaigns: the same series; a series in another version, engine, protocol, region or instance type is paired and refused by name.
    Providers: the same workload, in the newest campaign of both, else each one's newest. `provider` and `workload` filter. LookupError if the
    archive does not have them, or they share nothing.
    """
    kind = _kind(archive, old, new)
    if kind == "trial":
        if provider or workload:
            raise LookupError("--provider and --workload filter campaigns and providers; two trials have no filter")
        return _trials(archive, declared, old, new)
    sides = (_of_campaign(archive, old), _of_campaign(archive, new)) if kind == "campaign" else _of_providers(archive, old, new)
    parts = [[_Part(key, *where, Series.parse(key)) for key, where in side.items()] for side in sides]
    before, after = ([p for p in side if provider in (None, p.named.provider) and workload in (None, p.named.workload)] for side in parts)
    pairs, only_old, only_new = _paired(before, after, _SAME_PROVIDER if kind == "campaign" else _ACROSS)
    if not pairs:
        sources = [" and ".join(sorted({p.source for p in side})) for side in parts]
        if not {p.source for p in parts[0]} & {p.source for p in parts[1]}:
            raise LookupError(f"{old} is {sources[0]} and {new} is {sources[1]}; expected the same source on both sides")
        hint = "; name two providers to compare them with each other" if kind == "campaign" else ""
        raise LookupError(f"{old} and {new} have no series in common: other workloads or other providers{hint}")
    return _compared(archive, declared, kind, pairs, only_old, only_new)


def compare_finding(archive: Archive, declared: Declarations, finding_id: str) -> ComparisonSet:
    """The comparisons that a finding rests on, of the newest campaign that showed it: the review's own baseline, sample and correction.

    LookupError for an unknown finding, and for one that compares no campaigns.
    """
    finding = Finding.of(archive.finding(finding_id).detail)
    if not finding.campaigns or not finding.series:
        raise LookupError(f"finding {finding_id} is of kind {finding.kind} and compares no campaigns; expected one of a series")
    campaign = finding.campaigns[-1]
    # Whole providers: what is compared together is corrected together. A shared cause has series of several.
    concerned = {Series.parse(key).provider for key in finding.series}
    providers = series_by_provider(workloads_of(archive, campaign))
    comparisons = [
        c
        for name in sorted(concerned & providers.keys())
        for c in compare_with_baselines(archive, declared, campaign, name, providers[name])
    ]
    own = tuple(c for c in comparisons if c.series_key in finding.series)
    return ComparisonSet("campaign", own, tuple((c.series_key, c.series_key) for c in own))


def _kind(archive: Archive, old: str, new: str) -> Kind:
    known: list[dict[Kind, bool]] = [
        {
            "campaign": bool(archive.series(campaign_id=name)),
            "provider": bool(archive.series(provider=name)),
            "trial": archive.document(name) is not None or archive.imported(name) is not None,
        }
        for name in (old, new)
    ]
    for kind in known[0]:
        if known[0][kind] and known[1][kind]:
            return kind
    for name, kinds in zip((old, new), known, strict=True):
        if not any(kinds.values()):
            raise LookupError(f'the archive has no campaign, provider or trial "{name}"; `plumbline campaigns` lists its campaigns')
    first, second = (next(kind for kind, is_one in kinds.items() if is_one) for kinds in known)
    raise LookupError(f"{old} is a {first} and {new} a {second}; expected two campaigns, two providers or two trials")


# From strict to loose: series without a counterpart at one level are tried at the next, so that a near match is refused by its fields.
_Level = tuple[str, ...]
_SAME_PROVIDER: tuple[_Level, ...] = (
    ("kind", "workload", "version", "protocol", "engine", "provider", "region", "instance_type"),
    ("kind", "workload", "provider", "region", "instance_type"),
    ("kind", "workload", "provider"),
)
_ACROSS: tuple[_Level, ...] = (
    ("kind", "workload", "version", "protocol", "engine", "instance_type"),
    ("kind", "workload", "version", "protocol", "engine"),
    ("kind", "workload"),
)


def _paired(
    old: Sequence[_Part], new: Sequence[_Part], levels: Sequence[_Level]
) -> tuple[list[tuple[_Part, _Part]], tuple[_Part, ...], tuple[_Part, ...]]:
    """Pairs that are unique on both sides, and the series without a counterpart."""
    pairs: list[tuple[_Part, _Part]] = []
    rest = [{part.series_key: part for part in side} for side in (old, new)]
    for level in levels:
        sides: dict[tuple[str, ...], tuple[list[_Part], list[_Part]]] = defaultdict(lambda: ([], []))
        for i, side in enumerate(rest):
            for part in side.values():
                sides[tuple(getattr(part.named, name) for name in level)][i].append(part)
        for both in sides.values():
            if [len(parts) for parts in both] == [1, 1]:
                pairs.append((both[0][0], both[1][0]))
                for side, parts in zip(rest, both, strict=True):
                    del side[parts[0].series_key]
    return sorted(pairs, key=lambda pair: pair[1].series_key), tuple(rest[0].values()), tuple(rest[1].values())


def _of_campaign(archive: Archive, name: str) -> dict[str, tuple[str, str]]:
    return {s.series_key: (name, s.source) for s in archive.series(campaign_id=name)}


def _of_providers(archive: Archive, old: str, new: str) -> _Sides:
    """Each provider's series with its campaign: the newest one of both providers, else its own newest."""
    series = [archive.series(provider=name) for name in (old, new)]
    source = {s.series_key: s.source for own in series for s in own}
    usable = [{s.series_key: _usable(archive, s.series_key) for s in own} for own in series]
    chosen: _Sides = ({}, {})
    for own, other, campaign in zip(usable, reversed(usable), chosen, strict=True):
        there: dict[tuple[str, str], set[str]] = defaultdict(set)
        for series_key, campaigns in other.items():
            there[_workload_of(series_key)].update(campaigns)
        for series_key, campaigns in own.items():
            newest = [c for c in campaigns if c in there[_workload_of(series_key)]] or campaigns
            if newest:
                campaign[series_key] = (newest[-1], source[series_key])
    return chosen


def _usable(archive: Archive, series_key: str) -> list[str]:
    """Campaigns with a usable trial, oldest first; acceptances, which measure single nodes, only where there is no other."""
    usable = [c for c in archive.campaigns(series_key) if c.outcomes.usable]
    return [c.campaign_id for c in usable if c.purpose != "acceptance"] or [c.campaign_id for c in usable]


def _workload_of(series_key: str) -> tuple[str, str]:
    series = Series.parse(series_key)
    return series.kind, series.workload


def _compared(
    archive: Archive,
    declared: Declarations,
    kind: Kind,
    pairs: Iterable[tuple[_Part, _Part]],
    only_old: Iterable[_Part],
    only_new: Iterable[_Part],
) -> ComparisonSet:
    pairs_of_samples, keys = [], []
    for before, after in pairs:
        workload, candidate = _sample(archive, after)
        pairs_of_samples.append(SeriesPair([_sample(archive, before)[1]], candidate, _limits(declared, workload)))
        keys.append((before.series_key, after.series_key))
    comparison = compare_series(pairs_of_samples, rules=declared.thresholds.drift, across_providers=kind == "provider")
    return ComparisonSet(
        kind, tuple(comparison), tuple(keys), *(tuple(sorted(p.series_key for p in parts)) for parts in (only_old, only_new))
    )


def _sample(archive: Archive, part: _Part) -> tuple[AnyWorkload | None, CampaignSample]:
    workload, spec = _specification(_document(archive, archive.trials(part.campaign_id, part.series_key)[0].trial_id))
    return workload, replace(archive.sample(part.series_key, part.campaign_id), spec=spec)


def _document(archive: Archive, trial_id: str) -> ResultDocument | PublishedResult:
    document = archive.document(trial_id) or archive.imported(trial_id)
    if document is None:
        raise LookupError(f'the archive has no document of "{trial_id}"; `plumbline archive verify` lists missing ones')
    return document


def _specification(document: ResultDocument | PublishedResult) -> tuple[AnyWorkload | None, dict[str, Any]]:
    """A trial's workload and its specification. An imported one has no workload."""
    if isinstance(document, PublishedResult):
        return None, dict(document.spec)
    return document.trial.workload, requested_specification(document.trial)


def _limits(declared: Declarations, workload: AnyWorkload | None) -> Limits:
    return lambda metric: declared.thresholds.drift_limits(workload, metric)


def _trials(archive: Archive, declared: Declarations, old: str, new: str) -> ComparisonSet:
    first, second = (_document(archive, name) for name in (old, new))
    before, after = _sample_of_trial(first), _sample_of_trial(second)
    history = [
        archive.sample(before.series_key, c.campaign_id)
        for c in archive.campaigns(before.series_key)
        if c.campaign_id != (second.campaign_id if isinstance(second, PublishedResult) else second.trial.campaign_id)
    ]
    comparison = compare_trials(
        before, after, history, rules=declared.thresholds.drift, limits=_limits(declared, _specification(second)[0])
    )
    return ComparisonSet("trial", (comparison,), ((before.series_key, after.series_key),))


def _sample_of_trial(document: ResultDocument | PublishedResult) -> CampaignSample:
    """A single trial as a sample, called by its trial id."""
    imported = isinstance(document, PublishedResult)
    trial, slot = (document, document.system) if isinstance(document, PublishedResult) else (document.trial, document.trial.slot)
    environment = document.environment if isinstance(document, PublishedResult) else effective_environment(document)
    usable = document.validity.status in ("valid", "degraded")
    return CampaignSample(
        series_key=trial.series_key,
        campaign_id=trial.trial_id,
        simulated=not isinstance(document, PublishedResult) and document.simulated,
        imported=imported,
        observations=tuple(
            RepeatValue(row.metric, row.statistic, row.phase, row.unit, row.direction, slot, trial.repeat, row.value)
            for row in document.metrics
            if usable and row.value is not None
        ),
        environments=(environment.facts,) if environment else (),
        planned=1,
        spec=_specification(document)[1],
    )
