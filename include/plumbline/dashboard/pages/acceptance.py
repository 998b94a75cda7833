"""Acceptance of delivered nodes: which go back and why, of every provider with one."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response

from plumbline.dashboard.access import can_see_costs
from plumbline.dashboard.deliveries import cached_delivery
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with
from plumbline.dashboard.site import Site
from plumbline.workflows.acceptances import accepted_providers

IMMEDIATE = 2
"""So many deliveries that are not cached yet are waited for: each is of hundreds of documents."""


def router(site: Site) -> PageRoutes:
    """`/acceptance`."""
    routes = PageRoutes(NavEntry(77, "Acceptance", "/acceptance", under="/promises"))
    pages, reader = site.pages, site.reader

    @routes.page("/acceptance")
    def show_acceptances(request: Request, parts: Parts) -> Response:
        money = can_see_costs(request)
        archive = reader.archive(money)
        names = accepted_providers(archive)
        found = {name: cached_delivery(site, archive, money, name, False) for name in names}
        missing = [name for name in names if found[name] is None]
        if parts or len(missing) <= IMMEDIATE:
            found |= {name: cached_delivery(site, archive, money, name, True) for name in missing}
        views = [each[0] for each in found.values() if each is not None and each[0] is not None]
        views.sort(key=lambda view: (-view.returned, view.provider))
        return pages.page(
            request,
            "acceptance.html.j2",
            {"deliveries": views},
            deliveries=views if all(found.values()) else None,
            later=address_with(request, "all"),
        )

    return routes
