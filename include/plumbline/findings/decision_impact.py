"""Decisions that moved away from, or to, a finding's provider since it was opened."""

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
"""Decisions read at a time, and at most: of a finding that is older than all of these, the latest count."""


def previous_choice(detail: Mapping[str, Any]) -> dict[str, Any]:
    """What the next decision of the same choice remembers of a stored one: who was first, and for each workload the cheapest that met it."""
    first = next((r["provider"] for r in detail["ranking"] if r["eligible"]), None)
    return {"first": first, "cheapest": {name: provider for name, provider, _ in _cheapest(detail)}}


def decision_impact(archive: Archive, finding: Finding, since: datetime) -> str:
    """In a sentence, which teams' first choice, or cheapest setup that meets the requirement, moved away from the finding's provider since
    then where it got worse or dearer, and to it where it got better or cheaper; empty if none did, and for findings that no decision
    follows from."""
    if finding.kind not in CONCERNED or is_decision_change(finding):
        return ""
    better = _better(finding)
    said = [text for course in _courses(archive, since) for text in _moved(course, finding.provider, better)]
    return "; ".join(dict.fromkeys(said))


def _better(finding: Finding) -> bool | None:
    """Whether the provider is the better for it; None where the finding does not tell."""
    if finding.kind == "price":
        return None if not finding.effect else finding.effect < 0
    verdict = finding.direction_of(finding.series_key)
    return None if verdict not in ("regressed", "improved") else verdict == "improved"


def _courses(archive: Archive, since: datetime) -> list[list[DecisionView]]:
    """By choice, the decisions since then that have one before them to be held against, newest first; what came before the question last changed
    is left out."""
    found: dict[tuple[str, str, tuple[str, ...]], list[DecisionView]] = {}
    after: str | None = None
    for _ in range(_MOST // _PAGE):
        page = archive.decisions_page(after=after, limit=_PAGE)
        for view in (view for view in page.rows if view.decided_at >= since and "workloads" in view.detail):
            found.setdefault((view.team, view.kind, tuple(view.detail["workloads"])), []).append(view)
        after = page.after
        if after is None or page.rows[-1].decided_at < since:
            break
    courses = (list(takewhile(lambda view: view.detail.get("before"), views)) for _, views in sorted(found.items()))
    return [course for course in courses if course]


def _moved(course: list[DecisionView], provider: str, better: bool | None) -> list[str]:
    def concerned(now: str | None, was: str | None) -> bool:
        # What fell behind makes nobody choose it: that choice has another cause.
        return now != was and provider in ((now, was) if better is None else (now,) if better else (was,))

    now, was = course[0], course[-1].detail["before"]
    of = f"team {now.team}"
    said = []
    if concerned(now.winner, was["first"]):
        said.append(f"first choice of {of} for {now.kind} changes to {_named(now.winner, now.probability)}")
    for workload, cheapest, probability in _cheapest(now.detail):
        before = was["cheapest"].get(workload)
        if concerned(cheapest, before):
            said.append(f"cheapest eligible provider for {of} on {workload} changes to {_named(cheapest, probability)}")
    return said


def _cheapest(detail: Mapping[str, Any]) -> list[tuple[str, str | None, float | None]]:
    """(workload, provider that meets the requirement at the least cost, probability that it is the cheapest)."""
    found = []
    for answer in detail["cheapest"]:
        best = next((setup for setup in answer["setups"] if setup["meets"]), None)
        found.append((answer["workload"], best["provider"] if best else None, best["probability_cheapest"] if best else None))
    return found


def _named(provider: str | None, probability: float | None) -> str:
    if provider is None:
        return "nobody: no provider is eligible"
    return f"{provider}{format_certainty(probability)}"
