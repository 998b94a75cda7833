"""Findings about a changed first choice of a team, reconciled with the open ones, and the decisions that moved since a finding opened.

A ranking is compared with the last one stored for the same choice; a changed question (weights, gates, workloads, simulated results) opens
nothing. Why: the largest part of the lead's move (`why_moved`). Kind: price if that is a price, or if only prices differ, else performance. A
finding continues while its provider is first and resolves when it is not.
A price finding counts on the provider whose price moved, every other one on the new first. Severity: warn if the new first is a clear winner
or the only one, else info.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import takewhile

from plumbline.analysis.decisions.certainty import is_clear
from plumbline.analysis.decisions.decision import Choice
from plumbline.analysis.decisions.decision_record import DecisionDocument, PreviousChoice, read_decisions
from plumbline.analysis.decisions.winner_change import Scatter
from plumbline.archive import Archive
from plumbline.findings import Reconciliation
from plumbline.findings.choice_cause import MoveCause, cause_of_move
from plumbline.findings.headline import cause_of, is_price_change
from plumbline.findings.types import about_price, type_of
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.findings.types.price_change import PriceFinding
from plumbline.metrics.formatting import join_words, shorten
from plumbline.results.finding import ChoiceMove, Finding, Member, PriceMove, Severity, finding_id
from plumbline.words.decisions import with_certainty, with_probability
from plumbline.words.winner_change import WITHIN_NOISE


def reconcile_decision(
    before: DecisionDocument | None,
    now: DecisionDocument,
    open_findings: Sequence[Finding],
    day: date,
    decision_id: str,
    clouds: Mapping[str, str] | None = None,
    scatter: tuple[Scatter, Scatter] = ({}, {}),
) -> Reconciliation:
    """Compare a ranking of the day with the last one, and with the open findings about the same choice. `clouds`: of declared providers;
    `scatter`: of the repeats behind the decision before and this one."""
    first = now.first_name
    known = [f for f in open_findings if FirstChoice.is_of(f, now.team, now.kind, now.workloads)]
    if before is None or before.question != now.question:
        return Reconciliation(resolved=tuple((f, "resolved: the team's question changed") for f in known if before is not None))
    if before.inputs == now.inputs:
        # Nothing is new; findings that a crashed run left open resolve.
        return Reconciliation(resolved=tuple((f, f"resolved: {_format_first(now)}") for f in known if _first_of(f) != first))
    why = cause_of_move(before, now, clouds or {}, scatter)
    continued, resolved, back = [], [], False
    for finding in known:
        if first == _first_of(finding):
            continued.append(_updated(finding, now))
        elif first == finding.instead_of:
            back = True
            resolved.append((finding, f"resolved: {_format_first(now, 'again ')}, {why.text}"))
        else:
            resolved.append((finding, f"resolved: {_format_first(now)}, {why.text}"))
    # A continued one covers it: a crashed run stored the finding and not yet the decision.
    if first == before.first_name or back or continued:
        return Reconciliation((), tuple(continued), tuple(resolved))
    return Reconciliation((_finding(before, now, why, day, decision_id),), tuple(continued), tuple(resolved))


def _finding(before: DecisionDocument, now: DecisionDocument, why: MoveCause, day: date, decision_id: str) -> Finding:
    provider = why.provider or now.first_name or before.first_name
    assert provider is not None  # the two differ, so one of them is a provider
    was = shorten(map(with_probability, before.eligible)) or "no provider was eligible"
    return _updated(
        Finding(
            finding_id=finding_id(provider, decision_id, why.kind, FirstChoice.of(now.team, now.kind, now.workloads)),
            series_key="",
            campaign_id=None,
            kind=why.kind,
            severity="info",
            evidence="",
            explanation=f"{join_words(why.reasons)}{', the trials are the same' if about_price(why) else ''}; before: {was}",
            provider=provider,
            workload_kind=now.kind,
            workload=now.workloads[0] if len(now.workloads) == 1 else "",
            subject=FirstChoice.of(now.team, now.kind, now.workloads),
            simulated=now.simulated,
            attributed_to=why.reasons,
            causes=why.short,
            effect=why.effect,
            prices=why.moves,
            since=day.isoformat(),
            instead_of=before.first_name,
        ),
        now,
    )


def _updated(finding: Finding, now: DecisionDocument) -> Finding:
    """The finding with the numbers of this ranking; cause and beginning stay. A choice that noise alone moved is not clear."""
    clear = len(now.eligible) < 2 or (is_clear(now) and WITHIN_NOISE not in finding.causes)
    stays = now.first is not None and now.preference.get("current") == now.first_name
    severity: Severity = "warn" if clear else "info"
    instead = f" instead of {finding.instead_of}" if finding.instead_of and now.first else ""
    return replace(
        finding,
        severity=severity,
        evidence=f"team {now.team}, {now.kind}: {_format_first(now, 'now ')}{instead}",
        title=f"first choice of team {now.team} for {now.kind}: {now.first_name or 'none'}{instead}",
        members=tuple(Member(r.provider, f"{i}. {with_probability(r)}") for i, r in enumerate(now.eligible, 1)),
        moves=(ChoiceMove(now.team, now.kind, finding.instead_of, now.first_name, clear, stays),),
    )


def join_stories(findings: Sequence[Finding], clouds: Mapping[str, str]) -> tuple[Finding, ...]:
    """The findings whose story changed. First choices that one cause moved, and the price that moved, in one region or alike in several of a
    cloud, are one story: one cause, all prices and all moves.

    `findings`: open ones, and of prices settled ones too, which keep what they moved; `clouds`: of declared providers.
    """
    changed = []
    joined = _with_shared_prices(findings, clouds)
    for before, finding in zip(findings, joined, strict=True):
        if FirstChoice.has(finding) and finding.state in ("accepted", "resolved"):
            continue
        of_cause = {
            FirstChoice.choice(f): f
            for f in joined
            if FirstChoice.has(f) and f.causes and f.state != "resolved" and cause_of(f) == cause_of(finding)
        }
        moves = tuple(
            ChoiceMove(
                team,
                kind,
                f.instead_of,
                _first_of(f),
                f.severity != "info",
                any(m.stays for m in f.moves if m.team == team and m.kind == kind),
            )
            for (team, kind, _), f in sorted(of_cause.items())
        )
        over = finding.state in ("accepted", "resolved") and len(moves) < len(finding.moves)  # what it moved once it keeps
        story = finding if over or (FirstChoice.has(finding) and not finding.causes) else replace(finding, moves=moves)
        if story != before:
            changed.append(story)
    return tuple(changed)


def _with_shared_prices(findings: Sequence[Finding], clouds: Mapping[str, str]) -> list[Finding]:
    """With the cloud as the cause where several of its regions took the same change of price, and the prices of all of them."""
    together: dict[str, dict[str, PriceMove]] = {}
    by_cloud = {f.finding_id: PriceFinding().describe(f, clouds.get(f.provider, f.provider)) for f in findings if is_price_change(f)}
    for finding in findings:
        for text in (by_cloud.get(finding.finding_id), *(finding.causes if FirstChoice.has(finding) else ())):
            if text is not None:
                together.setdefault(text, {}).update({p.provider: p for p in finding.prices})
    renamed = {
        PriceFinding().describe(f, f.provider): by_cloud[f.finding_id]
        for f in findings
        if f.finding_id in by_cloud and len(together[by_cloud[f.finding_id]]) > 1
    }
    joined = []
    for finding in findings:
        causes = finding.causes
        if finding.finding_id in by_cloud:
            shared = renamed.get(PriceFinding().describe(finding, finding.provider))
            causes = () if shared is None else (shared,)
        elif about_price(finding):
            causes = tuple(renamed.get(cause, cause) for cause in causes)
        prices = together.get(causes[0]) if causes and about_price(finding) else None
        joined.append(replace(finding, causes=causes, prices=tuple(v for _, v in sorted(prices.items())) if prices else finding.prices))
    return joined


def _format_first(now: DecisionDocument, when: str = "") -> str:
    if now.first is None:
        return "no provider is eligible"
    only = (
        f"{now.first.provider} (only eligible provider)"
        if len(now.eligible) == 1
        else with_certainty(now.first.provider, now.probability, now.bar)
    )
    return f"first choice is {when}{only}"


def _first_of(finding: Finding) -> str | None:
    return finding.members[0].name if finding.members else None


_MOST = 100
"""Decisions that count: the newest since the finding opened."""


def decision_impact(archive: Archive, finding: Finding, since: datetime) -> str:
    """A sentence: the teams whose first choice, or cheapest eligible setup, moved away from the provider since then if it got worse or dearer, or to
    it if it got better or cheaper. Empty without one, and for findings that cannot move decisions."""
    if not type_of(finding).moves_choices:
        return ""
    better = _moved_for_better(finding)
    sentences = [text for course in _courses(archive, since) for text in _moving_criteria(course, finding.provider, better)]
    return "; ".join(dict.fromkeys(sentences))


def _moved_for_better(finding: Finding) -> bool | None:
    """Whether the provider improved; None if unknown."""
    if isinstance(type_of(finding), PriceFinding):
        return None if not finding.effect else finding.effect < 0
    verdict = finding.direction_of(finding.series_key)
    return None if verdict not in ("regressed", "improved") else verdict == "improved"


def _courses(archive: Archive, since: datetime) -> list[tuple[DecisionDocument, PreviousChoice]]:
    """By choice, the newest decision since then, and what was chosen before the first one since then of the same question."""
    by_choice: dict[Choice, list[DecisionDocument]] = {}
    for decision in read_decisions(archive.decisions_page(limit=_MOST, between=(since, None)).rows):
        by_choice.setdefault(decision.choice, []).append(decision)
    courses = []
    for _, decisions in sorted(by_choice.items()):
        followed = [(d, d.before) for d in takewhile(lambda d: d.before is not None, decisions)]
        if followed and (was := followed[-1][1]) is not None:
            courses.append((followed[0][0], was))
    return courses


def _moving_criteria(course: tuple[DecisionDocument, PreviousChoice], provider: str, better: bool | None) -> list[str]:
    def concerned(now: str | None, was: str | None) -> bool:
        # A provider that got worse is not chosen for it: that choice has another cause.
        return now != was and provider in ((now, was) if better is None else (now,) if better else (was,))

    (now, was), sentences = course, []
    if concerned(now.first_name, was.first):
        sentences.append(f"first choice of team {now.team} for {now.kind} changes to {_format_provider(now.first_name, now.probability)}")
    for each in now.cheapest:
        best = each.answer
        cheapest, probability = (best.provider, best.probability_cheapest) if best else (None, None)
        if concerned(cheapest, was.cheapest.get(each.workload)):
            text = _format_provider(cheapest, probability)
            sentences.append(f"cheapest eligible provider for team {now.team} on {each.workload} changes to {text}")
    return sentences


def _format_provider(provider: str | None, probability: float | None) -> str:
    return "none (no provider is eligible)" if provider is None else with_certainty(provider, probability)
