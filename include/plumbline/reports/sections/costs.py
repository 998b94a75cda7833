"""The section of cost: the bill of the campaign at each provider, line by line, and what of it nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.prices.bill import Line
from plumbline.prices.money import Money
from plumbline.reports.bills import ProviderCost
from plumbline.reports.figures import percent, words


@dataclass(frozen=True)
class LineRow:
    """One line of a bill as text; `since` is empty where nothing says since when the price holds."""

    item: str
    what: str
    quantity: str
    unit_price: str
    cost: str
    basis: str
    source: str
    since: str


@dataclass(frozen=True)
class BillTable:
    """What a campaign cost at one provider. `total`, `per_run`: an en dash where nobody can say, with the reason in `why_not`.

    `unknown`: items that are not in the total, and why.
    """

    provider: str
    kind: str
    rows: tuple[LineRow, ...]
    total: str
    at_least: bool
    per_run: str
    why_not: str
    runs: str
    unknown: tuple[str, ...]


def bill_tables(costs: Sequence[ProviderCost]) -> tuple[BillTable, ...]:
    """One table a provider and kind."""
    return tuple(_table(cost) for cost in costs)


def _table(cost: ProviderCost) -> BillTable:
    total, per_run = cost.bill.total, cost.per_finished_run
    lost = f", {cost.lost} attempt{'s' if cost.lost != 1 else ''} came to nothing" if cost.lost else ""
    return BillTable(
        provider=cost.provider,
        kind=cost.kind,
        rows=tuple(_row(line) for line in cost.bill.lines),
        total=money(total),
        at_least=not cost.bill.complete,
        per_run=money(per_run),
        why_not=cost.why_not,
        runs=f"{cost.finished} of {cost.trials} runs finished{lost}",
        unknown=unknown_reasons(cost),
    )


def _row(line: Line) -> LineRow:
    since = "" if line.since is None else line.since.isoformat()
    return LineRow(words(line.item), line.what, str(line.quantity), str(line.unit_price), money(line.cost), line.basis, line.source, since)


def unknown_reasons(cost: ProviderCost) -> tuple[str, ...]:
    """What is not in a provider's total: each reason once, with the items that it keeps out."""
    items: dict[str, list[str]] = {}
    for each in cost.bill.unknown:
        items.setdefault(each.reason, []).append(words(each.item))
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in items.items())


def money(amount: Money | None) -> str:
    """An amount as people read it; an en dash where there is none."""
    return "–" if amount is None else str(amount)


def cost_sentence(cost: ProviderCost) -> str:
    """What a campaign cost at a provider, all in, in a sentence."""
    total, simulated = cost.bill.total, " (simulated)" if cost.simulated else ""
    if total is None:
        why = "; ".join(dict.fromkeys(each.reason for each in cost.bill.unknown)) or "nothing was billed"
        return f"{cost.label}{simulated}: unknown ({why})."
    parts = []
    idle, lost = cost.bill.of("idle"), cost.bill.of("failed_launches")
    for name, amount in (("idle", idle), ("for attempts that came to nothing", lost)):
        if amount is not None and total.amount:
            parts.append(f"{percent(amount.amount / total.amount)} of it {name}")
    if cost.per_finished_run is not None:
        parts.append(f"{cost.per_finished_run} a finished run")
    missing = [words(item) for item in dict.fromkeys(each.item for each in cost.bill.unknown)]
    without = f"; without what nobody declared or recorded: {', '.join(missing)}" if missing else ""
    least = "" if cost.bill.complete else "at least "
    return f"{cost.label}{simulated}: {least}{total}{', ' if parts else ''}{', '.join(parts)}{without}."
