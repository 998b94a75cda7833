"""Places: what one offer does in each of its regions and zones, and what distance does to a client and to data."""

from __future__ import annotations

from typing import Annotated

from fastapi import HTTPException, Query, Request
from fastapi.responses import Response

from plumbline.answers.offer_places import WorkloadPlaces, workload_places
from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with, waits_for
from plumbline.dashboard.site import Site
from plumbline.presentation.offer_places import places_view


def router(site: Site) -> PageRoutes:
    """`/places`."""
    routes = PageRoutes(NavEntry(32, "Places", "/places", under="/workloads"))
    pages, reader, declared = site.pages, site.reader, site.declared

    @routes.page("/places")
    def show_places(request: Request, parts: Parts, workload: Annotated[str, Query(max_length=200)] = "") -> Response:
        money = can_see_costs(request)
        archive, known, today = reader.archive(money), declared.now(), pages.now().date()
        names = sorted({each.workload for each in archive.workload_names()})
        if workload and workload not in names:
            raise HTTPException(404, f'no workload in the archive is called "{workload}"')
        chosen = workload or next(iter(names), "")

        def make() -> WorkloadPlaces:
            return workload_places(archive, declared.now(money), today, chosen)

        waits = bool(waits_for(archive, parts))
        found = site.choices.get_if(waits, archive, known, today, ("places", money, chosen), make) if chosen else None
        view = None if found is None else places_view(found)
        return pages.page(
            request,
            "places.html.j2",
            {"workloads": names, "places": view},
            names=names,
            chosen_workload=chosen,
            view=view,
            later=address_with(request, "all"),
        )

    return routes
