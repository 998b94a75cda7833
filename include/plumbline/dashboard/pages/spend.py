"""Payments by month, provider and workload, and their share of each budget."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from plumbline.analysis.cost.budget import sum_limits
from plumbline.analysis.cost.commitments import USE
from plumbline.answers.spend import Spend, spend
from plumbline.dashboard.rendering import NavEntry, PageRoutes, Parts, address_with, base_path, waits_for
from plumbline.dashboard.site import Site
from plumbline.metrics.formatting import format_amount
from plumbline.presentation.commitments import commitment_table
from plumbline.presentation.spend import spend_cells, spend_csv, spend_headings, spend_tiles


def router(site: Site) -> PageRoutes:
    """`/spend` and its CSV; `/budgets` is its old address."""
    routes = PageRoutes(NavEntry(80, "Spend", "/spend"), money=True)
    pages, reader, declared = site.pages, site.reader, site.declared

    def cached(wait: bool) -> Spend | None:
        archive, known, now = reader.archive(), declared.now(), pages.now()
        return site.choices.get_if(wait, archive, known, now.date(), "spend", lambda: spend(archive, known, now))

    @routes.page("/spend")
    def show_spend(request: Request, parts: Parts) -> Response:
        found = cached(bool(waits_for(reader.archive(), parts)))
        return pages.page(
            request,
            "spend.html.j2",
            found.view if found is not None else None,
            commitments=commitment_table(found.commitments) if found is not None else (),
            use=USE,
            spend=found,
            tiles=spend_tiles(found) if found is not None else (),
            headings=spend_headings(found) if found is not None else (),
            cells=spend_cells,
            later=address_with(request, "all"),
            budget_sums=sum_limits(found.balances) if found is not None else (),
            format_amount=format_amount,
        )

    @routes.get("/spend.csv")
    def send_csv() -> Response:
        found = cached(True)
        assert found is not None  # it was waited for
        file = f"attachment; filename=spend-{found.months[1]}.csv"
        return Response(spend_csv(found), media_type="text/csv; charset=utf-8", headers={"Content-Disposition": file})

    @routes.get("/budgets")
    def redirect_old_address(request: Request) -> Response:
        return RedirectResponse(f"{base_path(request)}/spend", 308)

    return routes
