"""Payments by month, provider and workload, and their share of each budget."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from plumbline.analysis.cost.budget import sum_limits
from plumbline.analysis.cost.commitments import USE
from plumbline.answers.spend import spend
from plumbline.dashboard.rendering import NavEntry, PageRoutes, base_path
from plumbline.dashboard.site import Site
from plumbline.metrics.formatting import format_amount
from plumbline.presentation.commitments import commitment_table
from plumbline.presentation.spend import NOTE, spend_cells, spend_csv, spend_headings


def router(site: Site) -> PageRoutes:
    """`/spend` and its CSV; `/budgets` is its old address."""
    routes = PageRoutes(NavEntry(80, "Spend", "/spend"), money=True)
    pages, reader, declared = site.pages, site.reader, site.declared

    @routes.page("/spend")
    def show_spend(request: Request) -> Response:
        found = spend(reader.archive(), declared.now(), pages.now())
        return pages.page(
            request,
            "spend.html.j2",
            found.view,
            commitments=commitment_table(found.commitments),
            use=USE,
            spend=found,
            headings=spend_headings(found),
            cells=spend_cells,
            note=NOTE,
            budget_sums=sum_limits(found.balances),
            format_amount=format_amount,
        )

    @routes.get("/spend.csv")
    def send_csv() -> Response:
        found = spend(reader.archive(), declared.now(), pages.now())
        file = f"attachment; filename=spend-{found.months[1]}.csv"
        return Response(spend_csv(found), media_type="text/csv; charset=utf-8", headers={"Content-Disposition": file})

    @routes.get("/budgets")
    def redirect_old_address(request: Request) -> Response:
        return RedirectResponse(f"{base_path(request)}/spend", 308)

    return routes
