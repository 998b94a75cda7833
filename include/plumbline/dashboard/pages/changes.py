"""Driver radar: changes of the environment over the fleet, and what they did on each provider that has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from fastapi import Request
from fastapi.responses import Response

from plumbline.analysis.drift.environment import FACT_NAMES, Adoption, FactChange, FactReading, fact_changes
from plumbline.archive import FindingView
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with, waits_for
from plumbline.dashboard.site import Site
from plumbline.findings.cause import slowdown
from plumbline.findings.types import about_speed
from plumbline.metrics.formatting import format_change
from plumbline.results.finding import UNREADABLE_ERRORS, Finding
from plumbline.results.sample import Series

FINDINGS_READ = 1000


@dataclass(frozen=True)
class EffectLine:
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
    effects: tuple[EffectLine, ...]


@dataclass(frozen=True)
class PooledRow:
    """The finding of the cause, and by provider how many of its series moved and their middle change."""

    finding_id: str
    severity: str
    title: str
    explanation: str
    by_provider: Mapping[str, str]


@dataclass(frozen=True)
class ChangeRow:
    """`name`: of the fact; `share`: of the providers that report it, in percent. `pooled`: the verdict over all providers that have it, once two
    series have."""

    name: str
    change: FactChange
    share: float
    rows: tuple[AdoptionRow, ...]
    pooled: PooledRow | None = None


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

    pooled = _pooled_rows(findings)
    order = list(FACT_NAMES)
    return tuple(
        ChangeRow(
            FACT_NAMES[c.fact],
            c,
            100 * len(c.have) / c.known,
            tuple(row(c, a) for a in c.adoptions),
            pooled.get(f"{FACT_NAMES[c.fact]} {c.value}"),
        )
        for c in sorted(changes, key=lambda c: (-c.newest.timestamp(), order.index(c.fact), c.value))
    )


def _pooled_rows(views: Sequence[FindingView]) -> dict[str, PooledRow]:
    """Rows by changed value, such as `driver 570.86.15`; those that changed performance first."""
    rows: dict[str, PooledRow] = {}
    for view in sorted(views, key=lambda v: not about_speed(v)):
        if not view.detail.get("cause"):
            continue
        with suppress(*UNREADABLE_ERRORS):
            finding = Finding.of(view.detail)
            names = finding.cause.names if finding.cause is not None else ()
            effects: dict[str, list[float]] = defaultdict(list)
            for member in finding.members:
                if member.series_key and (slower := slowdown(member)) is not None:
                    effects[Series.parse(member.series_key).provider].append(slower)
            by_provider = {name: _middle(own) for name, own in effects.items()}
            for name in names:
                rows.setdefault(name, PooledRow(view.finding_id, finding.severity, finding.title, finding.explanation, by_provider))
    return rows


def _middle(slower: Sequence[float]) -> str:
    middle = median(slower)
    return f"{len(slower)} series, the middle one {format_change(abs(middle))[1:]} {'slower' if middle > 0 else 'faster'}"


def _names_fact(finding: FindingView, fact: str, adoption: Adoption) -> bool:
    is_same_run = (finding.kind, finding.provider, finding.campaign_id) == ("performance", adoption.provider, adoption.campaign)
    return is_same_run and fact in (finding.detail.get("attributed_to") or ())


def _effect(finding: FindingView) -> EffectLine:
    low, high = (format_change(end) for end in (finding.ci_low, finding.ci_high))
    workload = Series.parse(finding.series_key).workload if finding.series_key else ""
    interval = f"{low} … {high}" if low and high else ""
    return EffectLine(finding.finding_id, workload, finding.metric or "", format_change(finding.effect), interval)


def router(site: Site) -> PageRoutes:
    """`/changes`."""
    routes = PageRoutes(NavEntry(60, "Changes", "/changes"))
    pages, reader, declared, fleets = site.pages, site.reader, site.declared, site.fleets

    @routes.page("/changes")
    def show_changes(request: Request, parts: Parts) -> Response:
        money = can_see_costs(request)
        archive, waits = reader.archive(money), waits_for(reader.archive(), parts)
        key = (reader.archive(), declared.now(), pages.now().date(), (money, "changes"))
        changes = fleets.get_if(
            bool(waits), *key, lambda: fact_changes([FactReading(*row) for row in archive.fact_readings(tuple(FACT_NAMES))])
        )
        rows = change_rows(changes, archive.findings(latest=FINDINGS_READ)) if changes else ()
        return pages.page(
            request,
            "changes.html.j2",
            {"changes": rows},
            rows=rows,
            several=bool(rows) or len(archive.campaigns(latest=2)) > 1,
            later=address_with(request, "all") if changes is None else "",
        )

    return routes
