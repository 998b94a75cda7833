"""Reconcile a campaign's findings with the open ones: continued, new, or resolved.

A drift continues an open finding of the same provider, kind and subject that covers the series: of performance in the same direction, of the
environment with the same fact. A finding of an environment check covers every series of its provider. Other drifts are grouped into new
findings. A compared series that no longer shows a finding has recovered; the finding resolves with the last one. `suspected` is no recovery,
nor is a refused comparison. Only a series' newest campaign continues or resolves findings: the review of an older one changes nothing later.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from plumbline.analysis.drift.comparison import Comparison
from plumbline.analysis.drift.environment import fact_name
from plumbline.findings import Reconciliation
from plumbline.findings.campaign import grouped
from plumbline.findings.types import type_of
from plumbline.findings.types.environment import EnvironmentFinding
from plumbline.results.finding import Finding


def reconcile(
    drifts: Sequence[Finding], open_findings: Sequence[Finding], comparisons: Sequence[Comparison], newest: Collection[str]
) -> Reconciliation:
    """`drifts`: one provider's findings of a campaign, one a series; `open_findings`: its open ones; `newest`: series whose newest campaign it is."""
    shown_again: dict[str, list[Finding]] = {}
    new: list[Finding] = []
    for finding in drifts:
        for part, known in _parts(finding, open_findings):
            if known is None:
                new.append(part)
            elif part.series_key in newest or known.campaign_id == part.campaign_id:
                shown_again.setdefault(known.finding_id, []).append(part)
    compared = {c.series_key: c for c in comparisons}
    continued, resolved = [], []
    for known in open_findings:
        now = shown_again.get(known.finding_id, [])
        still = {f.series_key for f in now}
        recovered = {
            key
            for key in known.standing
            if key in compared and key in newest and key not in still and type_of(known).has_recovered(known, compared[key])
        }
        still_open = (set(known.standing) - recovered) | still
        if recovered and not still_open:
            resolved.append((known, _resolution(known, compared[known.standing[0]])))
        elif now or recovered:
            continued.append(_updated(known, now, still_open))
    return Reconciliation(grouped(new), tuple(continued), tuple(resolved))


def _parts(finding: Finding, open_findings: Sequence[Finding]) -> list[tuple[Finding, Finding | None]]:
    """The finding with the one that it continues; one about several facts is split if only some are known."""
    same = [s for s in open_findings if s.identity == finding.identity]
    here = next((s for s in same if s.campaign_id == finding.campaign_id), None)
    known = [s for s in same if s is not here and (s.campaign_id is None or finding.series_key in s.series)]
    if not EnvironmentFinding.has(finding):
        moved = finding.direction_of(finding.series_key)
        match = next((s for s in known if s.direction_of(finding.series_key) == moved), here)
        return [(finding, match)]
    parts: list[tuple[Finding, Finding | None]] = []
    left = finding.members
    for s in known:
        facts = {fact_name(m.name) for m in s.members}
        mine = tuple(m for m in left if fact_name(m.name) in facts)
        left = tuple(m for m in left if fact_name(m.name) not in facts)
        if mine:
            parts.append((finding.about(mine), s))
    return [*parts, (finding.about(left), here)] if left else parts


def _resolution(known: Finding, now: Comparison) -> str:
    series = "the series" if len(known.series) == 1 else f"the last of {len(known.series)} series"
    baseline = ", ".join(now.baseline_campaigns) or "no baseline"
    return f"resolved: in campaign {now.candidate_campaign} {series} {type_of(known).recovery(known)} ({baseline})"


def _updated(known: Finding, now: Sequence[Finding], left: Collection[str]) -> Finding:
    """The open finding with the numbers of this campaign; identity, first campaign and state stay."""
    standing, series = tuple(sorted(left)), tuple(dict.fromkeys((*known.series, *(f.series_key for f in now))))
    if not now:
        return replace(known, standing=standing)
    (campaign,) = {c for f in now for c in f.campaigns}
    (latest,) = grouped([replace(f, finding_id=known.finding_id) for f in now])
    # A fact that no campaign reads, such as a label of a node, stays.
    unseen = tuple(m for m in known.members if fact_name(m.name) not in {fact_name(n.name) for n in latest.members}) if known.since else ()
    latest = latest.about((*latest.members, *unseen)) if unseen else latest
    return replace(
        latest,
        campaign_id=known.campaign_id,
        since=known.since,
        seen_in=tuple(dict.fromkeys((*known.seen_in, *([campaign] if campaign != known.campaign_id else ())))),
        series=series,
        standing=standing,
        state=known.state,
    )
