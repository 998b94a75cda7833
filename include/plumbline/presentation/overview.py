"""The first view of an archive: a status strip, the heat map of providers and workloads, cost against speed, decisions, findings, campaigns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from plumbline.analysis.cost.budget import SUMS, BudgetUse, sum_known
from plumbline.analysis.decisions.decision_record import DecisionDocument, read_decisions
from plumbline.analysis.fleet import Fleet, pooled_costs
from plumbline.analysis.scorecards.placings import place
from plumbline.answers.active_runs import ActiveRun
from plumbline.answers.costed_findings import costed_findings
from plumbline.answers.fleet import primary_number, read_fleet
from plumbline.answers.fleet_year import speed_index
from plumbline.answers.ledger import Ledger, read_ledger
from plumbline.answers.monthly_costs import stored_switches
from plumbline.answers.spend import spend_by_campaign
from plumbline.archive import Archive, FindingView, Outcomes
from plumbline.archive.pages import CampaignHead
from plumbline.declarations import Declarations
from plumbline.declarations.teams import CERTAINTY
from plumbline.metrics.formatting import ABSENT, format_amount
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.fleet import cost_against_speed_chart, index_chart
from plumbline.presentation.decisions import DecisionRow, decision_row
from plumbline.presentation.events.kinds.campaign import format_outcome
from plumbline.presentation.filters import Filter
from plumbline.presentation.findings_inbox import (
    MAX_OPEN_FINDINGS,
    InboxGroup,
    count_severities,
    group_findings,
    unsettled_findings,
)
from plumbline.presentation.heat_map import HeatMap, HeatView, SeriesStatus, density_of, heat_map
from plumbline.presentation.series_summary import drifted_series, format_age, shown_state
from plumbline.presentation.status_strip import status_tiles
from plumbline.presentation.tiles import Tile
from plumbline.results.finding import OPEN_STATES

CAMPAIGNS_SHOWN, FINDINGS_SHOWN = 12, 5


TREND_HEIGHT = 300


PAID = "paid"


@dataclass(frozen=True)
class CampaignLine:
    """`marks`: sources of its results other than our own measurements. `findings`: open ones that it showed, such as `1 page, 2 warn`. `outcome`: of
    its trials, in words; `paid`: in USD, of a simulated campaign made up, empty until it is computed."""

    campaign_id: str
    reason: str
    age: str
    marks: tuple[str, ...]
    report: bool
    findings: str
    outcome: str
    paid: str


Paid = Mapping[tuple[str, bool], BudgetUse]
"""(campaign, whether it is simulated) → what its attempts are paid."""


def sum_paid(paid: Paid) -> tuple[tuple[str, str], ...]:
    """(label, USD) of all campaigns together, what is simulated apart."""
    groups = [(label, [use for (_, simulated), use in paid.items() if simulated is made_up]) for label, made_up in SUMS]
    return tuple((label, format_paid(sum_known(own))) for label, own in groups if own)


def format_paid(use: BudgetUse | None) -> str:
    """USD; at least so much where a price is missing, an en dash where all are."""
    if use is None or (use.unpriced and not use.usd):
        return ABSENT
    return ("≥ " if use.unpriced else "") + format_amount(use.usd)


@dataclass(frozen=True)
class Overview:
    """`map`: None until the current results are read; `density`: of the map then, of `expected` providers. `trend`: the year, where the map
    leaves room. `ledger`: the amounts that the tiles add up; None for a reader without access to money."""

    tiles: tuple[Tile, ...]
    map: HeatMap | None
    density: str
    expected: int
    scatter: Chart | None
    trend: Chart | None
    workload: str
    winners: tuple[DecisionRow, ...]
    groups: tuple[InboxGroup, ...]
    open_findings: int
    campaigns: tuple[CampaignLine, ...]
    paid: tuple[tuple[str, str], ...]
    ledger: Ledger | None


def overview(
    archive: Archive,
    declared: Declarations,
    reports: Collection[str],
    now: datetime,
    *,
    view: HeatView = "speed",
    chosen: Filter | None = None,
    workload: str = "",
    money: bool = True,
    active: Sequence[ActiveRun] | None = None,
    remember: Callable[[tuple[Any, ...], Callable[[], Any]], Any] = lambda _, make: make(),
) -> Overview:
    """The page, in a fixed number of statements whatever the number of providers. Imported series appear as campaigns only.

    `reports`: campaigns that have a report.

    `remember`: a cached answer, or what it makes, or None for a page that does not wait for it.
    """
    chosen = chosen or Filter()
    unsettled = unsettled_findings(archive)
    heads = archive.campaigns_page(limit=CAMPAIGNS_SHOWN, between=chosen.span(now)).rows
    campaigns = [head.campaign_id for head in reversed(heads)]
    paid: Paid | None = remember((PAID, tuple(campaigns)), lambda: spend_by_campaign(archive, declared, campaigns)) if money else {}
    drawn_fleet: DrawnFleet | None = remember(
        (view, chosen, workload), lambda: draw_fleet(archive, declared, unsettled, now, view, chosen, workload)
    )
    stored = read_decisions(archive.newest_decisions()) if money else ()
    marks = archive.marked([c.campaign_id for c in heads])
    # The sum is over all of them, also beyond those that the page lists.
    every = unsettled if len(unsettled) < MAX_OPEN_FINDINGS else archive.findings(OPEN_STATES)
    entries = costed_findings(archive, declared, every) if money else {}
    savings = stored_switches(archive, declared, stored) if stored else None
    ledger = read_ledger(archive, declared, entries.values(), savings) if money else Ledger()
    open_findings = [view for view in unsettled if view.state == "open"]
    groups = group_findings(open_findings, {name: entry.cost for name, entry in entries.items()}, ledger)
    tiles = status_tiles(
        unsettled,
        groups[0].lead.words if groups else "",
        drawn_fleet.status if drawn_fleet else None,
        now,
        ledger.total() if money else None,
        ledger.savings,
        drawn_fleet.cheapest if drawn_fleet and money else (),
        active,
        declared,
    )
    expected = sum(chosen.fits_place(declared, name) for name in declared.providers)
    return Overview(
        tiles=tiles,
        map=drawn_fleet.map if drawn_fleet else None,
        density=drawn_fleet.map.density if drawn_fleet else density_of(expected),
        expected=expected,
        scatter=drawn_fleet.scatter if drawn_fleet and money else None,
        trend=drawn_fleet.trend if drawn_fleet else None,
        workload=drawn_fleet.workload if drawn_fleet else workload,
        winners=newest_decisions(stored, declared, now),
        groups=groups[:FINDINGS_SHOWN],
        open_findings=len(open_findings),
        campaigns=_campaign_lines(heads, marks, archive.campaign_outcomes(campaigns), reports, unsettled, paid, now),
        paid=sum_paid(paid or {}),
        ledger=ledger if money else None,
    )


def _campaign_lines(
    heads: Sequence[CampaignHead],
    marks: Mapping[str, tuple[str, ...]],
    outcomes: Mapping[str, Outcomes],
    reports: Collection[str],
    unsettled: Sequence[FindingView],
    paid: Paid | None,
    now: datetime,
) -> tuple[CampaignLine, ...]:
    """Campaigns, the newest first."""
    troubles = {c.campaign_id: [f for f in unsettled if f.shown_by(c.campaign_id)] for c in heads}
    return tuple(
        CampaignLine(
            name := c.campaign_id,
            c.reason,
            format_age(c.planned_at, now),
            marks[name],
            name in reports,
            count_severities(troubles[name]),
            format_outcome(outcomes.get(name, Outcomes())),
            format_paid(paid.get((name, False)) or paid.get((name, True))) if paid is not None else "",
        )
        for c in heads
    )


@dataclass(frozen=True)
class DrawnFleet:
    """The charts of all series. `status`: of the whole fleet, `map` and `scatter` of the chosen part; `workload`: the scatter's.
    `cheapest`: (workload, provider) over all providers, those that teams decide about first."""

    status: Mapping[tuple[str, str], SeriesStatus]
    map: HeatMap
    scatter: Chart | None
    trend: Chart | None
    workload: str
    cheapest: tuple[tuple[str, str], ...]


def draw_fleet(
    archive: Archive,
    declared: Declarations,
    unsettled: Sequence[FindingView],
    now: datetime,
    view: HeatView,
    chosen: Filter,
    workload: str,
) -> DrawnFleet:
    """The heat map, the scatter and the year; as long as no trial, price, state or declaration changes, the same all day."""
    whole_fleet = read_fleet(archive, declared, now.date())
    status = _status(archive, whole_fleet, unsettled, now)
    fleet = _filter_fleet(whole_fleet, declared, chosen, status)
    in_state = {s.workload for s in fleet.series}
    # A workload of which every trial failed or was invalid has a column.
    workloads = in_state | {
        w for (_, w), own in status.items() if own.kind and not chosen.state and chosen.fits_workload(declared, own.kind, w)
    }
    fleet_map = heat_map(
        view,
        fleet.series,
        lambda name: primary_number(declared, name),
        {(p, w): series_status for (p, w), series_status in status.items() if chosen.fits_place(declared, p) and w in workloads},
        now,
        chosen.per,
    )
    names = [column.workload for column in fleet_map.columns if column.workload in in_state]
    charted_workload = workload if workload in names else next((w for w in [*_decided_workloads(declared), *names] if w in names), "")
    scatter = (
        cost_against_speed_chart(fleet.of(charted_workload), primary_number(declared, charted_workload), chosen.per)
        if charted_workload
        else None
    )
    shown = {row.provider for row in fleet_map.rows}
    compared = [head.campaign_id for head in archive.compared_campaigns(CAMPAIGNS_SHOWN, between=chosen.span(now))]
    index = speed_index(archive, compared) if compared and fleet_map.density == "large" else {}
    trend = index_chart({provider: own for provider, own in index.items() if provider in shown}, TREND_HEIGHT)
    return DrawnFleet(status, fleet_map, scatter, trend, charted_workload, _cheapest(whole_fleet, declared))


def _decided_workloads(declared: Declarations) -> list[str]:
    """Those that teams choose for, each team's first one in front."""
    return [w for kind in ("inference", "training") for _, _, p in declared.choices(kind=kind) for w in p.workloads]


def _cheapest(fleet: Fleet, declared: Declarations) -> tuple[tuple[str, str], ...]:
    cheapest = []
    for workload in dict.fromkeys((*_decided_workloads(declared), *sorted({s.workload for s in fleet.series}))):
        placings = place(pooled_costs(fleet.of(workload))[1], lower_is_better=True)
        if placings:
            cheapest.append((workload, placings[0].provider))
    return tuple(cheapest)


def _status(archive: Archive, fleet: Fleet, unsettled: Sequence[FindingView], now: datetime) -> dict[tuple[str, str], SeriesStatus]:
    """The newest campaign of every series, usable or not."""
    places = {(s.provider, s.workload): s.series_key for s in fleet.series}
    views = archive.series_of(archive.provider_names())
    # A provider whose every trial failed has no current result, and a cell all the same.
    parts = archive.newest_by_place([v for v in views if places.get((v.provider, v.workload), v.series_key) == v.series_key])
    rehearsal = all(part.series.source == "simulated" for part in parts.values())
    drifted, reviews = drifted_series(unsettled), archive.newest_reviews([part.series.series_key for part in parts.values()])
    return {
        place: SeriesStatus(
            shown_state(part.campaign_id, part.planned_at, now, part.series.series_key in drifted, reviews.get(part.series.series_key)),
            part.planned_at,
            part.outcomes.usable,
            part.outcomes.planned,
            part.campaign_id,
            part.series.kind if (part.series.source == "simulated") == rehearsal else "",
            part.unusable,
        )
        for place, part in parts.items()
    }


def _filter_fleet(fleet: Fleet, declared: Declarations, chosen: Filter, status: Mapping[tuple[str, str], SeriesStatus]) -> Fleet:
    series = [s for s in fleet.series if chosen.fits_place(declared, s.provider) and chosen.fits_workload(declared, s.kind, s.workload)]
    if chosen.state:
        in_state = {s.provider for s in series if (own := status.get((s.provider, s.workload))) and own.state.name == chosen.state}
        series = [s for s in series if s.provider in in_state]
    return Fleet(tuple(series))


def newest_decisions(stored: Sequence[DecisionDocument], declared: Declarations, now: datetime) -> tuple[DecisionRow, ...]:
    """The newest stored decision of each declared choice, by the bar that its team declares now, or None. `stored`: one of each choice."""
    by_choice = {decision.choice: decision for decision in stored}
    bars = {(team, kind, tuple(preference.workloads)): preference.certainty or CERTAINTY for team, kind, preference in declared.choices()}
    return tuple(
        decision_row(replace(by_choice[choice], bar=bar), now)
        if choice in by_choice
        else DecisionRow(DecisionDocument(*choice), decided=False)
        for choice, bar in bars.items()
    )
