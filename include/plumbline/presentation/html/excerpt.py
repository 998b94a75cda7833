"""What a report of many providers lists: of each table the leading ones, ranked over all of them; the exported tables have the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.cost.campaign_bill import ProviderCost
from plumbline.analysis.scorecards.scorecard import Scorecard
from plumbline.presentation.card_tables import CardTable, TableRow
from plumbline.presentation.costs import CostRow
from plumbline.presentation.scorecard_rows import ScorecardRows

MOST = 10
"""Columns and rows of a table."""


@dataclass(frozen=True)
class Listed:
    """A table of scorecards with its leading columns. `hidden`: how many providers it leaves out."""

    table: CardTable
    more: ScorecardRows
    hidden: int


def leading(found: Conclusions, table: CardTable) -> list[int]:
    """The columns to show, best first: by the ranking of the first team that decides about the workload, else by the primary metric.
    A table that fits stays as it is."""
    if len(table.cards) <= MOST:
        return list(range(len(table.cards)))
    names = [c.provider for c in table.cards]
    ranked = next((d.decision.ranking for d in found.decided if table.workload in d.preference.workloads), None)
    if ranked is not None:
        order = [r.provider for r in ranked if r.provider in names]
        return [names.index(name) for name in (*order, *(n for n in names if n not in order))][:MOST]
    return sorted(range(len(names)), key=lambda i: (_worse(table.cards[i]), names[i]))[:MOST]


def _worse(card: Scorecard) -> float:
    """The primary metric, less is better; last where it is unknown."""
    row = card.primary or card.row("step_time") or card.row("time_to_first_token")
    if row is None or row.value is None:
        return float("inf")
    return row.value if row.direction == "lower_is_better" else -row.value


def listed(found: Conclusions, tables: Sequence[CardTable], rows: Sequence[ScorecardRows]) -> list[Listed]:
    """Each table with its leading columns; marks and units are those of all columns."""
    shown = []
    for table, more in zip(tables, rows, strict=True):
        chosen = leading(found, table)
        names = [table.cards[i].provider for i in chosen]
        cut = replace(
            table,
            cards=tuple(table.cards[i] for i in chosen),
            groups=tuple((group, tuple(_cut(row, chosen) for row in own)) for group, own in table.groups),
        )
        beside = replace(
            more,
            providers=tuple(names),
            primary=None if more.primary is None else _cut(more.primary, chosen),
            friction=tuple(_cut(row, chosen) for row in more.friction),
            capacity=tuple(_cut(row, chosen) for row in more.capacity),
            shares=tuple(line for line in more.shares if line.provider in names),
        )
        shown.append(Listed(cut, beside, len(table.cards) - len(chosen)))
    return shown


def _cut(row: TableRow, chosen: Sequence[int]) -> TableRow:
    return replace(row, cells=tuple(row.cells[i] for i in chosen))


def leading_providers(found: Conclusions, names: Sequence[str]) -> list[str]:
    """The providers of tables about all workloads: those that rank first for some team, then the dearest of the campaign."""
    if len(names) <= MOST:
        return list(names)
    first = [r.provider for d in found.decided for r in d.decision.ranking[:3] if r.eligible]
    return list(dict.fromkeys([*first, *(c.provider for c in dearest(found.provider_costs)), *names]))[:MOST]


def dearest(costs: Sequence[ProviderCost]) -> list[ProviderCost]:
    """All, or of many the `MOST` with the highest total."""
    if len(costs) <= 2 * MOST:
        return list(costs)
    return sorted(costs, key=lambda c: (-(c.bill.total.amount if c.bill.total is not None else 0.0), c.provider, c.kind))[:MOST]


def cut_costs(rows: Sequence[CostRow], names: Sequence[str], shown: Sequence[str]) -> list[CostRow]:
    """Unit costs of the shown providers."""
    chosen = [names.index(name) for name in shown]
    return [replace(r, cells=tuple(r.cells[i] for i in chosen), reasons=tuple(r.reasons[i] for i in chosen)) for r in rows]
