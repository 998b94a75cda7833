"""Choices that teams declare, by team, kind and workload."""

from __future__ import annotations

from typing import Literal

from plumbline.declarations.loader import Declarations
from plumbline.declarations.teams import Preference
from plumbline.metrics.formatting import unknown_name

WorkloadKind = Literal["training", "inference"]


def matching_preferences(
    declared: Declarations, team: str | None, kind: WorkloadKind | None, workload: str | None
) -> list[tuple[str, WorkloadKind, Preference]]:
    """(team, kind, preference) of each choice that fits; LookupError if none does."""
    if team is not None and team not in declared.teams:
        raise LookupError(unknown_name("team", team, declared.teams))
    fits: list[tuple[str, WorkloadKind, Preference]] = sorted(declared.choices(team, kind), key=lambda choice: choice[0])
    if workload is not None:
        narrowed = [(name, of, p.model_copy(update={"workloads": (workload,)})) for name, of, p in fits if workload in p.workloads]
        if not narrowed:
            known = "" if workload in declared.workloads else f"{unknown_name('workload', workload, declared.workloads)}; "
            whose = f"team {team}" if team else "no team"
            there = ", ".join(sorted({f"{w} ({name}, {of})" for name, of, p in fits for w in p.workloads})) or "nothing"
            verb = "does not decide" if team else "decides"
            raise LookupError(f"{known}{whose} {verb} about {workload}{f' in {kind}' if kind else ''}; decided about: {there}")
        return narrowed
    if not fits:
        raise LookupError(
            f"{f'team {team}' if team else 'no team'} chooses no provider{f' for {kind}' if kind else ''}; see include/config/teams"
        )
    return fits
