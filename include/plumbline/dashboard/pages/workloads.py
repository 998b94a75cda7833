"""The list of workloads, and the page of one: all providers by their place, the first ones side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from fastapi import HTTPException, Request
from fastapi.responses import Response

from plumbline.analysis.cost.unit_costs import phase_of
from plumbline.analysis.decisions.current_results import CurrentResults, ExcludedSeries
from plumbline.analysis.fleet import COST_UNITS, CostUnit, pooled
from plumbline.analysis.prices.book import Quote, quote
from plumbline.analysis.scorecards.scorecard import Scorecard, primary_of, scorecards
from plumbline.analysis.trial_sample import TrialSample
from plumbline.answers.current_results import current_results
from plumbline.answers.fleet import primary_number, read_fleet
from plumbline.answers.service_record import service_records
from plumbline.archive import Archive, FindingView
from plumbline.archive.pages import SeriesResult, WorkloadName
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.filters import Chosen, filter_bar
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, Waiting, address_with, waits_for
from plumbline.dashboard.site import Site
from plumbline.dashboard.sources import AnswerCache, ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations
from plumbline.metrics.pooling import Pooled, pool
from plumbline.presentation.card_tables import CardTable, NumberKey, card_tables, row_keys
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.fleet import cost_against_speed_chart
from plumbline.presentation.charts.scorecards import headline_charts
from plumbline.presentation.charts.workload_trend import WorkloadTrend, workload_trend
from plumbline.presentation.costs import CostRow, cost_rows
from plumbline.presentation.findings_inbox import count_severities, severity_order, unsettled_findings, workloads_of
from plumbline.presentation.heat_map import WorkloadRanking, rank_fleet
from plumbline.presentation.imported_runs import ImportedRun, imported_runs
from plumbline.presentation.scorecard_rows import CriterionRow, ScorecardRows, criterion_rows, scorecard_rows
from plumbline.presentation.series_summary import format_age
from plumbline.words.costs import trial_data
from plumbline.words.programs import declared_numbers, program_text

PROVIDERS_PER_PAGE = 5
"""Providers beside each other; the next ones have a page of their own."""
MAX_PROVIDERS = 1000
Remember = Callable[[Hashable, Callable[[], Any]], Any]
"""(query, make) → the answer, made once as long as nothing changes."""


@dataclass(frozen=True)
class WorkloadPage:
    """The content of a workload's page. `version`: None without results. `program`: what a workload of a team's own runs; `numbers`: those that it declares. `ranked`: all providers; `scatter`: their cost against speed. `order`: of the pages of providers side by side, also
    those without a place."""

    name: str
    kind: str
    version: int | None
    description: str
    program: str
    numbers: tuple[str, ...]
    ranked: WorkloadRanking
    scatter: Chart | None
    order: tuple[str, ...]
    simulated: bool
    teams: tuple[str, ...]

    def providers_after(self, after: str) -> tuple[str, ...]:
        """Providers on the page after the provider `after`; the first ones without it."""
        start = self.order.index(after) + 1 if after in self.order else 0
        return self.order[start : start + PROVIDERS_PER_PAGE]


@dataclass(frozen=True)
class SourceTrials:
    """The trials of one provider that the page's numbers come from, by campaign."""

    provider: str
    campaign_id: str
    measured: datetime
    trials: tuple[TrialSample, ...]


@dataclass(frozen=True)
class SideBySide:
    """A few providers of one workload. `table`, `rows`: None where none of them has a usable trial. `imported`: runs of other tools, on the
    first page. `unusable`: newest campaigns without a usable trial. `trend`: of the workload's first number."""

    providers: tuple[str, ...]
    table: CardTable | None
    rows: ScorecardRows | None
    criteria: tuple[CriterionRow, ...]
    costs: tuple[CostRow, ...]
    quotes: dict[str, Quote]
    charts: tuple[Chart, ...]
    behind: tuple[SourceTrials, ...]
    imported: tuple[ImportedRun, ...]
    left_out: tuple[ExcludedSeries, ...]
    unusable: tuple[SeriesResult, ...]
    trend: WorkloadTrend

    @property
    def criteria_judged(self) -> int:
        return sum(v is not None for row in self.criteria for v in row.verdicts)

    @property
    def criteria_passed(self) -> int:
        return sum(v is not None and v.outcome == "pass" for row in self.criteria for v in row.verdicts)


def _side_data(found: SideBySide) -> dict[str, Any]:
    """The fields of providers side by side for JSON, what trials' costs include in words."""
    behind = [{**vars(of), "trials": [trial_data(each) for each in of.trials]} for of in found.behind]
    return {**vars(found), "behind": behind}


@dataclass(frozen=True)
class WorkloadLine:
    """One workload of the list, by its newest version. `ran`: ever here; `teams`: those that ask for it; `findings`: open ones, such as `1 page`."""

    name: WorkloadName
    ran: bool
    teams: tuple[str, ...]
    findings: str


def workload_lines(archive: Archive, declared: Declarations) -> list[WorkloadLine]:
    """Every workload that ran here or is declared, of each kind those with the most severe open findings first."""
    ran = archive.workload_names()
    newest = {(w.kind, w.workload): w for w in sorted(ran, key=lambda w: w.version)}
    known = {(str(w.kind), w.name): WorkloadName(w.kind, w.name, w.version) for w in declared.workloads.values()}
    troubles: dict[str, list[FindingView]] = defaultdict(list)
    for finding in unsettled_findings(archive):
        for workload in workloads_of(finding):
            troubles[workload].append(finding)
    ordered = sorted(
        {**known, **newest}.items(),
        key=lambda item: (item[0][0] != "training", item[0] not in newest, severity_order(troubles[item[0][1]]), item[0][1]),
    )
    return [WorkloadLine(name, key in newest, _teams(declared, key[1]), count_severities(troubles[key[1]])) for key, name in ordered]


def read_rankings(archive: Archive, declared: Declarations, on: date) -> dict[str, tuple[WorkloadRanking, datetime]]:
    """Workload → its providers by their place, and when its newest results were planned for."""
    fleet = read_fleet(archive, declared, on)
    by_workload = {name: fleet.of(name) for name in dict.fromkeys(s.workload for s in fleet.series)}
    return {name: (rank_fleet(own, primary_number(declared, name)), max(s.planned_at for s in own)) for name, own in by_workload.items()}


def cached_rankings(
    fleets: AnswerCache, reader: ArchiveReader, declared: DeclarationsReader, money: bool, today: date, parts: Waiting
) -> dict[str, tuple[WorkloadRanking, datetime]] | None:
    """The same; None if the page does not wait for it."""
    return fleets.get_if(
        bool(waits_for(reader.archive(), parts)),
        *(reader.archive(), declared.now(), today, (money, "rankings")),
        lambda: read_rankings(reader.archive(money), declared.now(money), today),
    )


def leads(rankings: Mapping[str, tuple[WorkloadRanking, datetime]]) -> dict[str, dict[str, list[str]]]:
    """`best` and `cheapest` → provider → the workloads on which it is."""
    found: dict[str, dict[str, list[str]]] = {"best": defaultdict(list), "cheapest": defaultdict(list)}
    for workload, (ranking, _) in sorted(rankings.items()):
        for name, line in (("best", ranking.best), ("cheapest", ranking.cheapest)):
            if line is not None:
                found[name][line.provider].append(workload)
    return found


def workload_page(archive: Archive, declared: Declarations, on: date, name: str, per: CostUnit) -> WorkloadPage | None:
    """A workload and every provider's place on it; None if it is neither declared nor in the archive."""
    spec = declared.workloads.get(name)
    ran = archive.providers_of(name, MAX_PROVIDERS)
    if spec is None and not ran:
        return None
    fleet = read_fleet(archive, declared, on, workload=name).of(name)
    primary = primary_number(declared, name)
    ranked = rank_fleet(fleet, primary, per)
    placed = [line.provider for line in ranked.lines]
    return WorkloadPage(
        name=name,
        kind=fleet[0].kind if fleet else spec.kind if spec is not None else "",
        version=fleet[0].version if fleet else None,
        description=spec.description if spec is not None else "no longer declared",
        program=program_text(spec) if spec is not None else "",
        numbers=declared_numbers(spec) if spec is not None else (),
        ranked=ranked,
        scatter=cost_against_speed_chart(fleet, primary, per),
        # Without a usable number a provider has no place, but a reason.
        order=(*placed, *(p for p in ran if p not in placed)),
        simulated=any(s.simulated for s in fleet),
        teams=_teams(declared, name),
    )


def side_by_side(archive: Archive, declared: Declarations, on: date, w: WorkloadPage, after: str, remember: Remember) -> SideBySide:
    """The providers that follow `after` in order of their places."""
    columns = w.providers_after(after)
    results = current_results(archive, declared, on, workloads=[w.name], providers=columns)
    cards = scorecards(
        results.trials,
        acceptance={spec.name: spec.acceptance for spec in results.workloads.values()},
        providers=results.providers,
        primaries={spec.name: primary_of(spec) for spec in results.workloads.values()},
    )
    keys = row_keys(cards)
    numbers = remember(("numbers", w.name, keys), lambda: _fleet_numbers(archive, declared, on, w.name, keys))
    table = next(iter(card_tables(cards, numbers, w.order)), None)
    places = tuple(c.provider for c in table.cards) if table is not None else ()
    quotes = {name: quote(provider, on, results.purchase) for name, provider in results.providers.items()}
    service = service_records(archive, results.providers, (day for c in cards for day in (c.first, c.last) if day is not None))
    parts = archive.newest_by_place(archive.series_of(columns, workload=w.name))
    # Another version is another workload.
    followed = [parts[p, w.name].series for p in columns if (p, w.name) in parts and w.version in (None, parts[p, w.name].series.version)]
    return SideBySide(
        providers=places,
        table=table,
        rows=next(iter(scorecard_rows(cards, declared.references, results.providers, results.workloads, w.order, service)), None),
        criteria=criterion_rows(table.cards) if table is not None else (),
        costs=cost_rows(cards, places, quotes),
        quotes=quotes,
        charts=headline_charts(table.cards) if table is not None else (),
        behind=_source_trials(results, w.name, places),
        imported=() if after else _imported(archive, declared, on, w.name, columns, cards),
        left_out=results.left_out,
        unusable=tuple(parts[p, w.name] for p in columns if (p, w.name) in parts and parts[p, w.name].unusable),
        trend=workload_trend(archive, declared, followed, primary_number(declared, w.name), places),
    )


def _fleet_numbers(
    archive: Archive, declared: Declarations, day: date, name: str, keys: Collection[NumberKey]
) -> dict[NumberKey, dict[str, Pooled]]:
    """Each of these numbers of every provider. Costs that rest on the time that a trial held its provider are in no table and left out."""
    fleet = read_fleet(archive, declared, day, workload=name, metrics={(metric, statistic) for metric, statistic, _ in keys}).of(name)
    numbers = {key: pooled(fleet, *key) for key in keys}
    costs = {s.provider: s.costs() for s in fleet}
    # A hosted model's costs follow from tokens, not from rates: beside one, no cost has a leader.
    priced = all(s.price is not None for s in fleet)
    for metric in {metric for series_costs in costs.values() for metric in series_costs} if priced else ():
        numbers[metric, "value", phase_of(metric)] = {
            p: pool(series_costs[metric]) for p, series_costs in costs.items() if metric in series_costs
        }
    return numbers


def _imported(
    archive: Archive, declared: Declarations, on: date, name: str, providers: Sequence[str], cards: Sequence[Scorecard]
) -> tuple[ImportedRun, ...]:
    """Runs of other tools, beside the cards of this page's `providers` and of any other provider that they are of."""
    results = archive.imported_files(name)
    other_providers = sorted({result.provider for result in results} - set(providers))
    other_results = current_results(archive, declared, on, workloads=[name], providers=other_providers) if other_providers else None
    return imported_runs(
        results,
        (*cards, *(scorecards(other_results.trials, providers=other_results.providers) if other_results else ())),
        declared.workloads,
    )


def _source_trials(results: CurrentResults, workload: str, providers: Sequence[str]) -> tuple[SourceTrials, ...]:
    return tuple(
        SourceTrials(
            provider=p,
            campaign_id=results.campaigns[p, workload],
            measured=results.measured[p, workload],
            trials=tuple(t for t in results.trials if t.provider == p),
        )
        for p in providers
    )


def _teams(declared: Declarations, workload: str) -> tuple[str, ...]:
    return tuple(sorted({team for team, _, preference in declared.choices() if workload in preference.workloads}))


def router(site: Site) -> PageRoutes:
    """`/workloads` and `/workloads/{workload}`."""
    routes = PageRoutes(NavEntry(30, "Workloads", "/workloads"))
    pages, reader, declared, fleets = site.pages, site.reader, site.declared, site.fleets

    @routes.page("/workloads")
    def show_workloads(request: Request, chosen: Chosen, parts: Parts) -> Response:
        money, today = can_see_costs(request), pages.now().date()
        rankings = cached_rankings(fleets, reader, declared, money, today, parts)
        all_lines = workload_lines(reader.archive(money), declared.now(money))
        lines = [line for line in all_lines if chosen.fits_workload(declared.now(), line.name.kind, line.name.workload)]
        return pages.page(
            request,
            "workloads.html.j2",
            {"workloads": lines, "rankings": rankings},
            lines=lines,
            rankings=rankings or {},
            later="" if rankings is not None else address_with(request, "all"),
            chosen=chosen,
            bar=filter_bar("/workloads", declared.now(), chosen, money),
            format_age=format_age,
        )

    @routes.page("/workloads/{workload}")
    def show_workload(request: Request, workload: str, chosen: Chosen, parts: Parts, after: str = "") -> Response:
        money, today, declarations = can_see_costs(request), pages.now().date(), declared.now()
        basis, archive, visible_declarations = (reader.archive(), declarations, today), reader.archive(money), declared.now(money)

        def remember(query: Hashable, make: Callable[[], Any]) -> Any:
            return fleets.get(*basis, (money, query), make)

        w: WorkloadPage | None = remember(
            ("workload", workload, chosen.per), lambda: workload_page(archive, visible_declarations, today, workload, chosen.per)
        )
        if w is None:
            raise HTTPException(404, f'no workload is called "{workload}": not declared and not in the archive')
        comparison = fleets.get_if(
            bool(waits_for(basis[0], parts)),
            *basis,
            (money, ("beside", workload, after)),
            lambda: side_by_side(archive, visible_declarations, today, w, after, remember),
        )
        columns = w.providers_after(after)
        return pages.page(
            request,
            "workload.html.j2",
            {"workload": w, "side_by_side": None if comparison is None else _side_data(comparison)},
            w=w,
            s=comparison,
            later="" if comparison is not None else address_with(request, "all"),
            columns=columns,
            more=columns[-1] if columns and columns[-1] != w.order[-1] else "",
            after=after,
            chosen=chosen,
            units=[(unit, chosen.query(per=unit)) for unit in COST_UNITS],
            format_age=format_age,
        )

    return routes
