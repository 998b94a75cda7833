"""Rank providers for every team, store decisions with new inputs, and open a finding where the first choice changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timezone

from plumbline.analysis.decisions.current_results import TeamDecision
from plumbline.analysis.decisions.decision_record import input_hashes, read_decision
from plumbline.answers.current_results import decide_teams
from plumbline.answers.findings import readable_findings
from plumbline.answers.winner_change import repeat_scatter
from plumbline.archive import Archive, DecisionRecord, DecisionView, open_archive
from plumbline.declarations import Declarations, digest, load_in_force
from plumbline.findings import Reconciliation
from plumbline.findings.decision_change import join_stories, reconcile_decision
from plumbline.findings.types import about_price
from plumbline.findings.types.first_choice import FirstChoice
from plumbline.findings.types.price_change import PriceFinding
from plumbline.results.document import MACHINE_BUSY
from plumbline.results.finding import OPEN_STATES, Finding
from plumbline.words.decision_record import decision_detail, decision_document
from plumbline.words.decisions import with_certainty
from plumbline.workflows.findings import apply, finding_record

DECISION_AUTHOR = "ranking"
LOCK, PATIENCE_S = "ranking", 600.0


class DecisionsLocked(RuntimeError):
    """Another process holds the decision lock."""


@dataclass(frozen=True)
class RecordedDecision:
    """One choice of one team. `first`: None if no provider is eligible; `before`: the first of the last stored decision, None without one.
    `new`: whether this run stored it. `findings`: ids of those that this run opened, continued or resolved."""

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
        first = f"first is {with_certainty(self.first, self.probability)}" if self.first else "no provider is eligible"
        return f"team {self.team}, {self.kind} {' + '.join(self.workloads)}: {first}{'' if self.new else ', as before'}"


def decide_now(why: str, campaign_id: str | None = None) -> list[RecordedDecision]:
    """`decide_all` with the installation's archive and declarations, as of today; not about workloads that a busy machine spoilt in the campaign."""
    with open_archive() as archive:
        trials = archive.trials(campaign_id) if campaign_id is not None else ()
        spoilt = {t.workload for t in trials if any(reason.code == MACHINE_BUSY for reason in t.quality_reasons)}
        return decide_all(archive, load_in_force(), datetime.now(timezone.utc).date(), why, spoilt)


def decide_all(archive: Archive, declared: Declarations, on: date, why: str, spoilt: Set[str] = frozenset()) -> list[RecordedDecision]:
    """Make every team's decisions as of the day `on`, and store those with new inputs; choices without results are skipped.

    `why`: the occasion, such as "the report of 2026-11"; `spoilt`: workloads about which nothing is decided now. DecisionsLocked if another process holds the lock for ten minutes.
    """
    if not any(team.preferences(kind) for team in declared.teams.values() for kind in ("training", "inference")):
        return []
    with archive.alone(LOCK, PATIENCE_S) as had:
        if not had:
            raise DecisionsLocked("another process has held the decision lock for 10 minutes; run the command again later")
        open_findings = [f for f in _open_findings(archive) if FirstChoice.has(f)]
        clouds = {provider.name: provider.cloud for provider in declared.providers.values()}
        recorded = [
            _store_decision(archive, decided, open_findings, why, clouds)
            for decided in decide_teams(archive, declared, on)
            if decided.decision.ranking and spoilt.isdisjoint(decided.decision.workloads)
        ]
        # Last, and of all that is open: what a crashed run left apart is joined by the next one.
        archive.restate_findings([finding_record(finding) for finding in join_stories(_stories(archive, clouds), clouds)])
        return recorded


def _stories(archive: Archive, clouds: Mapping[str, str]) -> list[Finding]:
    """Open first choices and prices, with all that was ever found about prices of the same clouds: an accepted price has moved what is open now."""
    unsettled = [f for f in _open_findings(archive) if FirstChoice.has(f) or PriceFinding.has(f)]
    concerned = {clouds.get(f.provider, f.provider) for f in unsettled if about_price(f)}
    names = [name for name, cloud in clouds.items() if cloud in concerned]
    known = {f.finding_id for f in unsettled}
    return unsettled + [f for f in readable_findings(archive.findings_of(names, "price")) if f.finding_id not in known]


def _open_findings(archive: Archive) -> list[Finding]:
    return readable_findings(archive.findings(OPEN_STATES))


def last_stored(archive: Archive, team: str, kind: str, workloads: Sequence[str]) -> DecisionView | None:
    """The newest stored decision of a team about these workloads."""
    return next(iter(archive.newest_decisions(team, kind, workloads)), None)


def _store_decision(
    archive: Archive, decided: TeamDecision, open_findings: Sequence[Finding], why: str, clouds: Mapping[str, str]
) -> RecordedDecision:
    inputs = input_hashes(decided)
    last = last_stored(archive, decided.decision.team, decided.decision.kind, decided.preference.workloads)
    before = read_decision(last) if last is not None else None
    known = before is not None and before.inputs == inputs
    now = before if before is not None and known else decision_document(decided)
    # The decision before is part of the id: a return to earlier inputs is another decision.
    after = last.decision_id if last is not None else None
    name = digest({"inputs": asdict(inputs), "team": now.team, "kind": now.kind, "workloads": now.workloads, "after": after})
    decision_id = now.decision_id or name
    moved = before is not None and before.first_name != now.first_name
    scatter = (repeat_scatter(archive, before), repeat_scatter(archive, now)) if before is not None and moved else ({}, {})
    reconciliation = reconcile_decision(before, now, open_findings, decided.current.day, decision_id, clouds, scatter)
    day = decided.current.day.isoformat()
    # Before the decision, with the same id each time: after a crash in between both are repeated.
    apply(archive, Reconciliation(reconciliation.opened), by=DECISION_AUTHOR, seen_in=day)
    if not known:
        same = before is not None and before.question == now.question
        instead_of = before.first_name if before is not None and same and moved else None
        now = replace(now, why=why, after=after, before=before.as_previous if before is not None and same else None, instead_of=instead_of)
        archive.save_decision(DecisionRecord(decision_id, now.team, now.kind, now.first_name, now.probability, decision_detail(now)))
    apply(archive, replace(reconciliation, opened=()), by=DECISION_AUTHOR, seen_in=day)
    return RecordedDecision(
        decision_id, now.team, now.kind, now.workloads, now.first_name, now.probability, before.first_name if before else None, not known,
        tuple(finding.finding_id for finding in reconciliation.findings),
    )  # fmt: skip
