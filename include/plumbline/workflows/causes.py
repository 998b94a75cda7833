"""Judge the changes of the environment that series share, by all providers that have them, and reconcile the finding of each cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from plumbline.analysis.drift.environment import FACT_NAMES, FactChange, FactReading, fact_changes
from plumbline.analysis.drift.pooled import (
    USUAL_SPREAD,
    PooledCause,
    PooledEffect,
    SeriesShift,
    causes_of,
    cloud_effect,
    estimate_shift,
    pooled_effect,
    standard_error,
)
from plumbline.analysis.trial_sample import PHASE_ORDER
from plumbline.answers.findings import readable_findings
from plumbline.answers.fleet import primary_number
from plumbline.archive import Archive
from plumbline.archive.samples import SeriesPoint
from plumbline.declarations import Declarations
from plumbline.findings import Reconciliation
from plumbline.findings.cause import as_grave_as_members, cause_finding, cause_finding_id, witnesses
from plumbline.results.finding import OPEN_STATES, Finding, FindingKind
from plumbline.results.sample import Series
from plumbline.workflows.findings import apply

WITHIN = timedelta(days=400)
"""Changes that came earlier are not judged any more."""
UNDECLARED = "(not declared)"
_USUAL_WARN = 0.05
_KINDS: tuple[FindingKind, ...] = ("performance", "environment")


@dataclass(frozen=True)
class _Window:
    """A series before and since the campaign `came`, in which a cause was seen first. `looks`: its campaigns since then."""

    series: Series
    series_key: str
    before: str
    after: str
    came: str
    touched: bool
    looks: int


def review_causes(archive: Archive, declared: Declarations, provider: str, by: str, seen_in: str) -> tuple[Finding, ...]:
    """Judge every shared change that this provider has, and store the findings; the unsettled ones. Judging again changes nothing."""
    newest = archive.last_run([provider]).get(provider)
    if newest is None:
        return ()
    points = archive.series_points(newest - WITHIN)
    mine = next((p.source for p in points if Series.parse(p.series_key).provider == provider), None)
    points = [p for p in points if p.source == mine]
    of_source = {Series.parse(p.series_key).provider for p in points}
    readings = [FactReading(*row) for row in archive.fact_readings(tuple(FACT_NAMES), points[0].planned_at)]
    changes = fact_changes([r for r in readings if r.provider in of_source])
    opened: list[Finding] = []
    continued: list[Finding] = []
    resolved: list[tuple[Finding, str]] = []
    claimed: set[tuple[str, str]] = set()
    groups = {p.name: p.witness for p in declared.providers.values()}
    shared = [cause for cause in causes_of(changes) if provider in cause.came]
    candidates = [*shared, *_cloud_causes(archive, groups, provider, seen_in, shared, changes, points)]
    judged = [(cause, *judge_cause(archive, declared, cause, changes, points)) for cause in candidates]
    unsettled = readable_findings(archive.findings(OPEN_STATES))
    for cause, effects, before in sorted(judged, key=_order):
        known = _stored(archive, cause)
        if not effects or set(cause.came.items()) <= claimed:
            continue
        lead = effects[0]
        if lead.verdict in ("regressed", "improved") or (cause.cloud and known):
            claimed |= set(cause.came.items())
        if lead.verdict == "unchanged" and (old := known.get("performance")) is not None and old.state in OPEN_STATES:
            resolved.append((old, f"resolved: in campaign {seen_in} the pooled change of {lead.kind} is within your threshold again"))
        if lead.verdict not in ("regressed", "improved") and (len(cause.came) < 2 or cause.cloud):
            continue
        finding = as_grave_as_members(cause_finding(cause, effects, before, mine == "simulated"), unsettled)
        old = known.get(finding.kind)
        if old is None:
            opened.append(finding)
        elif old.state in OPEN_STATES:
            seen = tuple(dict.fromkeys((*old.seen_in, *([seen_in] if seen_in != finding.campaign_id else ()))))
            continued.append(replace(finding, campaign_id=old.campaign_id, seen_in=seen, state=old.state))
    apply(archive, Reconciliation(tuple(opened), tuple(continued), tuple(resolved)), by=by, seen_in=seen_in)
    return (*opened, *continued)


def _order(judged: tuple[PooledCause, tuple[PooledEffect, ...], tuple[str, ...]]) -> tuple[bool, bool, float]:
    """What is blamed first; of that a recorded change, which explains more than its cloud does; of the rest a cloud, whose finding may stand."""
    cause, effects, _ = judged
    blamed = any(e.verdict in ("regressed", "improved") for e in effects[:1])
    return not blamed, bool(cause.cloud) is blamed, min((e.p for e in effects), default=1.0)


def _cloud_causes(
    archive: Archive,
    groups: Mapping[str, str],
    provider: str,
    seen_in: str,
    shared: Sequence[PooledCause],
    changes: Sequence[FactChange],
    points: Sequence[SeriesPoint],
) -> list[PooledCause]:
    """What the provider's cloud did since this campaign, since a recorded change came there, and since the begin of its open findings; of clouds
    with two providers or more."""
    cloud = groups.get(provider)
    own = {name for name, group in groups.items() if group == cloud}
    if cloud is None or len(own) < 2:
        return []
    ran: dict[str, dict[str, datetime]] = defaultdict(dict)
    for point in points:
        name = Series.parse(point.series_key).provider
        if name in own:
            ran[point.campaign_id].setdefault(name, point.planned_at)
    open_since = {
        f.campaign_id or "" for f in readable_findings(archive.findings(OPEN_STATES)) if f.cause is not None and f.cause.cloud == cloud
    }
    since = [dict.fromkeys(ran[campaign], campaign) for campaign in (seen_in, *sorted(open_since - {seen_in})) if campaign in ran]
    since += [{name: campaign for name, campaign in cause.came.items() if name in own} for cause in shared]
    causes: dict[tuple[tuple[str, str], ...], PooledCause] = {}
    for came in since:
        if len(came) < 2:
            continue
        with_it = {(c.fact, c.value) for c in changes for a in c.adoptions if came.get(a.provider) == a.campaign}
        facts = tuple(sorted(with_it, key=lambda fact: (list(FACT_NAMES).index(fact[0]), fact[1])))
        began = min(came.values(), key=lambda campaign: min(ran[campaign].values()))
        causes.setdefault(tuple(sorted(came.items())), PooledCause(facts, came, began, cloud=cloud))
    return list(causes.values())


def _stored(archive: Archive, cause: PooledCause) -> dict[FindingKind, Finding]:
    stored: dict[FindingKind, Finding] = {}
    for kind in _KINDS:
        with suppress(LookupError):
            for finding in readable_findings([archive.finding(cause_finding_id(cause, kind))]):
                stored[kind] = finding
    return stored


def judge_cause(
    archive: Archive, declared: Declarations, cause: PooledCause, changes: Sequence[FactChange], points: Sequence[SeriesPoint]
) -> tuple[tuple[PooledEffect, ...], tuple[str, ...]]:
    """The cause's effect on each kind of workload, the most severe first, and the campaigns before it. `points`: of all series that may be compared, oldest first."""
    windows = list(_windows(cause, changes, points))
    shifts = _shifts(archive, declared, windows)
    looks = max((w.looks for w in windows if w.touched), default=1)
    effects = []
    changed = _changed_clouds(declared, cause, changes, min(_starts(cause, points).values())) if cause.cloud and windows else {}
    alike = [cloud for cloud, facts in changed.items() if facts == set(cause.facts)]
    for kind in ("training", "inference"):
        touched, untouched = ([s for w, s in shifts if w.touched is had and s.kind == kind] for had in (True, False))
        if cause.cloud:
            effect = cloud_effect(touched, untouched, changed, alike, looks, _rivals(shifts))
        else:
            effect = pooled_effect(touched, untouched, looks)
        if effect is not None:
            effects.append(effect)
    order = ("regressed", "improved", "insufficient_data", "unchanged")
    effects.sort(key=lambda e: (order.index(e.verdict), -abs(e.effect) / e.warn))  # then by the distance past the threshold
    return tuple(effects), tuple(sorted({w.before for w in windows if w.touched}))


def _changed_clouds(
    declared: Declarations, cause: PooledCause, changes: Sequence[FactChange], since: datetime
) -> dict[str, set[tuple[str, str]]]:
    """Other clouds to which recorded changes came since, and these."""
    came: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for change in changes:
        for a in change.adoptions:
            if a.at >= since or a.campaign == cause.began:
                came[_witness(declared, a.provider)].add((change.fact, change.value))
    return {cloud: facts for cloud, facts in came.items() if cloud != cause.cloud}


def _rivals(shifts: Sequence[tuple[_Window, SeriesShift]]) -> int:
    """Clouds with several providers, each of which could be blamed."""
    regions: dict[str, set[str]] = defaultdict(set)
    for _, s in shifts:
        regions[s.witness].add(s.provider)
    return max(1, sum(len(own) > 1 for own in regions.values()))


def _witness(declared: Declarations, provider: str) -> str:
    """The cloud or group of a provider. Those that are not declared any more can be of one cloud: together they are one witness."""
    known = declared.providers.get(provider)
    return known.witness if known is not None else UNDECLARED


def _starts(cause: PooledCause, points: Sequence[SeriesPoint]) -> dict[str, datetime]:
    """When each campaign in which it came began at the touched providers."""
    starts: dict[str, datetime] = {}
    for p in points:  # the oldest first
        if p.campaign_id not in starts and cause.came.get(Series.parse(p.series_key).provider) == p.campaign_id:
            starts[p.campaign_id] = p.planned_at
    return starts


def _windows(cause: PooledCause, changes: Sequence[FactChange], points: Sequence[SeriesPoint]) -> Iterator[_Window]:
    """Windows of the touched series, and at the same times of series on unchanged providers; if those are few, of all others."""
    by_series: dict[str, list[SeriesPoint]] = defaultdict(list)
    for point in points:
        by_series[point.series_key].append(point)
    starts = _starts(cause, points)
    if not starts:
        return
    places = {key: Series.parse(key) for key in by_series}
    free = {s.provider for s in places.values()} - cause.came.keys()
    changed = {a.provider for c in changes for a in c.adoptions if a.at >= min(starts.values())}
    if len(free - changed) >= 3 and not cause.cloud:  # of a cloud the others show whether the change did it there too
        free -= changed
    for key, own in by_series.items():
        series = places[key]
        touched = series.provider in cause.came
        for came in starts.keys() & {cause.came[series.provider]} if touched else list(starts) if series.provider in free else []:
            old = [p for p in own if p.planned_at < starts[came] and p.campaign_id != came]
            new = [p for p in own if p.planned_at >= starts[came] or p.campaign_id == came]
            if old and new:
                yield _Window(series, key, old[-1].campaign_id, new[-1].campaign_id, came, touched, len(new))


def _shifts(archive: Archive, declared: Declarations, windows: Sequence[_Window]) -> list[tuple[_Window, SeriesShift]]:
    """The shift of each series' first number, where it was measured before and after."""
    firsts = {name: primary_number(declared, name) for name in {w.series.workload for w in windows}}
    wanted = {first[:2] for first in firsts.values() if first is not None}
    measured = []
    for came in sorted({w.came for w in windows}):
        own = [w for w in windows if w.came == came]
        before, after = (
            archive.numbers_of(pairs, wanted) for pairs in ([(w.series_key, w.before) for w in own], [(w.series_key, w.after) for w in own])
        )
        for w in own:
            first = firsts[w.series.workload]
            if first is None:
                continue
            old, new = (_values(side.get(w.series_key, ()), *first) for side in (before, after))
            known = declared.workloads[w.series.workload].catalogue[first[0]]
            estimated = estimate_shift(old, new, 1 if known.direction == "lower_is_better" else -1)
            if estimated is not None:
                measured.append((w, known, estimated, (len(old), len(new))))
    scatters: dict[str, list[float]] = defaultdict(list)
    for w, _, (_, scatter, df), _ in measured:
        if df:
            scatters[w.series.workload].append(scatter)
    shifts = []
    for w, known, (shift, scatter, df), sizes in measured:
        spec = declared.workloads[w.series.workload]
        limits = declared.thresholds.drift_limits(spec, known)
        warn = limits.warn if limits is not None else _USUAL_WARN
        error = standard_error(scatter, df, scatters[w.series.workload], warn * USUAL_SPREAD, sizes)
        shifts.append(
            (
                w,
                SeriesShift(
                    w.series.provider,
                    w.series_key,
                    w.series.workload,
                    w.series.kind,
                    w.came,
                    shift,
                    error,
                    warn,
                    known.name,
                    _witness(declared, w.series.provider),
                    known.direction,
                ),
            )
        )
    return shifts


def _values(trials: Sequence[Mapping[tuple[str, str, str], float]], metric: str, statistic: str, phase: str | None) -> list[float]:
    """Values of each trial; without a phase, in the first of PHASE_ORDER that has one."""
    for at in (phase,) if phase else PHASE_ORDER:
        if values := [own[metric, statistic, at] for own in trials if (metric, statistic, at) in own]:
            return values
    return []


def unsettled_witnesses(archive: Archive) -> dict[str, str]:
    """Open findings that the finding of their cause tells → that finding."""
    return witnesses(readable_findings(archive.findings(OPEN_STATES)))
