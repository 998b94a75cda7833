"""Judge the changes of the environment that series share, by all providers that have them, and reconcile the finding of each cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from plumbline.analysis.drift.environment import FACT_NAMES, FactChange, FactReading, fact_changes
from plumbline.analysis.drift.pooled import (
    USUAL_SPREAD,
    PooledCause,
    PooledEffect,
    SeriesShift,
    causes_of,
    estimate_shift,
    pooled_effect,
    standard_error,
)
from plumbline.analysis.trial_sample import PHASE_ORDER
from plumbline.archive import Archive
from plumbline.archive.samples import SeriesPoint
from plumbline.declarations import Declarations
from plumbline.findings import Reconciliation
from plumbline.findings.cause import cause_finding, cause_finding_id, witnesses
from plumbline.metrics import METRICS
from plumbline.results.finding import OPEN_STATES, Finding, FindingKind
from plumbline.results.sample import Series
from plumbline.workflows.findings import apply, readable_findings
from plumbline.workflows.fleet import primary_number

WITHIN = timedelta(days=400)
"""Changes that came earlier are not judged any more."""
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
    judged = [(cause, *judge_cause(archive, declared, cause, changes, points)) for cause in causes_of(changes) if provider in cause.came]
    for cause, effects, before in sorted(judged, key=lambda one: min((e.p for e in one[1]), default=1.0)):
        known = _stored(archive, cause)
        if not effects or set(cause.came.items()) <= claimed:
            continue
        lead = effects[0]
        if lead.verdict in ("regressed", "improved"):
            claimed |= set(cause.came.items())
        elif lead.verdict == "unchanged" and (old := known.get("performance")) is not None and old.state in OPEN_STATES:
            resolved.append((old, f"resolved: in campaign {seen_in} the pooled change of {lead.kind} is within your threshold again"))
        if lead.verdict not in ("regressed", "improved") and len(cause.came) < 2:
            continue
        finding = cause_finding(cause, effects, before, mine == "simulated")
        old = known.get(finding.kind)
        if old is None:
            opened.append(finding)
        elif old.state in OPEN_STATES:
            seen = tuple(dict.fromkeys((*old.seen_in, *([seen_in] if seen_in != finding.campaign_id else ()))))
            continued.append(replace(finding, campaign_id=old.campaign_id, seen_in=seen, state=old.state))
    apply(archive, Reconciliation(tuple(opened), tuple(continued), tuple(resolved)), by=by, seen_in=seen_in)
    return (*opened, *continued)


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
    for kind in ("training", "inference"):
        touched, untouched = ([s for w, s in shifts if w.touched is had and s.kind == kind] for had in (True, False))
        if (effect := pooled_effect(touched, untouched, looks)) is not None:
            effects.append(effect)
    order = ("regressed", "improved", "insufficient_data", "unchanged")
    effects.sort(key=lambda e: (order.index(e.verdict), -abs(e.effect) / e.warn))  # then by the distance past the threshold
    return tuple(effects), tuple(sorted({w.before for w in windows if w.touched}))


def _windows(cause: PooledCause, changes: Sequence[FactChange], points: Sequence[SeriesPoint]) -> Iterator[_Window]:
    """Windows of the touched series, and at the same times of series on unchanged providers; if those are few, of all others."""
    by_series: dict[str, list[SeriesPoint]] = defaultdict(list)
    for point in points:
        by_series[point.series_key].append(point)
    starts = {
        came: min(a.at for c in changes for a in c.adoptions if a.campaign == came and a.provider in cause.came)
        for came in set(cause.came.values())
    }
    places = {key: Series.parse(key) for key in by_series}
    free = {s.provider for s in places.values()} - cause.came.keys()
    changed = {a.provider for c in changes for a in c.adoptions if a.at >= min(starts.values())}
    if len(free - changed) >= 3:
        free -= changed
    for key, own in by_series.items():
        series = places[key]
        touched = series.provider in cause.came
        for came in [cause.came[series.provider]] if touched else list(starts) if series.provider in free else []:
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
            estimated = estimate_shift(old, new, 1 if METRICS[first[0]].direction == "lower_is_better" else -1)
            if estimated is not None:
                measured.append((w, first[0], estimated, (len(old), len(new))))
    scatters: dict[str, list[float]] = defaultdict(list)
    for w, _, (_, scatter, df), _ in measured:
        if df:
            scatters[w.series.workload].append(scatter)
    shifts = []
    for w, metric, (shift, scatter, df), sizes in measured:
        spec = declared.workloads[w.series.workload]
        limits = declared.thresholds.drift_limits(spec, metric)
        warn = limits.warn if limits is not None else _USUAL_WARN
        error = standard_error(scatter, df, scatters[w.series.workload], warn * USUAL_SPREAD, sizes)
        shifts.append(
            (w, SeriesShift(w.series.provider, w.series_key, w.series.workload, w.series.kind, w.came, shift, error, warn, metric))
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
