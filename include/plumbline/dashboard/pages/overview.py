"""The first page: a status strip, the heat map of providers and workloads, cost against speed, decisions, findings, campaigns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Query, Request
from fastapi.responses import Response

from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.active_runs import ask_airflow
from plumbline.dashboard.filters import Chosen, filter_bar
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with, waits_for
from plumbline.dashboard.site import Site
from plumbline.presentation.heat_map import LEGEND, VIEWS, HeatView
from plumbline.presentation.overview import PAID, overview
from plumbline.presentation.written_reports import REPORT


def router(site: Site) -> PageRoutes:
    """`/`: every workload on every provider."""
    routes = PageRoutes(NavEntry(10, "Overview", "/"))
    pages, reader, declared, fleets, reports, active_runs = (
        site.pages,
        site.reader,
        site.declared,
        site.fleets,
        site.reports,
        site.active_runs,
    )

    @routes.page("/")
    def show_overview(
        request: Request,
        chosen: Chosen,
        parts: Parts,
        view: HeatView = "speed",
        workload: str = Query("", max_length=200),
    ) -> Response:
        money = can_see_costs(request)
        view = view if money or view != "cost" else "speed"
        now, waits = pages.now(), waits_for(reader.archive(), parts)

        def remember(query: tuple[Any, ...], make: Callable[[], Any]) -> Any:
            # What campaigns are paid takes longer than all else: it comes by itself.
            wait = waits == "all" if query[0] == PAID else bool(waits)
            return fleets.get_if(wait, reader.archive(), declared.now(), now.date(), (money, query), make)

        overview_page = overview(
            reader.archive(money),
            declared.now(money),
            reports.names(REPORT),
            now,
            view=view,
            chosen=chosen,
            workload=workload,
            money=money,
            active=ask_airflow(active_runs),
            remember=remember,
        )
        views = [(name, chosen.query(view=name, workload=workload)) for name in VIEWS if money or name != "cost"]
        bar = filter_bar("/", declared.now(), chosen, money, view=view, workload=workload)
        return pages.page(
            request,
            "overview.html.j2",
            overview_page,
            o=overview_page,
            view=view,
            later="" if overview_page.map else address_with(request, "main"),
            paid_later="" if all(c.paid for c in overview_page.campaigns) else address_with(request, "all"),
            chosen=chosen,
            bar=bar,
            views=views,
            legend=LEGEND[view],
        )

    return routes
