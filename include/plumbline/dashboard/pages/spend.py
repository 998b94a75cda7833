"""What is paid by month, provider and workload, and how much of each budget it uses."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from plumbline.analysis.cost.budget import Balance
from plumbline.dashboard.rendering import PageRenderer, base_path
from plumbline.dashboard.sources import ArchiveReader, DeclarationsReader
from plumbline.metrics.formatting import format_amount
from plumbline.workflows.spend import NOTE, spend, spend_csv


@dataclass(frozen=True)
class Limit:
    """One limit of a provider. `share`: used part, 0…1; None if the cost is unknown."""

    unit: str
    limit: str
    used: str
    left: str
    share: float | None


@dataclass(frozen=True)
class BudgetRow:
    provider: str
    limits: tuple[Limit, ...]
    unpriced: str | None


def _row(balance: Balance) -> BudgetRow:
    sides = (
        ("GPU-hours", balance.budget.gpu_hours_per_month, balance.used.gpu_hours, balance.gpu_hours_left),
        ("USD", balance.budget.usd_per_month, balance.used.usd, balance.usd_left),
    )
    limits = tuple(_limit(unit, limit, used, remaining) for unit, limit, used, remaining in sides if limit is not None)
    return BudgetRow(balance.provider, limits, balance.used.unpriced if balance.budget.usd_per_month is not None else None)


def _limit(unit: str, limit: float, used: float | None, remaining: float | None) -> Limit:
    if used is None or remaining is None:
        return Limit(unit, format_amount(limit), "unknown", "unknown", None)
    return Limit(unit, format_amount(limit), format_amount(used), format_amount(remaining), min(used / limit, 1.0))


def router(pages: PageRenderer, reader: ArchiveReader, declared: DeclarationsReader) -> APIRouter:
    """`/spend` and its CSV; `/budgets` is its old address."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/spend", response_class=HTMLResponse)
    def show_spend(request: Request) -> Response:
        found = spend(reader.archive(), declared.now(), pages.now())
        return pages.page(request, "spend.html.j2", spend=found, note=NOTE, budgets=[_row(each) for each in found.balances])

    @routes.get("/spend.csv")
    def send_csv() -> Response:
        found = spend(reader.archive(), declared.now(), pages.now())
        file = f"attachment; filename=spend-{found.months[1]}.csv"
        return Response(spend_csv(found), media_type="text/csv; charset=utf-8", headers={"Content-Disposition": file})

    @routes.get("/budgets")
    def redirect_old_address(request: Request) -> Response:
        return RedirectResponse(f"{base_path(request)}/spend", 308)

    return routes
