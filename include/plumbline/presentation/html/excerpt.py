"""Excerpts of tables in a report of many providers: the leading rows, ranked over all; the exported tables have the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plumbline.analysis.conclusions import Conclusions
from plumbline.analysis.cost.campaign_bill import ProviderCost
from plumbline.analysis.scorecards.scorecard import Scorecard, leading_metric, leading_row
from plumbline.presentation.card_tables import CardTable, TableRow
from plumbline.presentation.costs import CostRow
from plumbline.presentation.scorecard_rows import ScorecardRows

MOST = 10
"""Columns and rows of a table."""


@dataclass(frozen=True)
class TableExcerpt:
    """A table of scorecards with its leading columns. `hidden`: how many providers it leaves out."""

    table: CardTable
    rows: ScorecardRows
    hidden: int


def leading_columns(conclusions: Conclusions, table: CardTable) -> list[int]:
    """The columns to show, best first: by the ranking of the first team that decides about the workload, else by the primary metric.
    A table that fits stays as it is."""
    if len(table.cards) <= MOST:
        return list(range(len(table.cards)))
    names = [c.provider for c in table.cards]
    ranking = next((d.decision.ranking for d in conclusions.decided if table.workload in d.preference.workloads), None)
    if ranking is not None:
        order = [r.provider for r in ranking if r.provider in names]
        return [names.index(name) for name in (*order, *(n for n in names if n not in order))][:MOST]
    return sorted(range(len(names)), key=lambda i: (_sort_value(table.cards[i]), names[i]))[:MOST]


def _sort_value(card: Scorecard) -> float:
    """The primary metric, less is better; last where it is unknown."""
    row = leading_row(card, leading_metric([card]))
    if row is None or row.value is None:
        return float("inf")
    return row.value if row.direction == "lower_is_better" else -row.value


def table_excerpts(conclusions: Conclusions, tables: Sequence[CardTable], rows: Sequence[ScorecardRows]) -> list[TableExcerpt]:
    """Each table with its leading columns; marks and units are those of all columns."""
    excerpts = []
    for table, table_rows in zip(tables, rows, strict=True):
        columns = leading_columns(conclusions, table)
        names = [table.cards[i].provider for i in columns]
        listed_table = replace(
            table,
            cards=tuple(table.cards[i] for i in columns),
            groups=tuple((group, tuple(_cut(row, columns) for row in group_rows)) for group, group_rows in table.groups),
        )
        listed_rows = replace(
            table_rows,
            providers=tuple(names),
            primary=None if table_rows.primary is None else _cut(table_rows.primary, columns),
            friction=tuple(_cut(row, columns) for row in table_rows.friction),
            capacity=tuple(_cut(row, columns) for row in table_rows.capacity),
            shares=tuple(line for line in table_rows.shares if line.provider in names),
        )
        excerpts.append(TableExcerpt(listed_table, listed_rows, len(table.cards) - len(columns)))
    return excerpts


def _cut(row: TableRow, columns: Sequence[int]) -> TableRow:
    return replace(row, cells=tuple(row.cells[i] for i in columns))


def leading_providers(conclusions: Conclusions, names: Sequence[str]) -> list[str]:
    """The providers of tables about all workloads: those that rank first for some team, then the dearest of the campaign."""
    if len(names) <= MOST:
        return list(names)
    first = [r.provider for d in conclusions.decided for r in d.decision.ranking[:3] if r.eligible]
    return list(dict.fromkeys([*first, *(c.provider for c in dearest(conclusions.provider_costs)), *names]))[:MOST]


def dearest(costs: Sequence[ProviderCost]) -> list[ProviderCost]:
    """All, or of many the `MOST` with the highest total."""
    if len(costs) <= 2 * MOST:
        return list(costs)
    return sorted(costs, key=lambda c: (-(c.bill.total.amount if c.bill.total is not None else 0.0), c.provider, c.kind))[:MOST]


def cut_costs(rows: Sequence[CostRow], names: Sequence[str], listed_names: Sequence[str]) -> list[CostRow]:
    """Unit costs of the shown providers."""
    columns = [names.index(name) for name in listed_names]
    return [replace(r, cells=tuple(r.cells[i] for i in columns), reasons=tuple(r.reasons[i] for i in columns)) for r in rows]
