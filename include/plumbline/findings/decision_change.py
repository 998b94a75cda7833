"""Findings about a changed first choice of a team, reconciled with the open ones, and the decisions that moved since a finding opened.

A ranking is compared with the last one stored for the same choice; a changed question (weights, gates, workloads, simulated results) opens
nothing. Kind: price if only prices differ, else performance. A finding continues while its provider is first and resolves when it is not.
A price finding counts on the provider whose price moved, every other one on the new first. Severity: warn if the new first is certain (P ≥ 0.8) or the only one, else info.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import takewhile
from typing import Any

from plumbline.archive import Archive, DecisionView
from plumbline.findings import Reconciliation
from plumbline.findings.price import format_usd
from plumbline.metrics.formatting import join_words
from plumbline.results.finding import DECISION_CHANGE_PREFIX as DECISION_CHANGE_PREFIX
from plumbline.results.finding import Finding, FindingKind, Member, Severity, finding_id

CONFIDENT_FROM = 0.8


@dataclass(frozen=True)
class PriceAtDecision:
    """What an hour of a provider cost, in USD per `unit` (GPU-hour, core-hour), since a day (ISO 8601); `usd` None where no price was known."""

    usd: float | None
    unit: str
    since: str | None


@dataclass(frozen=True)
class RankingSnapshot:
    """One team's ranking and its inputs. `eligible`: best first, with P(first) (None: unknown).

    `question`, `trials`, `costs`: hashes of the question, of the trials that counted and of their costs. `prices` and `campaigns`: by
    provider, of all ranked ones.
    """

    team: str
    kind: str
    workloads: tuple[str, ...]
    eligible: tuple[tuple[str, float | None], ...]
    question: str
    trials: str
    costs: str
    prices: Mapping[str, PriceAtDecision]
    campaigns: Mapping[str, tuple[str, ...]]
    simulated: bool = False

    @property
    def first(self) -> str | None:
        """None if no provider is eligible."""
        return self.eligible[0][0] if self.eligible else None

    @property
    def probability(self) -> float | None:
        """P(first) of the first one; None if unknown or no provider is eligible."""
        return self.eligible[0][1] if self.eligible else None

    @property
    def subject(self) -> str:
        """Such as `winner/platform/training/gpt-1b`."""
        return f"{DECISION_CHANGE_PREFIX}{self.team}/{self.kind}/{'+'.join(self.workloads)}"

    @property
    def inputs(self) -> tuple[str, str, str]:
        """Equal for equal rankings."""
        return self.question, self.trials, self.costs

    @classmethod
    def of(cls, team: str, kind: str, detail: Mapping[str, Any]) -> RankingSnapshot | None:
        """From a stored decision; None if fields are missing, as in one of another version."""
        try:
            return cls(
                team=team,
                kind=kind,
                workloads=tuple(detail["workloads"]),
                eligible=tuple((r["provider"], r["probability_first"]) for r in detail["ranking"] if r["eligible"]),
                question=detail["inputs"]["question"],
                trials=detail["inputs"]["trials"],
                costs=detail["inputs"]["costs"],
                prices={name: PriceAtDecision(p["usd_per_unit"], p["unit"], p["since"]) for name, p in detail["prices"].items()},
                campaigns={name: tuple(campaigns) for name, campaigns in detail["campaigns"].items()},
                simulated=detail["simulated"],
            )
        except (KeyError, TypeError):
            return None


def is_decision_change(finding: Finding) -> bool:
    return finding.is_decision_change


def parse_decision_subject(subject: str) -> tuple[str, str, tuple[str, ...]]:
    """Team, kind and workloads of such a finding's subject."""
    team, kind, workloads = subject.removeprefix(DECISION_CHANGE_PREFIX).split("/", 2)
    return team, kind, tuple(workloads.split("+"))


def reconcile_decision(
    before: RankingSnapshot | None, now: RankingSnapshot, open_findings: Sequence[Finding], day: date, decision_id: str
) -> Reconciliation:
    """Compare a ranking of the day with the last one, and with the open findings about the same choice."""
    known = [f for f in open_findings if f.subject == now.subject]
    if before is None or (before.question, before.simulated) != (now.question, now.simulated):
        return Reconciliation(resolved=tuple((f, "resolved: the team's question changed") for f in known if before is not None))
    if before.inputs == now.inputs:
        # Nothing is new; findings that a crashed run left open resolve.
        return Reconciliation(resolved=tuple((f, f"resolved: {_format_first(now)}") for f in known if _first_of(f) != now.first))
    why = _cause(before, now)
    continued, resolved, back = [], [], False
    for finding in known:
        former, first = finding.instead_of, _first_of(finding)
        if now.first == first:
            continued.append(_updated(finding, now))
        elif now.first == former:
            back = True
            resolved.append((finding, f"resolved: {_format_first(now, 'again ')}, {why.text}"))
        else:
            resolved.append((finding, f"resolved: {_format_first(now)}, {why.text}"))
    # A continued one covers it: a crashed run stored the finding and not yet the decision.
    if now.first == before.first or back or continued:
        return Reconciliation((), tuple(continued), tuple(resolved))
    return Reconciliation((_finding(before, now, why, day, decision_id),), tuple(continued), tuple(resolved))


@dataclass(frozen=True)
class _Cause:
    """`provider`: whose price moved the choice; None where new results did."""

    kind: FindingKind
    reasons: tuple[str, ...]
    provider: str | None = None

    @property
    def text(self) -> str:
        return f"because {join_words(self.reasons)}"


def _cause(before: RankingSnapshot, now: RankingSnapshot) -> _Cause:
    order = [name for name in (now.first, before.first) if name is not None]
    names = list(dict.fromkeys([*order, *sorted({*now.prices, *before.prices})]))
    moved = [name for name in names if name in before.prices and name in now.prices and before.prices[name].usd != now.prices[name].usd]
    prices = [_price(name, before.prices[name], now.prices[name], its=name == now.first) for name in moved]
    if before.trials == now.trials:
        return _Cause("price", tuple(prices) or ("the cost calculation changed",), _mover(before, now, moved))
    news = []
    for name in names:
        was, has = before.campaigns.get(name, ()), now.campaigns.get(name, ())
        if has and has != was:
            fresh = [c for c in has if c not in was] or [*has]
            news.append(f"{name} has {'' if was else 'its first '}results of campaign {join_words(fresh)}")
        elif was and not has:
            news.append(f"{name} has no current results")
    return _Cause("performance", (*(news or ["results were corrected"]), *prices))


def _mover(before: RankingSnapshot, now: RankingSnapshot, moved: Sequence[str]) -> str | None:
    """The provider whose price explains the change best: the new first one got cheaper or the former one dearer, whichever moved further."""

    def towards(name: str) -> float:
        was, has = before.prices[name].usd, now.prices[name].usd
        if not was or not has:
            return 0.0
        fell = math.log(was / has)
        return fell if name == now.first else -fell if name == before.first else 0.0

    return max(moved, key=towards, default=None)


def _price(name: str, was: PriceAtDecision, has: PriceAtDecision, its: bool) -> str:
    whose = "its" if its else f"{name}'s"
    if was.usd is None or has.usd is None:
        return f"{whose} price became {'known' if was.usd is None else 'unknown'}"
    verb = "fell" if has.usd < was.usd else "rose"
    return f"{whose} price {verb} {format_usd(was.usd, has.usd)} → {format_usd(has.usd, was.usd)} USD/{has.unit}" + (
        f" on {has.since}" if has.since else ""
    )


def _finding(before: RankingSnapshot, now: RankingSnapshot, why: _Cause, day: date, decision_id: str) -> Finding:
    provider = why.provider or now.first or before.first
    assert provider is not None  # the two differ, so one of them is a provider
    return _updated(
        Finding(
            finding_id=finding_id(provider, decision_id, why.kind, now.subject),
            series_key="",
            campaign_id=None,
            kind=why.kind,
            severity="info",
            headline="",
            explanation=_format_before(before) + ("; only prices changed, the trials are the same" if why.kind == "price" else ""),
            provider=provider,
            workload_kind=now.kind,
            workload=now.workloads[0] if len(now.workloads) == 1 else "",
            subject=now.subject,
            simulated=now.simulated,
            attributed_to=why.reasons,
            since=day.isoformat(),
            instead_of=before.first,
        ),
        now,
    )


def _updated(finding: Finding, now: RankingSnapshot) -> Finding:
    """The finding with the numbers of this ranking; cause and beginning stay."""
    sure = len(now.eligible) < 2 or (now.probability is not None and now.probability >= CONFIDENT_FROM)
    severity: Severity = "warn" if sure else "info"
    simulated = "SIMULATED  " if now.simulated else ""
    instead = f" instead of {finding.instead_of}" if finding.instead_of and now.first else ""
    what = f"team {now.team}, {now.kind}: {_format_first(now, 'now ')}{instead}"
    members = tuple(Member(name, f"{i}. {name}{format_certainty(p)}") for i, (name, p) in enumerate(now.eligible, 1))
    return replace(
        finding,
        severity=severity,
        headline=f"{severity.upper()}  {simulated}{what}, because {join_words(finding.attributed_to)}",
        title=f"first choice of team {now.team} for {now.kind}: {now.first or 'none'}{instead}",
        members=members,
    )


def _format_before(before: RankingSnapshot) -> str:
    return "before: " + (", ".join(f"{name}{format_certainty(p)}" for name, p in before.eligible) or "no provider was eligible")


def _format_first(now: RankingSnapshot, when: str = "") -> str:
    if now.first is None:
        return "no provider is eligible"
    only = " (only eligible provider)" if len(now.eligible) == 1 else format_certainty(now.probability)
    return f"first choice is {when}{now.first}{only}"


def _first_of(finding: Finding) -> str | None:
    return finding.members[0].name if finding.members else None


def format_certainty(probability: float | None) -> str:
    """A probability as messages append it to a name; empty for None. Never 0 or 1: draws cannot prove them."""
    if probability is None:
        return ""
    if probability > 0.99:
        return " (P > 0.99)"
    return " (P < 0.01)" if probability < 0.01 else f" (P = {probability:.2f})"


CONCERNED = ("performance", "price")
_PAGE, _MOST = 20, 100
"""Decisions read at a time, and at most; older ones do not count."""


def previous_choice(detail: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a stored decision that the next one of the same choice keeps: the first, and for each workload the cheapest that met it."""
    first = next((r["provider"] for r in detail["ranking"] if r["eligible"]), None)
    return {"first": first, "cheapest": {name: provider for name, provider, _ in _cheapest(detail)}}


def decision_impact(archive: Archive, finding: Finding, since: datetime) -> str:
    """A sentence: the teams whose first choice, or cheapest eligible setup, moved away from the provider since then if it got worse or dearer, or to
    it if it got better or cheaper. Empty without one, and for findings that cannot move decisions."""
    if finding.kind not in CONCERNED or is_decision_change(finding):
        return ""
    better = _moved_for_better(finding)
    sentences = [text for course in _courses(archive, since) for text in _moving_criteria(course, finding.provider, better)]
    return "; ".join(dict.fromkeys(sentences))


def _moved_for_better(finding: Finding) -> bool | None:
    """Whether the provider improved; None if unknown."""
    if finding.kind == "price":
        return None if not finding.effect else finding.effect < 0
    verdict = finding.direction_of(finding.series_key)
    return None if verdict not in ("regressed", "improved") else verdict == "improved"


def _courses(archive: Archive, since: datetime) -> list[list[DecisionView]]:
    """By choice, the decisions since then that follow another one of the same question, newest first."""
    by_choice: dict[tuple[str, str, tuple[str, ...]], list[DecisionView]] = {}
    after: str | None = None
    for _ in range(_MOST // _PAGE):
        page = archive.decisions_page(after=after, limit=_PAGE)
        for view in (view for view in page.rows if view.decided_at >= since and "workloads" in view.detail):
            by_choice.setdefault((view.team, view.kind, tuple(view.detail["workloads"])), []).append(view)
        after = page.after
        if after is None or page.rows[-1].decided_at < since:
            break
    courses = (list(takewhile(lambda view: view.detail.get("before"), views)) for _, views in sorted(by_choice.items()))
    return [course for course in courses if course]


def _moving_criteria(course: list[DecisionView], provider: str, better: bool | None) -> list[str]:
    def concerned(now: str | None, was: str | None) -> bool:
        # A provider that got worse is not chosen for it: that choice has another cause.
        return now != was and provider in ((now, was) if better is None else (now,) if better else (was,))

    now, was = course[0], course[-1].detail["before"]
    of = f"team {now.team}"
    sentences = []
    if concerned(now.winner, was["first"]):
        sentences.append(f"first choice of {of} for {now.kind} changes to {_format_provider(now.winner, now.probability)}")
    for workload, cheapest, probability in _cheapest(now.detail):
        before = was["cheapest"].get(workload)
        if concerned(cheapest, before):
            sentences.append(f"cheapest eligible provider for {of} on {workload} changes to {_format_provider(cheapest, probability)}")
    return sentences


def _cheapest(detail: Mapping[str, Any]) -> list[tuple[str, str | None, float | None]]:
    """(workload, provider that meets the requirement at the least cost, probability that it is the cheapest)."""
    cheapest = []
    for answer in detail["cheapest"]:
        best = next((setup for setup in answer["setups"] if setup["meets"]), None)
        cheapest.append((answer["workload"], best["provider"] if best else None, best["probability_cheapest"] if best else None))
    return cheapest


def _format_provider(provider: str | None, probability: float | None) -> str:
    if provider is None:
        return "none (no provider is eligible)"
    return f"{provider}{format_certainty(probability)}"
