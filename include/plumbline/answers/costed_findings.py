"""Findings with their cost a month and the teams that they concern."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timezone

from plumbline.answers.claim_marks import ClaimMark, ClaimStanding, claim_marks
from plumbline.answers.monthly_costs import SETTLED, monthly_costs
from plumbline.archive import Archive, FindingView
from plumbline.declarations import Declarations
from plumbline.declarations.teams import KINDS
from plumbline.findings.monthly_cost import MonthlyCost
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.results.finding import UNREADABLE_ERRORS, Finding
from plumbline.results.sample import Series


@dataclass(frozen=True)
class CostedFinding:
    """A finding with its monthly cost. `settled`: the day it was closed, None while open. `teams`: those that use its workloads. `claim`: where
    the claim of what it grants stands, empty of one that grants nothing."""

    finding: Finding
    cost: MonthlyCost
    opened: date
    settled: date | None = None
    teams: tuple[str, ...] = ()
    claim: ClaimStanding = ""


def costed_findings(archive: Archive, declared: Declarations, views: Sequence[FindingView]) -> dict[str, CostedFinding]:
    """Finding's id → the finding with its monthly cost and the teams that use its workloads; one that cannot be read is left out."""
    costs, entries = monthly_costs(archive, declared, views), {}
    marks = claim_marks(archive, [view.finding_id for view in views if view.detail.get("credit")])
    for view in views:
        with suppress(*UNREADABLE_ERRORS):
            entries[view.finding_id] = _entry(declared, view, costs[view.finding_id], marks.get(view.finding_id))
    return entries


def _entry(declared: Declarations, view: FindingView, cost: MonthlyCost, mark: ClaimMark | None) -> CostedFinding:
    finding = Finding.of(view.detail).with_state(view.state)
    workloads = {(s.kind, s.workload) for s in (Series.parse(key) for key in finding.series if key)}
    teams = tuple(
        team.name
        for team in declared.teams.values()
        if any((kind, name) in workloads for kind in KINDS for choice in team.preferences(kind) for name in choice.workloads)
    )
    if FirstChoice.has(finding):
        teams = (FirstChoice.choice(finding)[0],)
    settled = view.updated_at.date() if view.state in SETTLED else None
    return CostedFinding(finding, cost, view.opened_at.date(), settled, teams, _standing(finding, mark))


def _standing(finding: Finding, mark: ClaimMark | None) -> ClaimStanding:
    if finding.credit is None:
        return ""
    if mark is not None:
        return "claimed"
    return "too_late" if finding.credit.lapsed(datetime.now(timezone.utc).date()) else "to_claim"
