"""Decisions that moved to or away from a finding's provider since it opened."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import takewhile
from typing import Any

from plumbline.archive import Archive, DecisionView
from plumbline.findings.decision_change import format_certainty, is_decision_change
from plumbline.results.finding import Finding

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
    better = _better(finding)
    sentences = [text for course in _courses(archive, since) for text in _moved(course, finding.provider, better)]
    return "; ".join(dict.fromkeys(sentences))


def _better(finding: Finding) -> bool | None:
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


def _moved(course: list[DecisionView], provider: str, better: bool | None) -> list[str]:
    def concerned(now: str | None, was: str | None) -> bool:
        # A provider that got worse is not chosen for it: that choice has another cause.
        return now != was and provider in ((now, was) if better is None else (now,) if better else (was,))

    now, was = course[0], course[-1].detail["before"]
    of = f"team {now.team}"
    sentences = []
    if concerned(now.winner, was["first"]):
        sentences.append(f"first choice of {of} for {now.kind} changes to {_named(now.winner, now.probability)}")
    for workload, cheapest, probability in _cheapest(now.detail):
        before = was["cheapest"].get(workload)
        if concerned(cheapest, before):
            sentences.append(f"cheapest eligible provider for {of} on {workload} changes to {_named(cheapest, probability)}")
    return sentences


def _cheapest(detail: Mapping[str, Any]) -> list[tuple[str, str | None, float | None]]:
    """(workload, provider that meets the requirement at the least cost, probability that it is the cheapest)."""
    cheapest = []
    for answer in detail["cheapest"]:
        best = next((setup for setup in answer["setups"] if setup["meets"]), None)
        cheapest.append((answer["workload"], best["provider"] if best else None, best["probability_cheapest"] if best else None))
    return cheapest


def _named(provider: str | None, probability: float | None) -> str:
    if provider is None:
        return "none (no provider is eligible)"
    return f"{provider}{format_certainty(probability)}"
