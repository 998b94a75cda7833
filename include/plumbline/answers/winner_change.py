"""The newest change of a first choice among stored decisions, with the repeats that both rest on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from plumbline.analysis.decisions.decision_record import DecisionDocument, read_decisions
from plumbline.analysis.decisions.winner_change import Scatter, StoredChange, explain_change, interval_half, scatter_of
from plumbline.archive import Archive

STORED_LOOKED_BACK = 10


def team_winner_change(archive: Archive, team: str, kind: str, workloads: Sequence[str]) -> StoredChange | None:
    """`last_winner_change` among the newest stored decisions of the team and kind."""
    return last_winner_change(archive, read_decisions(archive.decisions_page(team, kind, limit=STORED_LOOKED_BACK).rows), workloads)


def last_winner_change(archive: Archive, stored: Sequence[DecisionDocument], workloads: Sequence[str]) -> StoredChange | None:
    """The newest of the stored decisions (newest first) with another first provider than the one before on the same workloads."""
    own = [decision for decision in stored if decision.workloads == tuple(workloads) and decision.columns]
    for now, was in pairwise(own):
        if explain_change(was, now) is not None and now.decided_at is not None:
            change = explain_change(was, now, (repeat_scatter(archive, was), repeat_scatter(archive, now)))
            return None if change is None else StoredChange(now.decision_id, now.decided_at, change)
    return None


def repeat_scatter(archive: Archive, decision: DecisionDocument) -> Scatter:
    """Of each number half of the interval: from the archived repeats of the decision's trials; for costs, from the decision's stored intervals."""
    columns = [c for c in decision.columns if c.unit != "USD"]
    names = {c.metric for c in columns}
    trials = {r.provider: r.trials for r in decision.eligible}
    values = archive.repeats_of({t for own in trials.values() for t in own}, names) if names else {}
    scatters: dict[tuple[str, str, str], float] = {}
    for c in columns:
        of = values.get((c.workload, c.metric, c.statistic, c.phase), {})
        for provider, own in trials.items():
            half = scatter_of(c.metric, [of[t] for t in own if t in of])
            if half is not None:
                scatters[provider, c.workload, c.metric] = half
    for answer in decision.cheapest:
        for setup in answer.setups:
            if setup.cost and (half := interval_half(answer.metric, setup.cost, setup.low, setup.high)) is not None:
                scatters[setup.provider, answer.workload, answer.metric] = half
    return scatters
