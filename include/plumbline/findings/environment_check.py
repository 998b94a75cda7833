"""What a look at a provider between two campaigns means: facts that every node may show, against those that it was accepted as.

A look has no numbers, so it is exact: a value that nobody knew of the provider is a change. Those that matter are one finding of the day,
of the provider as a whole, that stands until every fact of it is back or a person accepts it. A fact that a finding stands about already,
of an earlier look or of a review, is not told again; a review continues the finding of a look (see life), never the other way round:
what a campaign showed only a campaign can take back.

What a look cannot see is no change, nor is a value that is gone or a number of nodes: they come and go.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from plumbline.analysis.drift.environment import EnvironmentChange, diff_nodes, fact_name, format_values
from plumbline.declarations.thresholds import EnvironmentRules
from plumbline.findings import Reconciliation
from plumbline.results.finding import Finding, Member, finding_id, summarize_facts
from plumbline.results.sample import Facts, Scalar

ENVIRONMENT_SUBJECT = "environment"
"""That of a review's findings about the environment: they are about the same facts."""
CHECK_FAILING_SUBJECT = "watch"
"""Subject of the finding that nobody could look."""


@dataclass(frozen=True)
class AcceptedFacts:
    """What a provider was accepted as: the values of each fact, and in words since when (`the look of 2026-11-14`). No fact: nothing is known
    yet, and nothing can have changed."""

    facts: Mapping[str, Sequence[Scalar]]
    told: str


@dataclass(frozen=True)
class EnvironmentReconciliation(Reconciliation):
    """`changes`: what differs from what was accepted and matters."""

    changes: tuple[EnvironmentChange, ...] = ()


def reconcile_environment(
    provider: str,
    accepted: AcceptedFacts,
    nodes: Sequence[Facts],
    standing: Sequence[Finding],
    day: date,
    *,
    rerun: str,
    simulated: bool = False,
    settled: Collection[str] = (),
    rules: EnvironmentRules | None = None,
) -> EnvironmentReconciliation:
    """Hold what the nodes show against what was accepted. `standing`: the provider's findings that are not settled; `settled`: the ids of
    the others; `rerun`: what starts because of a change, or why nothing does, in words."""
    changes = tuple(change for change in diff_nodes(accepted.facts, nodes, rules) if change.matters)
    same = [s for s in standing if (s.provider, s.kind, s.subject) == (provider, "environment", ENVIRONMENT_SUBJECT)]
    known = {fact_name(m.name) for s in same for m in s.members}
    fresh = [change for change in changes if fact_name(change.key) not in known]
    name = _name(provider, day, settled)
    seen = {fact_name(key) for key in accepted.facts if any(node.get(key) is not None for node in nodes)}
    now = {fact_name(change.key): change for change in changes}
    continued, over = [], []
    for s in (s for s in same if s.since is not None):
        back = {f for m in s.members if (f := fact_name(m.name)) in seen and f not in now}
        mine, fresh = (fresh, []) if s.finding_id == name else ([], fresh)
        members = (
            *(_member(m, now.get(fact_name(m.name))) for m in s.members if fact_name(m.name) not in back),
            *(_as_member(c) for c in mine),
        )
        if not members:
            over.append((s, f"recovered: on {day} it is again what it was accepted as ({accepted.told})"))
        elif members != s.members:
            continued.append(s.about(members))
    opened = (_finding(name, provider, fresh, day, f"against {accepted.told}; {rerun}", simulated),) if fresh else ()
    return EnvironmentReconciliation(opened, tuple(continued), tuple(over), changes=changes)


def change_rows(changes: Sequence[EnvironmentChange]) -> list[dict[str, str]]:
    """The changes as plain data, one a fact whichever device shows it: {fact, old, new}, the same however many nodes show it."""
    old: dict[str, set[str]] = defaultdict(set)
    new: dict[str, set[str]] = defaultdict(set)
    for change in changes:
        old[fact_name(change.key)] |= {str(value) for value in change.old}
        new[fact_name(change.key)] |= {str(value) for value in change.new}
    return [{"fact": name, "old": format_values(sorted(old[name])), "new": format_values(sorted(new[name]))} for name in sorted(new)]


def uniform_facts(nodes: Sequence[Facts]) -> dict[str, str]:
    """The facts that all nodes, and all their devices, show alike, named as in `news`."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, value in ((name, value) for node in nodes for name, value in node.items() if value is not None):
        found[fact_name(name)].add(str(value))
    return {name: next(iter(own)) for name, own in sorted(found.items()) if len(own) == 1}


def merge_facts(nodes: Sequence[Facts]) -> dict[str, Scalar | list[Scalar]]:
    """The facts of all nodes as one: a value, or the sorted values where nodes differ."""
    return {key: own[0] if len(own := sorted(counts, key=str)) == 1 else own for key, counts in count_values(nodes).items()}


def count_values(nodes: Sequence[Facts]) -> dict[str, Counter[Scalar]]:
    """Fact → value → on how many nodes."""
    found: dict[str, Counter[Scalar]] = defaultdict(Counter)
    for key, value in ((key, value) for node in nodes for key, value in node.items() if value is not None):
        found[key][value] += 1
    return dict(sorted(found.items()))


def format_counts(counts: Counter[Scalar]) -> str:
    """Such as `550.90.07`, or where nodes differ `2×550.90.07, 1×570.86.15`."""
    most = counts.most_common()
    return str(most[0][0]) if len(most) == 1 else ", ".join(f"{n}×{value}" for value, n in most)


def check_failing_finding(provider: str, last: date, why: str, simulated: bool = False) -> Finding:
    """That nobody could look at the provider since a day; `why` the last look failed."""
    mark = "SIMULATED  " if simulated else ""
    return Finding(
        finding_id=finding_id(provider, last.isoformat(), "missing_data", CHECK_FAILING_SUBJECT),
        series_key="",
        campaign_id=None,
        kind="missing_data",
        severity="warn",
        headline=f"WARN  {mark}{provider} · nobody could look at it since {last.isoformat()}",
        explanation=f"{why}; a change of driver or hardware goes unseen until a trial runs",
        provider=provider,
        workload_kind="",
        workload="",
        subject=CHECK_FAILING_SUBJECT,
        title="cannot be looked at",
        simulated=simulated,
        since=last.isoformat(),
    )


def _name(provider: str, day: date, settled: Collection[str]) -> str:
    """One finding a day; what changes again after that one was settled is another."""
    name = finding_id(provider, day.isoformat(), "environment", ENVIRONMENT_SUBJECT)
    more = 2
    while name in settled:
        name = finding_id(provider, f"{day.isoformat()} {more}", "environment", ENVIRONMENT_SUBJECT)
        more += 1
    return name


def _member(member: Member, change: EnvironmentChange | None) -> Member:
    """The member with the values of now; on how many nodes is not told anew each day."""
    if change is None or _values(member.text) == _values(_as_member(change).text):
        return member
    return replace(_as_member(change), series_key=member.series_key)


def _values(text: str) -> str:
    return text.rpartition(" (")[0]


def _as_member(change: EnvironmentChange) -> Member:
    return Member(change.key, f"{change.group}: {change.text}")


def _finding(name: str, provider: str, fresh: Sequence[EnvironmentChange], day: date, explanation: str, simulated: bool) -> Finding:
    members = tuple(map(_as_member, fresh))
    mark = "SIMULATED  " if simulated else ""
    return Finding(
        finding_id=name,
        series_key="",
        campaign_id=None,
        kind="environment",
        severity="warn",
        headline=f"WARN  {mark}{provider} · environment changed: {summarize_facts(members)}, since {day.isoformat()}",
        explanation=explanation,
        provider=provider,
        workload_kind="",
        workload="",
        subject=ENVIRONMENT_SUBJECT,
        title=f"environment changed: {fresh[0].text}",
        simulated=simulated,
        members=members,
        attributed_to=tuple(change.key for change in fresh),
        since=day.isoformat(),
    )
