"""The first page: decisions, every workload on every provider, open findings, newest campaigns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.archive import Archive, FindingView
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.pages.reports import report_file
from plumbline.dashboard.rendering import PageRenderer
from plumbline.dashboard.sources import ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations
from plumbline.presentation.decisions import name_stored_first
from plumbline.presentation.series_summary import SeriesSummary, format_age, series_summaries

MAX_OPEN_FINDINGS, CAMPAIGNS_SHOWN, FINDINGS_SHOWN = 200, 12, 8
KINDS: tuple[WorkloadKind, ...] = ("training", "inference")
DECISIONS_SEARCHED = 12
"""Of a team and kind, so many stored decisions are looked through for each of its choices."""
PROVIDERS_PER_PAGE = 4
"""Columns of a page: so many fit beside each other, and a page costs as much in a large installation as in a small one."""
WORKLOADS_PER_PAGE = 24
"""Workloads of one kind on a page; the page of each provider has all."""


@dataclass(frozen=True)
class WorkloadLine:
    kind: str
    workload: str
    version: int
    cells: tuple[SeriesSummary | None, ...]


@dataclass(frozen=True)
class NewestDecision:
    """The newest stored decision of a team; `winner`: None without an eligible provider, `decided`: None without a stored decision.

    `named`: the winner, or that there is no clear one."""

    team: str
    kind: str
    workloads: tuple[str, ...]
    winner: str | None
    named: str
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

    winners: tuple[NewestDecision, ...]
    providers: tuple[str, ...]
    lines: tuple[WorkloadLine, ...]
    more: str | None
    findings: tuple[FindingView, ...]
    campaigns: tuple[CampaignLine, ...]


def overview(archive: Archive, declared: Declarations, reports: Path, now: datetime, after: str = "") -> Overview:
    """The page of the providers after `after`; reads that page alone. Imported series appear as campaigns only."""
    providers = archive.providers_page(after, PROVIDERS_PER_PAGE)
    open_ones = archive.findings(state="open", latest=MAX_OPEN_FINDINGS)
    standing = (*open_ones, *archive.findings(state="acknowledged", latest=MAX_OPEN_FINDINGS))
    cells = series_summaries(archive, declared, archive.series_of(providers.rows), standing, now)
    lines = []
    for kind, workload, version in sorted(cells, key=lambda k: (k[0] != "training", k)):
        own = cells[kind, workload, version]
        lines.append(WorkloadLine(kind, workload, version, tuple(own.get(p) for p in providers.rows)))
    heads = archive.campaigns_page(limit=CAMPAIGNS_SHOWN).rows
    marks = archive.marked([c.campaign_id for c in heads])
    return Overview(
        winners=newest_decisions(archive, declared, now),
        providers=providers.rows,
        lines=tuple(line for kind in ("training", "inference") for line in [x for x in lines if x.kind == kind][:WORKLOADS_PER_PAGE]),
        more=providers.after,
        findings=tuple(open_ones[:FINDINGS_SHOWN]),
        campaigns=tuple(
            CampaignLine(
                c.campaign_id,
                c.reason,
                format_age(c.planned_at, now),
                marks[c.campaign_id],
                report_file(reports, c.campaign_id) is not None,
            )
            for c in heads
        ),
    )


def newest_decisions(archive: Archive, declared: Declarations, now: datetime) -> tuple[NewestDecision, ...]:
    """The newest stored decision of each declared choice."""
    found = []
    for team in declared.teams.values():
        for kind in KINDS:
            last = {
                tuple(d.detail.get("workloads", ())): d
                for d in reversed(archive.decisions_page(team.name, kind, limit=DECISIONS_SEARCHED).rows)
            }
            for workloads in (p.workloads for p in team.preferences(kind)):
                one = last.get(tuple(workloads))
                when = format_age(one.decided_at, now) if one is not None else None
                who, sure = (one.winner, one.probability) if one is not None else (None, None)
                simulated = one is not None and bool(one.detail.get("simulated"))
                named = name_stored_first(one) if one is not None else ""
                found.append(NewestDecision(team.name, kind, tuple(workloads), who, named, sure, when, simulated))
    return tuple(found)


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, reports: Path) -> APIRouter:
    """`/`: every workload on every provider."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/", response_class=HTMLResponse)
    def show_overview(request: Request, after: str = "") -> Response:
        shown = overview(reader.archive(can_see_costs(request)), declared.now(can_see_costs(request)), reports, pages.now(), after)
        return pages.page(request, "overview.html.j2", o=shown, after=after)

    return routes
