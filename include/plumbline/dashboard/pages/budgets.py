"""Budget use of each provider in the current month."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from plumbline.analysis.cost.budget import Balance
from plumbline.archive import Archive
from plumbline.dashboard.rendering import PageRenderer
from plumbline.dashboard.sources import ArchiveReader, DeclarationsReader
from plumbline.declarations import Declarations
from plumbline.metrics.formatting import format_amount
from plumbline.workflows.budget import budget_balance


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


def budgets(archive: Archive, declared: Declarations, now: datetime) -> list[BudgetRow]:
    """A row for each provider with a budget, by name. Reads every document of theirs of this month: it is a page of its own."""
    limited = [p for _, p in sorted(declared.providers.items()) if p.budget is not None]
    return [_row(budget_balance(archive, provider, now)) for provider in limited]


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
    """`/budgets`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/budgets", response_class=HTMLResponse)
    def show_budgets(request: Request) -> Response:
        return pages.page(request, "budgets.html.j2", budgets=budgets(reader.archive(), declared.now(), pages.now()))

    return routes
