"""Rank providers for every team, store decisions with new inputs, and open a finding where the first choice changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decision_record import decision_detail, input_hashes
from plumbline.archive import Archive, DecisionRecord, DecisionView, open_archive
from plumbline.declarations import Declarations, digest, load
from plumbline.findings import Reconciliation
from plumbline.findings.decision_change import DECISION_CHANGE_PREFIX, RankingSnapshot, format_certainty, reconcile_decision
from plumbline.findings.decision_impact import previous_choice
from plumbline.results.finding import Finding
from plumbline.workflows.current_results import decide_teams
from plumbline.workflows.findings import apply, readable_findings

DECISION_AUTHOR = "ranking"
LOCK, PATIENCE_S = "ranking", 600.0
_LOOKED_BACK = 20
"""Stored decisions read at a time while the last one about the same workloads is looked for."""


class DecisionsLocked(RuntimeError):
    """Somebody else ranks, and does not come to an end."""


@dataclass(frozen=True)
class RecordedDecision:
    """One choice of one team. `first`: who ranks first, None if nobody is eligible; `before`: who did by the last stored decision (None:
    nobody, or there is none). `new`: whether it was stored by this run. `findings`: ids of those that this opened, continued or ended."""

    decision_id: str
    team: str
    kind: str
    workloads: tuple[str, ...]
    first: str | None
    probability: float | None
    before: str | None
    new: bool
    findings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """In a line."""
        first = f"{self.first or 'nobody'}{format_certainty(self.probability)}"
        said = f"team {self.team}, {self.kind} {' + '.join(self.workloads)}: first is {first}"
        return said if self.new else f"{said}, as before"


def decide_now(why: str) -> list[RecordedDecision]:
    """The same with the installation's archive and declarations, as of today."""
    with open_archive() as archive:
        return decide_all(archive, load(), datetime.now(timezone.utc).date(), why)


def decide_all(archive: Archive, declared: Declarations, on: date, why: str) -> list[RecordedDecision]:
    """Make every team's decisions as of the day `on`, and keep those whose inputs are new since the last time. What nobody ran is left out.

    `why` it is done, such as "campaign 2026-11 was reported". Busy if another process ranks for longer than ten minutes.
    """
    if not any(team.preferences(kind) for team in declared.teams.values() for kind in ("training", "inference")):
        return []
    with archive.alone(LOCK, PATIENCE_S) as had:
        if not had:
            raise DecisionsLocked("another process has been ranking for ten minutes; expected it to be done: run this again")
        views = [*archive.findings("open"), *archive.findings("acknowledged")]
        standing = [f for f in readable_findings(views) if f.subject.startswith(DECISION_CHANGE_PREFIX)]
        return [
            _store_decision(archive, decided, standing, why) for decided in decide_teams(archive, declared, on) if decided.decision.ranking
        ]


def last_stored(archive: Archive, team: str, kind: str, workloads: Sequence[str]) -> DecisionView | None:
    """The newest stored decision of a team about these workloads; None if there is none."""
    after: str | None = None
    while True:
        page = archive.decisions_page(team, kind, after=after, limit=_LOOKED_BACK)
        for view in page.rows:
            if list(view.detail.get("workloads", ())) == list(workloads):
                return view
        if (after := page.after) is None:
            return None


def _store_decision(archive: Archive, decided: TeamDecision, standing: Sequence[Finding], why: str) -> RecordedDecision:
    decision, workloads, inputs = decided.decision, decided.preference.workloads, input_hashes(decided)
    last = last_stored(archive, decision.team, decision.kind, workloads)
    before = RankingSnapshot.of(last.team, last.kind, last.detail) if last is not None else None
    known = last is not None and before is not None and before.inputs == (inputs["question"], inputs["trials"], inputs["costs"])
    told = dict(last.detail) if last is not None and known else decision_detail(decided)
    now = RankingSnapshot.of(decision.team, decision.kind, told)
    assert now is not None  # what was just written can be read
    # The decision before is part of its name: to come back to earlier inputs is another decision, later in the course.
    after = last.decision_id if last is not None else None
    name = digest({"inputs": inputs, "team": decision.team, "kind": decision.kind, "workloads": workloads, "after": after})
    decision_id = last.decision_id if last is not None and known else name
    course = reconcile_decision(before, now, standing, decided.standing.day, decision_id)
    day = decided.standing.day.isoformat()
    # Before the decision, with the same id each time: a process that dies in between does both again.
    apply(archive, Reconciliation(course.opened), by=DECISION_AUTHOR, seen_in=day)
    if not known:
        same = before is not None and (before.question, before.simulated) == (now.question, now.simulated)
        told |= {"why": why, "after": after, "before": previous_choice(last.detail) if last is not None and same else None}
        told["instead_of"] = before.first if before is not None and same and before.first != now.first else None
        archive.save_decision(DecisionRecord(decision_id, decision.team, decision.kind, now.first, now.probability, told))
    apply(archive, replace(course, opened=()), by=DECISION_AUTHOR, seen_in=day)
    return RecordedDecision(
        decision_id, decision.team, decision.kind, workloads, now.first, now.probability, before.first if before else None, not known,
        tuple(finding.finding_id for finding in course.findings),
    )  # fmt: skip
