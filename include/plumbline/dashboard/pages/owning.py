"""Owning and renting: which way to pay is cheapest at which use, for each served workload that was measured."""

from __future__ import annotations

from fastapi import HTTPException, Request
from fastapi.responses import Response

from plumbline.answers.ways_to_pay import WaysCase, ways_to_pay
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with, waits_for
from plumbline.dashboard.site import Site
from plumbline.presentation.owning import NO_CASE, owning_cases, owning_data, owning_view


def router(site: Site) -> PageRoutes:
    """`/owning`."""
    routes = PageRoutes(NavEntry(82, "Owning and renting", "/owning", under="/spend"), money=True)
    pages, reader, declared = site.pages, site.reader, site.declared

    def cached(wait: bool) -> tuple[WaysCase, ...] | None:
        archive, known, today = reader.archive(), declared.now(), pages.now().date()
        return site.choices.get_if(wait, archive, known, today, "owning", lambda: ways_to_pay(archive, known, today))

    @routes.page("/owning")
    def show_owning(request: Request, parts: Parts, provider: str = "", workload: str = "") -> Response:
        found = cached(bool(waits_for(reader.archive(), parts)))
        listed = owning_cases(found or ())
        # Without a choice the first one that is compared; of a provider or a workload alone its first one.
        fitting = [c for c in listed if provider in ("", c.provider) and workload in ("", c.workload)]
        if found is not None and not fitting and (provider or workload):
            raise HTTPException(404, f"{workload or 'no workload'} on {provider or 'no provider'} has no usable trial to compute with")
        shown = next((c for c in found or () if fitting and (c.provider, c.workload) == (fitting[0].provider, fitting[0].workload)), None)
        return pages.page(
            request,
            "owning.html.j2",
            {"cases": owning_data(found or (), pages.now().date())},
            found=found,
            view=None if shown is None else owning_view(shown),
            compared=[case for case in listed if case.compared],
            apart=[case for case in listed if not case.compared],
            no_case=NO_CASE,
            later=address_with(request, "all"),
        )

    return routes
