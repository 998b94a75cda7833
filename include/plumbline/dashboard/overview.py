"""What the overview shows: who should run what, every workload on every provider, what waits for somebody, what ran last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from plumbline.archive import Archive, FindingView
from plumbline.dashboard.cells import Cell, age, cells_of
from plumbline.dashboard.folder import report_file
from plumbline.declarations import Declarations
from plumbline.scorecards.inputs import Kind

MOST_FINDINGS, MOST_CAMPAIGNS, LISTED_FINDINGS = 200, 12, 8
KINDS: tuple[Kind, ...] = ("training", "inference")
LOOKED_AT = 12
"""Of a team and kind, so many stored decisions are looked through for each of its choices."""
PROVIDERS = 4
"""Columns of a page: so many fit beside each other, and a page costs as much in a large installation as in a small one."""
LINES = 24
"""Workloads of one kind on a page; the page of each provider has all."""


@dataclass(frozen=True)
class Line:
    kind: str
    workload: str
    version: int
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Winner:
    """The newest stored decision of a team for some workloads of a kind; `winner` None where nobody was eligible, `decided` None where none
    is stored."""

    team: str
    kind: str
    workloads: tuple[str, ...]
    winner: str | None
    probability: float | None
    decided: str | None
    simulated: bool = False


@dataclass(frozen=True)
class CampaignLine:
    """`marks`: sources of its results other than our own measurements."""

    campaign_id: str
    reason: str
    age: str
    marks: tuple[str, ...]
    report: bool


@dataclass(frozen=True)
class Overview:
    """`lines` has the series of `providers` alone; `more` is the last of these providers where others follow."""

    winners: tuple[Winner, ...]
    providers: tuple[str, ...]
    lines: tuple[Line, ...]
    more: str | None
    findings: tuple[FindingView, ...]
    campaigns: tuple[CampaignLine, ...]


def overview(archive: Archive, declared: Declarations, reports: Path, now: datetime, after: str = "") -> Overview:
    """Everything on the page, from the provider that follows `after`. What it reads depends on the providers and lines of one page, not on
    how many there are, nor on how many trials.

    Imported series are no provider of ours: their campaigns are listed, and nothing else of them.
    """
    providers = archive.providers_page(after, PROVIDERS)
    open_ones = archive.findings(state="open", latest=MOST_FINDINGS)
    # Somebody is on an acknowledged one; the series has drifted all the same.
    standing = (*open_ones, *archive.findings(state="acknowledged", latest=MOST_FINDINGS))
    cells = cells_of(archive, declared, archive.series_of(providers.rows), standing, now)
    lines = []
    for kind, workload, version in sorted(cells, key=lambda k: (k[0] != "training", k)):
        own = cells[kind, workload, version]
        lines.append(Line(kind, workload, version, tuple(own.get(p) for p in providers.rows)))
    heads = archive.campaigns_page(limit=MOST_CAMPAIGNS).rows
    marks = archive.marked([c.campaign_id for c in heads])
    return Overview(
        winners=winners(archive, declared, now),
        providers=providers.rows,
        lines=tuple(line for kind in ("training", "inference") for line in [x for x in lines if x.kind == kind][:LINES]),
        more=providers.after,
        findings=tuple(open_ones[:LISTED_FINDINGS]),
        campaigns=tuple(
            CampaignLine(
                c.campaign_id, c.reason, age(c.planned_at, now), marks[c.campaign_id], report_file(reports, c.campaign_id) is not None
            )
            for c in heads
        ),
    )


def winners(archive: Archive, declared: Declarations, now: datetime) -> tuple[Winner, ...]:
    """Of each choice that a team declares, what was decided last."""
    found = []
    for team in declared.teams.values():
        for kind in KINDS:
            asked = [p.workloads for p in team.preferences(kind)]
            last = {
                tuple(d.detail.get("workloads", ())): d for d in reversed(archive.decisions_page(team.name, kind, limit=LOOKED_AT).rows)
            }
            for workloads in asked:
                one = last.get(tuple(workloads))
                when = age(one.decided_at, now) if one is not None else None
                who, sure = (one.winner, one.probability) if one is not None else (None, None)
                made_up = one is not None and bool(one.detail.get("simulated"))
                found.append(Winner(team.name, kind, tuple(workloads), who, sure, when, made_up))
    return tuple(found)


def explanation(detail: Mapping[str, object]) -> str:
    """What a finding is attributed to, in words; empty if nothing explains it."""
    return str(detail.get("explanation") or "")
