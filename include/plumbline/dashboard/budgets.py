"""What the budgets' page shows: of each provider that declares one, what was used this month and what is left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from plumbline.archive import Archive
from plumbline.declarations import Declarations
from plumbline.prices.budget import Balance
from plumbline.reports.spending import balance


@dataclass(frozen=True)
class Limit:
    """One limit of a provider. `used` and `left` are in words; `share` of it that is used, 0…1, None where the cost is not known."""

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
    return [_row(balance(archive, provider, now)) for provider in limited]


def _row(found: Balance) -> BudgetRow:
    sides = (
        ("GPU-hours", found.budget.gpu_hours_per_month, found.used.gpu_hours, found.gpu_hours_left),
        ("USD", found.budget.usd_per_month, found.used.usd, found.usd_left),
    )
    limits = tuple(_limit(unit, limit, used, left) for unit, limit, used, left in sides if limit is not None)
    return BudgetRow(found.provider, limits, found.used.unpriced if found.budget.usd_per_month is not None else None)


def _limit(unit: str, limit: float, used: float | None, left: float | None) -> Limit:
    if used is None or left is None:
        return Limit(unit, f"{limit:,.2f}", "not known", "not known", None)
    return Limit(unit, f"{limit:,.2f}", f"{used:,.2f}", f"{left:,.2f}", min(used / limit, 1.0))
