"""Scaling: how long services with a rising load miss their SLO, by workload, the quickest provider first."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response

from plumbline.answers.scaling import ScaledWorkload, scaled_workloads, unscaled_services
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with, waits_for
from plumbline.dashboard.site import Site
from plumbline.presentation.scaling import DECLARE, scaling_charts, scaling_view


def router(site: Site) -> PageRoutes:
    """`/scaling`."""
    routes = PageRoutes(NavEntry(31, "Scaling", "/scaling", under="/workloads"))
    pages, reader, declared = site.pages, site.reader, site.declared

    @routes.page("/scaling")
    def show_scaling(request: Request, parts: Parts) -> Response:
        money = can_see_costs(request)
        archive, known, today = reader.archive(money), declared.now(), pages.now().date()

        def make() -> tuple[ScaledWorkload, ...]:
            return scaled_workloads(archive, declared.now(money), today)

        waits = bool(waits_for(archive, parts))
        found = site.choices.get_if(waits, archive, known, today, ("scaling", money), make)
        views = [scaling_view(each, money) for each in found or ()]
        unscaled = unscaled_services(known)
        return pages.page(
            request,
            "scaling.html.j2",
            {"workloads": views, "unscaled": unscaled},
            found=found,
            views=[(view, scaling_charts(each)) for view, each in zip(views, found or (), strict=True)],
            unscaled=unscaled,
            declare=DECLARE,
            later=address_with(request, "all"),
        )

    return routes
