"""Decisions as they were stored, as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

from plumbline.archive import DecisionView
from plumbline.reports.figures import chance


@dataclass(frozen=True)
class Kept:
    """A decision as it was stored."""

    decision_id: str
    when: str
    team: str
    kind: str
    workloads: str
    first: str
    chance: str
    instead_of: str
    why: str
    campaigns: tuple[str, ...]


def kept(view: DecisionView) -> Kept:
    """A stored decision as a row; older ones say less of themselves."""
    detail = view.detail
    return Kept(
        decision_id=view.decision_id,
        when=f"{view.decided_at:%Y-%m-%d %H:%M}",
        team=view.team,
        kind=view.kind,
        workloads=" + ".join(detail.get("workloads", ())),
        first=view.winner or "nobody",
        chance=chance(view.probability),
        instead_of=str(detail.get("instead_of") or ""),
        why=str(detail.get("why") or ""),
        campaigns=tuple(sorted({c for own in (detail.get("campaigns") or {}).values() for c in own})),
    )
