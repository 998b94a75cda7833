"""One finding for each cause: a change of the environment that several series share, with its pooled verdict; what a cloud changed; or a change of
price.

The findings of single series and providers that name the same change are its witnesses: they stay, and are notified only if they are more severe.

Severity. Page if the touched series are worse by their warn threshold, pooled; warn if by less, and for a change that several providers share
and that moved nothing or cannot be judged; info for an improvement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plumbline.analysis.drift.environment import FACT_NAMES, fact_name
from plumbline.findings.headline import cause_of, is_price_change
from plumbline.findings.types import about_facts, about_price, about_speed, type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.kinds import kind_of_series
from plumbline.metrics.formatting import format_change, format_limit, format_name
from plumbline.results.finding import FLEET, OPEN_STATES, CauseEvidence, Finding, FindingKind, Member, Severity, finding_id, gravity
from plumbline.results.sample import Series
from plumbline.words.causes import judge_effect

if TYPE_CHECKING:  # it loads numpy and scipy, which a list of findings does not need
    from plumbline.analysis.drift.pooled import PooledCause, PooledEffect, SeriesShift

_ONE_CLOUD = ("which change of this cloud it is", "the same recorded change at a second cloud, or a region of this one without it")


def cause_finding_id(cause: PooledCause, kind: FindingKind) -> str:
    """The finding's id, the same for every observation of the cause on any provider."""
    return finding_id(FLEET, "", kind, cause.subject)


def cause_finding(cause: PooledCause, effects: Sequence[PooledEffect], baseline: Sequence[str], simulated: bool) -> Finding:
    """The finding of a cause, led by the first of its effects. `baseline`: the campaigns before it, which the series are compared with."""
    effect, others = effects[0], [e for e in effects[1:] if e.verdict == effects[0].verdict]
    changed = effect.verdict in ("regressed", "improved")
    kind: FindingKind = "performance" if changed else "environment"
    severity: Severity = "info" if effect.verdict == "improved" else "page" if changed and effect.effect >= effect.warn else "warn"
    has = tuple(sorted(cause.came))
    provider = has[0] if len(has) == 1 else FLEET
    recorded = tuple(f"{FACT_NAMES[fact]} {value}" for fact, value in cause.facts)
    names = (cause.cloud, *recorded) if cause.cloud else recorded
    began = cause.began
    shifts = [s for e in (effect, *others) for s in sorted(e.shifts, key=lambda s: (s.series_key not in e.moved, -abs(s.shift)))]
    title = f"{names[0]}: {_what(effect)}"
    left = f"{len(cause.left)} {'providers do' if len(cause.left) != 1 else 'provider does'} not have it yet" if cause.left else ""
    if cause.cloud and recorded:
        left = f"{recorded[0]} or another change of this cloud"
    judged = judge_effect(effect)
    missing, decides = (_ONE_CLOUD if recorded else ("", "")) if cause.cloud else (judged.missing, judged.decides)
    between = " … ".join(map(format_change, (effect.ci_low, effect.ci_high)))
    against = (
        f"compared with {effect.untouched} series without the change"
        if effect.untouched
        else "no series without the change to compare with"
    )
    with_it = f"; {'came' if cause.cloud else 'came together'} with {', '.join(names[1:])}" if names[1:] else ""
    with_it += f"; not shown: {missing}. It would take: {decides}" if missing else ""
    return Finding(
        finding_id=cause_finding_id(cause, kind),
        series_key=shifts[0].series_key,
        campaign_id=began,
        kind=kind,
        severity=severity,
        evidence="; ".join(filter(None, (title, left))),
        explanation=f"pooled change {format_change(effect.effect)} (95 %: {between}), {against}{with_it}"
        + "".join(f"; also {_what(e)}" for e in others),
        provider=provider,
        workload_kind=effect.kind,
        workload="",
        subject=cause.subject,
        title="; ".join(filter(None, (title, left))),
        simulated=simulated,
        effect=effect.effect,
        ci_low=effect.ci_low,
        ci_high=effect.ci_high,
        members=tuple(map(_member, shifts)),
        attributed_to=tuple(fact for fact, _ in cause.facts),
        baseline_campaigns=tuple(baseline),
        series=tuple(s.series_key for s in shifts),
        standing=tuple(s.series_key for s in shifts),
        cause=CauseEvidence(
            facts=tuple(fact for fact, _ in cause.facts),
            names=names,
            verdict=effect.verdict,
            providers=has,
            left=cause.left,
            moved=len(effect.moved),
            series=len(effect.shifts),
            moved_providers=len(effect.moved_providers),
            against=effect.untouched,
            p=effect.p,
            cloud=cause.cloud,
            clouds=effect.clouds,
            missing=missing,
            decides=decides,
        ),
    )


def _what(effect: PooledEffect) -> str:
    runs, count, on, providers = _runs(effect), len(effect.shifts), len(effect.moved_providers), len(effect.providers)
    if effect.verdict in ("regressed", "improved"):
        share = format_change(effect.effect)[1:]
        worse = "slower" if effect.verdict == "regressed" else "faster"
        where = f" at {on} of {providers} providers" if providers > 1 else ""
        return f"{share} {worse} in {len(effect.moved)} of {count} {runs}{where}"
    if effect.verdict == "unchanged":
        return f"no change of {count} {runs} beyond your {format_limit(effect.warn)} at {providers} providers"
    return f"{count} {runs} at {providers} providers cannot tell its effect"


def _runs(effect: PooledEffect) -> str:
    """What its series are, by their kind: a test of a disk in a container is no training."""
    kinds = {kind for s in effect.shifts if (kind := kind_of_series(effect.kind, s.series_key)) is not None}
    return kinds.pop().plural if len(kinds) == 1 else "workloads"


def _member(shift: SeriesShift) -> Member:
    """The change of the series' own number, which may be a rate."""
    series = Series.parse(shift.series_key)
    effect = shift.change if shift.direction == "lower_is_better" else mirrored(shift.change)
    kind = kind_of_series(series.kind, shift.series_key)
    what = kind.noun if kind is not None and kind.noun else series.kind
    text = f"{series.provider} · {what} {series.workload}: {format_name(shift.metric)} {format_change(effect)}"
    return Member(shift.metric, text, effect, verdict="regressed" if shift.shift > 0 else "improved", series_key=shift.series_key)


def slowdown(member: Member) -> float | None:
    """How much worse a member of a cause's finding became, a fraction: a rate that falls by a fifth is slower by a quarter."""
    if member.effect is None:
        return None
    return mirrored(member.effect) if falls_when_worse(member) else member.effect


def falls_when_worse(member: Member) -> bool:
    """Whether its metric is a rate, which falls where the pooled change, always of a time, rises."""
    return member.effect is not None and (member.effect > 0) != (member.verdict == "regressed")


def mirrored(change: float) -> float:
    """A change of a rate as that of a time, and back."""
    return 1 / (1 + change) - 1


def as_grave_as_members(pooled: Finding, findings: Iterable[Finding]) -> Finding:
    """A cause that made something worse, with the highest severity of the open findings that it explains: one is reported, not each."""
    if pooled.cause is None or pooled.cause.verdict != "regressed":
        return pooled
    explained = [f.severity for f in findings if f.state in OPEN_STATES and f.finding_id != pooled.finding_id and _explains(pooled, f)]
    return replace(pooled, severity=min((pooled.severity, *explained), key=gravity))


def witnesses(findings: Iterable[Finding]) -> dict[str, str]:
    """Finding → the unsettled finding of its cause, among these; without findings that are more severe than their cause's."""
    known = [f for f in findings if f.state in OPEN_STATES]
    pooled = sorted((f for f in known if f.cause is not None), key=lambda f: not about_speed(f))
    led: dict[str, str] = {}
    for finding in known:
        cause = next((p for p in pooled if p is not finding and _witnesses(finding, p)), None)
        if cause is not None:
            led[finding.finding_id] = cause.finding_id
    stories: dict[str, list[Finding]] = defaultdict(list)
    for finding in known:
        if is_price_change(finding) or (FirstChoice.has(finding) and about_price(finding) and finding.causes):
            stories[cause_of(finding)].append(finding)
    for story in stories.values():
        lead, *others = sorted(story, key=lambda f: (gravity(f.severity), FirstChoice.has(f), f.finding_id))
        led |= dict.fromkeys((f.finding_id for f in others), lead.finding_id)
    return led


def _witnesses(finding: Finding, pooled: Finding) -> bool:
    return gravity(finding.severity) >= gravity(pooled.severity) and _explains(pooled, finding)


def _explains(pooled: Finding, finding: Finding) -> bool:
    cause = pooled.cause
    assert cause is not None  # only findings with one are asked
    if type_of(finding).accepting != "baseline":
        return False
    if not set(cause.facts) & set(map(fact_name, finding.attributed_to)):
        unexplained = about_speed(finding) and finding.cause is None and not finding.attributed_to
        return bool(cause.cloud) and unexplained and finding.provider in cause.providers and pooled.campaign_id in finding.campaigns
    if finding.cause is None:
        return finding.provider in cause.providers
    if not about_speed(pooled) or not set(finding.cause.providers) <= set(cause.providers):
        return False
    # What a cloud did is a witness of a change that several clouds show, as is a verdict from before the change could be judged.
    return about_facts(finding) or bool(finding.cause.cloud and not cause.cloud)
