"""Findings of environment checks between campaigns: the facts that nodes show, compared with the accepted ones.

A check is exact: a value that is not accepted is a change. The changes that matter are one finding a day about the provider as a whole, until
every fact is back or a person accepts it. A fact with an open finding, of a check or of a review, opens no other one. A review continues the
finding of a check; a check does not change the finding of a review. Facts that a check cannot see, values that vanish and the number of nodes
are no changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from plumbline.analysis.drift.environment import EnvironmentChange, diff_nodes, fact_name, format_values
from plumbline.declarations.thresholds import EnvironmentRules
from plumbline.findings import Reconciliation, provider_finding, unsettled_id
from plumbline.findings.types.environment import EnvironmentFinding
from plumbline.metrics.formatting import shorten
from plumbline.results.finding import Finding, Member
from plumbline.results.sample import Facts, Scalar


@dataclass(frozen=True)
class AcceptedFacts:
    """The accepted values of each fact, and where they come from, such as `the environment check of 2026-11-14`. Without facts nothing changes."""

    facts: Mapping[str, Sequence[Scalar]]
    origin: str


@dataclass(frozen=True)
class EnvironmentReconciliation(Reconciliation):
    """`changes`: those that matter."""

    changes: tuple[EnvironmentChange, ...] = ()


def reconcile_environment(
    provider: str,
    accepted: AcceptedFacts,
    nodes: Sequence[Facts],
    open_findings: Sequence[Finding],
    day: date,
    *,
    rerun: str,
    simulated: bool = False,
    settled: Collection[str] = (),
    rules: EnvironmentRules | None = None,
) -> EnvironmentReconciliation:
    """Compare the nodes' facts with the accepted ones. `open_findings`: the provider's unsettled findings, `settled` the ids of the others; `rerun`:
    a phrase, what starts because of a change, or why nothing does."""
    changes = tuple(change for change in diff_nodes(accepted.facts, nodes, rules) if change.matters)
    same = [s for s in open_findings if s.provider == provider and EnvironmentFinding.has(s)]
    known = {fact_name(m.name) for s in same for m in s.members}
    fresh = [change for change in changes if fact_name(change.key) not in known]
    name = unsettled_id(provider, day.isoformat(), "environment", EnvironmentFinding.subject, settled)
    shown_names = {fact_name(key) for key in accepted.facts if any(node.get(key) is not None for node in nodes)}
    now = {fact_name(change.key): change for change in changes}
    continued, resolved = [], []
    for s in (s for s in same if s.since is not None):
        back = {f for m in s.members if (f := fact_name(m.name)) in shown_names and f not in now}
        mine, fresh = (fresh, []) if s.finding_id == name else ([], fresh)
        members = (
            *(_member(m, now.get(fact_name(m.name))) for m in s.members if fact_name(m.name) not in back),
            *(_as_member(c) for c in mine),
        )
        if not members:
            resolved.append((s, f"resolved: on {day} the environment matches {accepted.origin} again"))
        elif members != s.members:
            continued.append(s.about(members))
    opened = (_finding(name, provider, fresh, day, f"compared with {accepted.origin}; {rerun}", rerun, simulated),) if fresh else ()
    return EnvironmentReconciliation(opened, tuple(continued), tuple(resolved), changes=changes)


def change_rows(changes: Sequence[EnvironmentChange]) -> list[dict[str, str]]:
    """The changes as {fact, old, new}, one a fact, whatever devices and however many nodes show it."""
    old: dict[str, set[str]] = defaultdict(set)
    new: dict[str, set[str]] = defaultdict(set)
    for change in changes:
        old[fact_name(change.key)] |= {str(value) for value in change.old}
        new[fact_name(change.key)] |= {str(value) for value in change.new}
    return [{"fact": name, "old": format_values(sorted(old[name])), "new": format_values(sorted(new[name]))} for name in sorted(new)]


def uniform_facts(nodes: Sequence[Facts]) -> dict[str, str]:
    """The facts that all nodes and devices show alike, named as in `change_rows`."""
    values: dict[str, set[str]] = defaultdict(set)
    for name, value in ((name, value) for node in nodes for name, value in node.items() if value is not None):
        values[fact_name(name)].add(str(value))
    return {name: next(iter(own)) for name, own in sorted(values.items()) if len(own) == 1}


def merge_facts(nodes: Sequence[Facts]) -> dict[str, Scalar | list[Scalar]]:
    """Fact → value, or the sorted values where nodes differ."""
    return {key: own[0] if len(own := sorted(counts, key=str)) == 1 else own for key, counts in count_values(nodes).items()}


def count_values(nodes: Sequence[Facts]) -> dict[str, Counter[Scalar]]:
    """Fact → value → number of nodes."""
    counts: dict[str, Counter[Scalar]] = defaultdict(Counter)
    for key, value in ((key, value) for node in nodes for key, value in node.items() if value is not None):
        counts[key][value] += 1
    return dict(sorted(counts.items()))


def format_counts(counts: Counter[Scalar]) -> str:
    """The values as text, such as `550.90.07`; if nodes differ, `2×550.90.07, 1×570.86.15`."""
    most = counts.most_common()
    return str(most[0][0]) if len(most) == 1 else ", ".join(f"{n}×{value}" for value, n in most)


def _member(member: Member, change: EnvironmentChange | None) -> Member:
    """The member with the current values; another number of nodes alone does not change it."""
    if change is None or _values(member.text) == _values(_as_member(change).text):
        return member
    return replace(_as_member(change), series_key=member.series_key)


def _values(text: str) -> str:
    return text.rpartition(" (")[0]


def _as_member(change: EnvironmentChange) -> Member:
    return Member(change.key, f"{change.group}: {change.text}")


def _finding(
    name: str, provider: str, fresh: Sequence[EnvironmentChange], day: date, explanation: str, rerun: str, simulated: bool
) -> Finding:
    members = tuple(map(_as_member, fresh))
    return provider_finding(
        provider,
        "environment",
        EnvironmentFinding.subject,
        name=name,
        since=day.isoformat(),
        severity="warn",
        title=f"environment changed: {fresh[0].text}",
        evidence=f"environment changed: {shorten(m.fact for m in members)}",
        explanation=explanation,
        simulated=simulated,
        members=members,
        attributed_to=tuple(change.key for change in fresh),
        consequence=rerun,
    )
