"""Driver radar: changes of the environment over the fleet, and what they did on each provider that has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.analysis.drift.environment import FACT_NAMES, Adoption, FactChange, FactReading, fact_changes
from plumbline.archive import FindingView
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.parts import Parts, address_with, waits_for
from plumbline.dashboard.rendering import PageRenderer
from plumbline.dashboard.sources import AnswerCache, ArchiveReader, DeclarationsReader
from plumbline.metrics.formatting import format_change
from plumbline.results.sample import Series

FINDINGS_READ = 1000


@dataclass(frozen=True)
class Effect:
    """A finding that attributes a move to the change. `interval`: empty where none is known."""

    finding_id: str
    workload: str
    metric: str
    change: str
    interval: str


@dataclass(frozen=True)
class AdoptionRow:
    """`together`: other facts that changed on the provider in the same campaign; effects cannot be told apart."""

    adoption: Adoption
    together: tuple[str, ...]
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class ChangeRow:
    """`name`: of the fact; `share`: of the providers that report it, in percent."""

    name: str
    change: FactChange
    share: float
    rows: tuple[AdoptionRow, ...]


def change_rows(changes: Sequence[FactChange], findings: Sequence[FindingView]) -> tuple[ChangeRow, ...]:
    """Each change with the performance findings that name its fact, of the same provider and campaign."""
    values = {(a.provider, a.campaign, c.fact): c.value for c in changes for a in c.adoptions}

    def row(change: FactChange, adoption: Adoption) -> AdoptionRow:
        adopted_values = {
            fact: value
            for (provider, campaign, fact), value in values.items()
            if (provider, campaign) == (adoption.provider, adoption.campaign)
        }
        other_facts = tuple(
            f"{name} {adopted_values[fact]}" for fact, name in FACT_NAMES.items() if fact != change.fact and fact in adopted_values
        )
        return AdoptionRow(adoption, other_facts, tuple(_effect(f) for f in findings if _names_fact(f, change.fact, adoption)))

    order = list(FACT_NAMES)
    return tuple(
        ChangeRow(FACT_NAMES[c.fact], c, 100 * len(c.have) / c.known, tuple(row(c, a) for a in c.adoptions))
        for c in sorted(changes, key=lambda c: (-c.newest.timestamp(), order.index(c.fact), c.value))
    )


def _names_fact(finding: FindingView, fact: str, adoption: Adoption) -> bool:
    is_same_run = (finding.kind, finding.provider, finding.campaign_id) == ("performance", adoption.provider, adoption.campaign)
    return is_same_run and fact in (finding.detail.get("attributed_to") or ())


def _effect(finding: FindingView) -> Effect:
    low, high = (format_change(end) for end in (finding.ci_low, finding.ci_high))
    workload = Series.parse(finding.series_key).workload if finding.series_key else ""
    interval = f"{low} … {high}" if low and high else ""
    return Effect(finding.finding_id, workload, finding.metric or "", format_change(finding.effect), interval)


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader, fleets: AnswerCache) -> APIRouter:
    """`/changes`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/changes", response_class=HTMLResponse)
    def show_changes(request: Request, parts: Parts = "") -> Response:
        money = can_see_costs(request)
        archive, waits = reader.archive(money), waits_for(reader.archive(), parts)
        key = (reader.archive(), declared.now(), pages.now().date(), (money, "changes"))
        changes = fleets.get_if(
            bool(waits), *key, lambda: fact_changes([FactReading(*row) for row in archive.fact_readings(tuple(FACT_NAMES))])
        )
        rows = change_rows(changes, archive.findings(latest=FINDINGS_READ)) if changes else ()
        return pages.page(request, "changes.html.j2", rows=rows, later=address_with(request, "all") if changes is None else "")

    return routes
