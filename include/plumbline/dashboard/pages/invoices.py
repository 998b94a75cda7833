"""Invoices that were compared with held hours and accepted prices: what agrees, what differs and what is not shown."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response

from plumbline.dashboard.rendering import NavEntry, PageRoutes
from plumbline.dashboard.site import Site
from plumbline.presentation.invoices import COLUMNS, COMPARE, DIFFERENCE_COLUMNS, difference_cells, invoice_cells, invoice_list


def router(site: Site) -> PageRoutes:
    """`/invoices`."""
    routes = PageRoutes(NavEntry(81, "Invoices", "/invoices", under="/spend"), money=True)

    @routes.page("/invoices")
    def show_invoices(request: Request) -> Response:
        found = invoice_list(site.reader.archive(), site.declared.now())
        return site.pages.page(
            request,
            "invoices.html.j2",
            found,
            found=found,
            columns=COLUMNS,
            cells=invoice_cells,
            difference_columns=DIFFERENCE_COLUMNS,
            difference_cells=difference_cells,
            compare=COMPARE,
        )

    return routes
