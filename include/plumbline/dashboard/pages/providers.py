"""The list of providers, and the page of one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import HTTPException, Query, Request
from fastapi.responses import Response

from plumbline.analysis.prices.book import all_with_effective_prices, quote, with_effective_prices
from plumbline.answers.compared_series import compared_series
from plumbline.answers.fleet_year import FleetYear, fleet_lane, fleet_year
from plumbline.answers.monthly_costs import monthly_costs
from plumbline.answers.promises import LAUNCH_CAMPAIGNS
from plumbline.archive import Archive, FindingView, SeriesView
from plumbline.archive.repository import Span
from plumbline.archive.trends import LaunchCounts
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.checked import cached_histories
from plumbline.dashboard.filters import Chosen, filter_bar
from plumbline.dashboard.pages.prices import CurrentPrice, current_prices
from plumbline.dashboard.pages.workloads import cached_rankings, leads
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with, waits_for
from plumbline.dashboard.site import Site
from plumbline.declarations import Declarations, Provider
from plumbline.declarations.dag_ids import UPKEEP_DAG
from plumbline.declarations.promises.judging.launches import launch_share
from plumbline.declarations.promises.launch_success import LaunchSuccess
from plumbline.declarations.promises.provisioning_lead_time import ProvisioningLeadTime
from plumbline.findings.compared import Compared
from plumbline.findings.headline import headline
from plumbline.launch.leftovers import stored_leftovers
from plumbline.metrics.formatting import format_money
from plumbline.presentation.availability import AvailabilityView, availability_view
from plumbline.presentation.charts.fleet import year_chart
from plumbline.presentation.charts.launches import launch_chart, launch_lines, lead_time_chart
from plumbline.presentation.charts.trend import (
    OF_THE_PROVIDER,
    PlottedMetric,
    Trend,
    first_quantity,
    measured_quantities,
    read_trend,
    trend_chart,
)
from plumbline.presentation.events.event import StreamEvent
from plumbline.presentation.filters import RANGE, Filter
from plumbline.presentation.findings_inbox import InboxGroup, count_severities, group_findings, severity_order, unsettled_findings
from plumbline.presentation.promises import declared_promises
from plumbline.presentation.series_summary import SeriesSummary, drifted_series, format_age, series_summaries, shown_state
from plumbline.results.finding import FLEET
from plumbline.results.stored import read_finding

PROVIDERS_PER_PAGE = 20
"""Providers on a page of their list."""
WINDOWS = (12, 24, 60)
"""Campaigns that a trend may look back on: the second, or in a span the last, unless asked otherwise."""
FINDINGS_DRAWN = 60


@dataclass(frozen=True)
class ProviderLine:
    """One provider of the list; `last`: age of its newest campaign, None without one. `findings`: unsettled ones, such as `1 page, 2 warn`."""

    name: str
    place: str
    price: str
    basis: str
    workloads: int
    last: str | None
    findings: str
    marks: tuple[str, ...]


@dataclass(frozen=True)
class ProviderPage:
    """`groups`: unsettled findings, counted in `counts`. `price`: now, and its basis. `launched`: successes of attempts. `last`: age of the newest
    campaign, empty without one. `compared`: of what no finding is open, where there is none. `quantities`: what can be followed of the
    chosen series, by phase. `series` its workloads, the chosen one in `trend`. `terms`: the price in force of each purchase and term;
    empty for a reader without access to costs."""

    name: str
    groups: tuple[InboxGroup, ...]
    counts: str
    price: tuple[str, str]
    launched: str
    last: str
    facts: tuple[tuple[str, str], ...]
    cells: tuple[SeriesSummary, ...]
    series: tuple[SeriesView, ...]
    quantities: tuple[PlottedMetric, ...]
    trend: Trend | None
    launches: tuple[LaunchCounts, ...]
    promised_launches: float | None
    promised_lead_s: float | None
    simulated: bool
    watches: tuple[AvailabilityView, ...]
    compared: Compared
    terms: tuple[CurrentPrice, ...] = ()


def provider_lines(
    archive: Archive, declared: Declarations, now: datetime, after: str, chosen: Filter | None = None
) -> tuple[tuple[ProviderLine, ...], str | None]:
    """A page of providers, those that are declared and those that ever ran, what has the most severe findings first; and the name after which the
    next page begins."""
    chosen = chosen or Filter()
    names = sorted(n for n in {*archive.provider_names(), *declared.providers} if chosen.fits_place(declared, n))
    if chosen.team or chosen.kind or chosen.state or chosen.ranged:
        names = _filter_names(archive, declared, now, names, chosen)
    troubles: dict[str, list[FindingView]] = defaultdict(list)
    for finding in unsettled_findings(archive):
        for name in finding.providers:
            troubles[name].append(finding)
    names.sort(key=lambda name: severity_order(troubles[name]))
    names = names[names.index(after) + 1 if after in names else 0 :]
    page_names = names[:PROVIDERS_PER_PAGE]
    series = archive.series_of(page_names)
    last = archive.last_run(page_names)
    priced = all_with_effective_prices(
        (declared.providers[name] for name in page_names if name in declared.providers), archive.prices(list(page_names))
    )
    series_by_provider = defaultdict[str, list[SeriesView]](list)
    for view in series:
        series_by_provider[view.provider].append(view)
    lines = []
    for name in page_names:
        provider, provider_series = declared.providers.get(name), series_by_provider[name]
        price, basis = _price(priced.get(name), now)
        lines.append(
            ProviderLine(
                name=name,
                place=_place(provider, provider_series),
                price=price,
                basis=basis,
                workloads=len({s.workload for s in provider_series}),
                last=format_age(last[name], now) if name in last else None,
                findings=count_severities(troubles[name]),
                marks=_marks(provider, provider_series),
            )
        )
    return tuple(lines), page_names[-1] if len(names) > PROVIDERS_PER_PAGE else None


def _filter_names(archive: Archive, declared: Declarations, now: datetime, names: Sequence[str], chosen: Filter) -> list[str]:
    """Those of the providers with a series of the team, kind and state whose newest campaign is in the span."""
    begin, end = chosen.span(now)
    series = [s for s in archive.series_of(names) if chosen.fits_workload(declared, s.kind, s.workload)]
    if chosen.state:
        drifted, reviews = drifted_series(unsettled_findings(archive)), archive.newest_reviews([s.series_key for s in series])
    matching_providers = set()
    for part in archive.newest_parts(series) if chosen.state or chosen.ranged else ():
        key = part.series.series_key
        state = shown_state(part.campaign_id, part.planned_at, now, key in drifted, reviews.get(key)).name if chosen.state else ""
        if state == chosen.state and (begin is None or part.planned_at >= begin) and (end is None or part.planned_at < end):
            matching_providers.add(part.series.provider)
    return [n for n in names if n in (matching_providers if chosen.state or chosen.ranged else {s.provider for s in series})]


def provider_page(
    archive: Archive,
    declared: Declarations,
    now: datetime,
    name: str,
    *,
    series_key: str | None,
    workload: str | None,
    quantity: str | None,
    latest: int,
    between: Span = (None, None),
    watches: tuple[AvailabilityView, ...] = (),
    terms: tuple[CurrentPrice, ...] = (),
) -> ProviderPage | None:
    """A provider and one of its metrics over time; None if it is neither declared nor in the archive.

    `series_key`: None is the newest one of the `workload`, else the first one with a finding, else the first. `quantity`: as `name_of` writes it;
    None is the workload's first. `between`: the time of the trend and of the launches. `watches`: what checks
    between campaigns saw.
    """
    provider = declared.providers.get(name)
    series = archive.series_of([name])
    if provider is None and not series:
        return None
    open_findings = [f for f in archive.findings_of([name, FLEET], unsettled=True) if name in f.providers]
    cells = [c for by_provider in series_summaries(archive, declared, series, open_findings, now).values() for c in by_provider.values()]
    order = {c.series_key: i for i, c in enumerate(sorted(cells, key=lambda c: (c.severity not in ("page", "warn"), c.workload)))}
    chosen = next((s for s in series if s.series_key == series_key), None)
    if chosen is None and workload:
        chosen = max((s for s in series if s.workload == workload), key=lambda s: s.version, default=None)
    if chosen is None and series:
        chosen = min(series, key=lambda s: order.get(s.series_key, len(order)))
    priced = None if provider is None else with_effective_prices(provider, archive.prices(provider.name))
    quantities = measured_quantities(archive, chosen) if chosen is not None else ()
    trend = None
    if chosen is not None and quantities:
        chosen_quantity = next((q for q in quantities if quantity_id(q) == quantity), None) or first_quantity(chosen.kind, quantities)
        trend = read_trend(archive, declared, chosen, chosen_quantity, latest, between)
    launches, last = tuple(archive.launches(name, LAUNCH_CAMPAIGNS, between)), archive.last_run([name]).get(name)
    launched = launch_share(sum((Counter(c.ended) for c in launches), Counter()))
    costs = monthly_costs(archive, declared, open_findings)
    return ProviderPage(
        name=name,
        groups=group_findings(open_findings, costs),
        counts=count_severities(open_findings),
        price=_price(priced, now),
        launched=f"{launched.successes} of {launched.n}" if launched.n else "",
        last=format_age(last, now) if last is not None else "",
        facts=_facts(provider, priced, series, now),
        cells=tuple(sorted(cells, key=lambda c: c.workload)),
        series=tuple(series),
        quantities=quantities,
        trend=trend,
        launches=launches,
        promised_launches=LaunchSuccess.promised(provider.sla) if provider is not None else None,
        promised_lead_s=ProvisioningLeadTime.promised(provider.sla) if provider is not None else None,
        simulated=any(s.source == "simulated" for s in series) or (provider is not None and provider.simulated),
        watches=watches,
        compared=Compared(0, 0) if open_findings else compared_series(archive, name),
        terms=terms,
    )


def quantity_id(quantity: PlottedMetric) -> str:
    """A quantity as an address names it."""
    return f"{quantity.metric}.{quantity.statistic}.{quantity.phase}"


def _price(priced: Provider | None, now: datetime) -> tuple[str, str]:
    """`priced`: the provider at accepted prices."""
    if priced is None:
        return "not known", "no longer declared"
    price_quote = quote(priced, now.date())
    if price_quote.basis is None:
        return "not known", price_quote.reason or ""
    return (
        format_money(price_quote.basis.usd_per_hour, "USD/h"),
        f"{price_quote.basis.purchase.replace('_', ' ')}, since {price_quote.basis.since.isoformat()}",
    )


def _place(provider: Provider | None, series: Sequence[SeriesView]) -> str:
    if provider is None:
        return ", ".join(sorted({f"{s.region} · {s.instance_type}" for s in series}))
    return f"{provider.cloud} · {provider.region} · {provider.instance_type}"


def _marks(provider: Provider | None, series: Sequence[SeriesView]) -> tuple[str, ...]:
    marks = []
    if any(s.source == "simulated" for s in series) or (provider is not None and provider.simulated):
        marks.append("simulated")
    if provider is None:
        marks.append("not declared")
    elif not provider.enabled:
        marks.append("disabled")
    return tuple(marks)


def _facts(provider: Provider | None, priced: Provider | None, series: Sequence[SeriesView], now: datetime) -> tuple[tuple[str, str], ...]:
    price, basis = _price(priced, now)
    if provider is None:
        return (("Location", _place(None, series)), ("Price", f"{price}: {basis}"))
    accelerator, budget = provider.accelerator, provider.budget
    amounts = () if budget is None else ((budget.usd_per_month, "USD"), (budget.gpu_hours_per_month, "GPU-hours"))
    limits = [f"{format_money(amount, unit)} a month" for amount, unit in amounts if amount]
    return (
        ("Location", " · ".join(part for part in (provider.cloud, provider.region, provider.zone, provider.instance_type) if part)),
        ("Accelerator", f"{accelerator.count} × {accelerator.product or ('core' if accelerator.kind == 'cpu' else accelerator.kind)}"),
        ("Launcher", f"{provider.launcher.kind}{'' if provider.enabled else ', disabled: no trials planned'}"),
        ("Price now", f"{price}, {basis}" if price != "not known" else f"not known: {basis}"),
        ("Contract", ", ".join(declared_promises(provider.sla)) or "none declared"),
        ("Budget", ", ".join(limits) or "none declared"),
        *_cluster_facts(provider, now),
    )


def _cluster_facts(provider: Provider, now: datetime) -> tuple[tuple[str, str], ...]:
    """The pods of ours on its cluster when the hourly upkeep last counted them."""
    if not provider.launcher.outlasts_task:
        return ()
    counted = stored_leftovers(provider.name)
    if counted is None:
        return (("On the cluster", f"not counted yet: `{UPKEEP_DAG}` counts every hour"),)
    return (("On the cluster", f"{counted}, counted {format_age(datetime.fromisoformat(counted.utc), now)}"),)


def year_events(archive: Archive, trend: Trend | None, year: FleetYear, name: str) -> tuple[StreamEvent, ...]:
    """Changes of the year, oldest first: drifts in words; the environment, prices, outages and deliveries, as beside the trend."""
    planned_times = {head.campaign_id: head.planned_at for head in year.campaigns}
    events = [e for e in (trend.events if trend is not None else ()) if e.kind in OF_THE_PROVIDER]
    for view in archive.findings_page(provider=name, kind="performance", limit=FINDINGS_DRAWN).rows:
        if (finding := read_finding(view)) is not None:
            at, link = planned_times.get(view.campaign_id or "", view.opened_at), f"/findings/{view.finding_id}"
            events.append(StreamEvent(f"finding/{view.finding_id}", at, "finding", "opened", headline(finding), link))
    first = min(planned_times.values(), default=None)
    return tuple(sorted((event for event in events if first is not None and event.at >= first), key=lambda event: event.at))


def router(site: Site) -> PageRoutes:
    """`/providers` and `/providers/{provider}`."""
    routes = PageRoutes(NavEntry(20, "Providers", "/providers"))
    pages, reader, declared, fleets = site.pages, site.reader, site.declared, site.fleets

    @routes.page("/providers")
    def show_providers(request: Request, chosen: Chosen, parts: Parts, after: str = "") -> Response:
        money = can_see_costs(request)
        rankings = cached_rankings(fleets, reader, declared, money, pages.now().date(), parts)
        lines, last_name = provider_lines(reader.archive(money), declared.now(money), pages.now(), after, chosen)
        bar = filter_bar("/providers", declared.now(), chosen, money)
        following = chosen.query(after=last_name) if last_name else ""
        return pages.page(
            request,
            "providers.html.j2",
            {"providers": lines, "leads": leads(rankings or {}), "after": last_name},
            lines=lines,
            leads=leads(rankings or {}),
            later="" if rankings is not None else address_with(request, "all"),
            after=after,
            following=following,
            chosen=chosen,
            bar=bar,
        )

    @routes.page("/providers/{provider}")
    def show_provider(
        request: Request,
        provider: str,
        chosen: Chosen,
        parts: Parts,
        series: str | None = None,
        workload: str | None = None,
        metric: str | None = None,
        campaigns: Annotated[int | None, Query(ge=2, le=max(WINDOWS))] = None,
    ) -> Response:
        money = can_see_costs(request)
        archive, between = reader.archive(money), chosen.span(pages.now())
        waits = waits_for(archive, parts)
        campaigns = campaigns or (WINDOWS[2] if chosen.ranged else WINDOWS[1])
        p = provider_page(
            archive,
            declared.now(money),
            pages.now(),
            provider,
            series_key=series,
            workload=workload,
            quantity=metric,
            latest=campaigns,
            between=between,
            watches=tuple(map(availability_view, cached_histories(site, archive, money, provider))),
            terms=current_prices(archive, declared.now(), provider, pages.now().date()) if money else (),
        )
        if p is None:
            raise HTTPException(404, f'no provider is called "{provider}": not declared and not in the archive')
        # By the days of the span: the cache must not miss with every second.
        key = ("year", chosen.last, chosen.since, chosen.until)
        basis = (archive, declared.now(), pages.now().date(), (money, key))
        year = fleets.get_if(bool(waits), *basis, lambda: fleet_year(archive, between))
        heads = [(head.campaign_id, head.planned_at) for head in year.campaigns] if year is not None else []
        changes = year_events(archive, p.trend, year, provider) if year is not None else ()
        charts = {
            "year": year_chart(provider, heads, year.index, changes) if year is not None else None,
            "trend": trend_chart(p.trend) if p.trend is not None and p.trend.points else None,
            "launches": [
                c for c in (launch_chart(p.launches, p.promised_launches), lead_time_chart(p.launches, p.promised_lead_s)) if c is not None
            ],
        }
        return pages.page(
            request,
            "provider.html.j2",
            p,
            p=p,
            chosen=chosen,
            bar=filter_bar(
                f"/providers/{provider}",
                declared.now(),
                chosen,
                money,
                only=RANGE,
                series=series or "",
                workload=workload or "",
                metric=metric or "",
            ),
            lane=fleet_lane(year, provider) if year is not None else (),
            later=address_with(request, "all") if year is None else "",
            charts=charts,
            changes=changes,
            launches=launch_lines(p.launches),
            following=bool(series or workload or metric),
            name_of=quantity_id,
            windows=WINDOWS,
            campaigns=campaigns,
        )

    return routes
