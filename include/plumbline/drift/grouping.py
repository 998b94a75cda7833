"""One provider, one campaign, one cause for concern: what its series show alike is one finding with all of them as members.

A driver that changed, a node that got slow, a provider that fails: each shows in many series at once, and many messages about one
cause are no messages. The series with the gravest severity, then the one furthest from its baseline, leads: its numbers stand in the
headline, every other series is named and has its members. An attribution is that of the lead, with what the others are attributed
to after it; when the lead has none but another series has, the group has that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from plumbline.drift.finding import Finding, Member

_GRAVITY = {"page": 0, "warn": 1, "info": 2}
_MOST_NAMED = 3


def grouped(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings of the series of one campaign, one per provider, kind and subject; a single one stays as it is."""
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.finding_id].append(finding)
    return tuple(_one(sorted(found, key=_rank)) for found in groups.values())


def _rank(finding: Finding) -> tuple[int, float, str]:
    return _GRAVITY[finding.severity], -abs(finding.effect or 0.0), finding.series_key


def _one(found: list[Finding]) -> Finding:
    lead, others = found[0], found[1:]
    if not others:
        return lead
    explained = next((f for f in found if f.attributed_to), lead)
    names = [f"{f.workload_kind} {f.workload}" for f in others]
    named = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")
    also = f"the same in {named}" if lead.kind == "environment" else f"with it: {_moved(others, named)}"
    return replace(
        lead,
        explanation=f"{explained.explanation}; {also}",
        title=f"{lead.title} and {len(others)} more series",
        headline=f"{lead.headline}, and {len(others)} more series",
        members=_members(found),
        attributed_to=tuple(dict.fromkeys(key for f in found for key in f.attributed_to)),
        baseline_campaigns=tuple(dict.fromkeys(c for f in found for c in f.baseline_campaigns)),
        series=tuple(f.series_key for f in found),
        standing=tuple(f.series_key for f in found),
    )


def _moved(others: Sequence[Finding], named: str) -> str:
    told = [f"{f.workload} {f.title}" for f in others[:_MOST_NAMED]]
    return ", ".join(told) + (f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else "") if told else named


def _members(found: Sequence[Finding]) -> tuple[Member, ...]:
    """Of a fact that changed for all series, one member; of metrics, one per series, which its text names."""
    if found[0].kind in ("environment", "reliability"):
        first: dict[str, Member] = {}
        for finding in found:
            for member in finding.members:
                first.setdefault(member.name, member)
        return tuple(first.values())
    return tuple(replace(m, text=f"{f.workload_kind} {f.workload}: {m.text}") for f in found for m in f.members)
