"""Availability between campaigns: a month of all providers that are watched."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.checked import month_histories
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with
from plumbline.dashboard.site import Site
from plumbline.launch.plan import PlanError
from plumbline.metrics.time_spans import month_end, month_span
from plumbline.presentation.availability import availability_summary, fleet_month, watched
from plumbline.workflows.rehearse import months_of


def router(site: Site) -> PageRoutes:
    """`/availability`."""
    routes = PageRoutes(NavEntry(76, "Availability", "/availability", under="/promises"))
    pages, declared = site.pages, site.declared

    @routes.page("/availability")
    def show_availability(request: Request, parts: Parts, month: Annotated[str, Query(max_length=7)] = "") -> Response:
        now = pages.now()
        try:
            until = month_end(months_of(month, now)[-1], now) if month else now
        except PlanError as error:
            return pages.refused_query(request, {"month": str(error)})
        providers = {one.name: one for one in watched(declared.now().providers.values())}
        histories = month_histories(site, can_see_costs(request), sorted(providers), until, parts != "")
        complete = {name: found for name, found in histories.items() if found is not None}
        found = fleet_month(until, [(providers[name], own) for name, own in complete.items()])
        before, after = month_span(month_span(until)[0] - timedelta(days=1))[0], month_span(until)[1]
        return pages.page(
            request,
            "availability.html.j2",
            found,
            found=found if len(complete) == len(histories) else None,
            summary=availability_summary(found),
            month=f"{until:%Y-%m}",
            before=f"{before:%Y-%m}",
            after=f"{after:%Y-%m}" if after <= now else "",
            later=address_with(request, "all"),
        )

    return routes
