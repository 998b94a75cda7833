"""Scorecards side by side: a table of metrics for each workload, its cells with intervals on the row's own scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from plumbline.analysis.scorecards.placings import place
from plumbline.analysis.scorecards.scorecard import Row, Scorecard, leaders
from plumbline.metrics import catalogue_order, metric_of
from plumbline.metrics.formatting import Scale, common_scale, format_name, format_percent
from plumbline.metrics.pooling import Pooled

NumberKey = tuple[str, str, str]
"""(metric, statistic, phase)"""


@dataclass(frozen=True)
class Cell:
    """One provider's value. `detail`: its interval, n and verdict; `reason`: why there is none. `mark`: good, bad, best, tied or empty.
    `trials`: ids behind it. `left`, `width`, `dot`: its interval on the row's own scale, in percent."""

    text: str
    detail: str = ""
    reason: str = ""
    mark: Literal["good", "bad", "best", "tied", ""] = ""
    trials: tuple[str, ...] = ()
    unit: str = ""
    title: str = ""
    left: float | None = None
    width: float | None = None
    dot: float | None = None


@dataclass(frozen=True)
class TableRow:
    """One metric and each provider's value, in the order of the columns. `minor`: not the metric's leading statistic."""

    name: str
    meaning: str
    cells: tuple[Cell, ...]
    detail: str = ""
    arrow: str = ""
    minor: bool = False


GROUP_TITLES = {
    "latency": "Latency",
    "throughput": "Throughput",
    "cost": "Cost",
    "reliability": "Reliability",
    "start_up": "Start-up",
    "recovery": "Recovery",
    "hardware": "Hardware and utilisation",
    "quality": "Outcome",
    "client": "Load client",
}
TAILS = ("p90", "p95", "p99")


@dataclass(frozen=True)
class CardTable:
    """The scorecards of one workload side by side."""

    kind: str
    workload: str
    version: int
    cards: tuple[Scorecard, ...]
    groups: tuple[tuple[str, tuple[TableRow, ...]], ...]

    @property
    def title(self) -> str:
        return f"{self.workload} v{self.version}"

    @property
    def anchor(self) -> str:
        return f"{self.kind}-{self.workload}-v{self.version}"

    @property
    def names(self) -> frozenset[str]:
        """Names of the metrics that the table shows."""
        return frozenset(row.name for _, rows in self.groups for row in rows)


def card_tables(
    cards: Sequence[Scorecard],
    fleet: Mapping[NumberKey, Mapping[str, Pooled]] | None = None,
    order: Sequence[str] = (),
    *,
    rows: bool = True,
) -> tuple[CardTable, ...]:
    """One table per kind, workload and version; training before inference, never merged. Without `rows` its groups are empty.

    `fleet`: each number of every provider where the cards are a part of them: leaders and units are of the whole fleet. `order`: providers as
    columns; by name without it.
    """

    def identity(card: Scorecard) -> tuple[bool, str, int]:
        return (card.kind != "training", card.workload, card.version)

    tables = []
    for _, group in groupby(sorted(cards, key=identity), key=identity):
        side_by_side = tuple(sorted(group, key=lambda c: (order.index(c.provider) if c.provider in order else len(order), c.provider)))
        first = side_by_side[0]
        tables.append(CardTable(first.kind, first.workload, first.version, side_by_side, _groups(side_by_side, fleet) if rows else ()))
    return tuple(tables)


def _groups(
    cards: Sequence[Scorecard], fleet: Mapping[NumberKey, Mapping[str, Pooled]] | None = None
) -> tuple[tuple[str, tuple[TableRow, ...]], ...]:
    keys = dict.fromkeys((row.group, row.metric, row.phase, row.statistic) for card in cards for row in card.rows if _is_shown(row))
    groups = list(GROUP_TITLES)
    ordered = sorted(keys, key=lambda k: (groups.index(k[0]), catalogue_order(k[1]), not _is_leading(cards, k), k[2], k[3]))
    table_groups = []
    for group, members in groupby(ordered, key=lambda k: k[0]):
        table_groups.append(
            (GROUP_TITLES[group], tuple(_row(cards, metric, statistic, phase, fleet) for _, metric, phase, statistic in members))
        )
    return tuple(table_groups)


def _is_shown(row: Row) -> bool:
    return row.leading or (row.value is not None and row.statistic in TAILS and row.phase == "steady" and row.group == "latency")


def _is_leading(cards: Sequence[Scorecard], key: tuple[str, str, str, str]) -> bool:
    return any(r.leading for c in cards for r in c.rows if (r.group, r.metric, r.phase, r.statistic) == key)


def row_keys(cards: Sequence[Scorecard]) -> frozenset[NumberKey]:
    """The numbers that the tables of these cards show."""
    return frozenset((r.metric, r.statistic, r.phase) for card in cards for r in card.rows if _is_shown(r))


def _row(
    cards: Sequence[Scorecard], metric: str, statistic: str, phase: str, fleet: Mapping[NumberKey, Mapping[str, Pooled]] | None
) -> TableRow:
    rows = {c.provider: c.row(metric, statistic, phase) for c in cards}
    present = [r for r in rows.values() if r is not None and r.value is not None]
    definition = next(metric_of(r) for r in rows.values() if r is not None)
    numbers = (fleet or {}).get((metric, statistic, phase), {})
    scale = common_scale(definition.unit, [n.value for n in numbers.values()] or [r.value for r in present], metric)
    unranked = definition.group == "client" or not all(c.ranked for c in cards)  # the load client is not the provider
    leading_providers = () if unranked else _fleet_leaders(rows, definition.direction, numbers, fleet is not None)
    top = max(r.high if r.high is not None else r.value or 0.0 for r in present) if len(present) > 1 else 0.0
    leading = any(r.leading for r in rows.values() if r is not None)
    arrow = {"lower_is_better": "↓", "higher_is_better": "↑"}.get(definition.direction, "")
    detail = " · ".join(
        part for part in ("" if statistic == "value" else statistic, "" if phase == "steady" else format_name(phase)) if part
    )
    cells = tuple(_metric_cell(rows[c.provider], scale, top, _mark(c.provider, leading_providers)) for c in cards)
    return TableRow(format_name(metric), definition.description, cells, detail, arrow, not leading)


def _fleet_leaders(rows: dict[str, Row | None], direction: str, numbers: Mapping[str, Pooled], has_fleet: bool) -> tuple[str, ...]:
    """The leaders of the whole fleet; none where only a part of it is known, as costs of held time are."""
    if not has_fleet:
        return leaders(rows)
    if len(numbers) < 2 or direction == "informative":
        return ()
    return tuple(p.provider for p in place(numbers, direction == "lower_is_better") if p.leads)


def _mark(provider: str, leading_providers: Sequence[str]) -> Literal["best", "tied", ""]:
    return "" if provider not in leading_providers else "best" if len(leading_providers) == 1 else "tied"


def _metric_cell(row: Row | None, scale: Scale, top: float, mark: Literal["best", "tied", ""]) -> Cell:
    if row is None or row.value is None:
        return Cell("–", title="not measured in any usable trial")
    text, dot = scale.number(row.value), _position(row.value, top)
    if row.low is None or row.high is None or row.coverage is None:
        return Cell(text, f"n {row.n}", mark=mark, unit=scale.suffix, title="one repeat: no interval", dot=dot)
    kind = f"{format_percent(row.coverage)} interval of the median" if row.coverage >= 0.9 else f"range of {row.n} repeats"
    return Cell(
        text,
        scale.interval(row.low, row.high),
        mark=mark,
        unit=scale.suffix,
        title=f"median of {row.n} repeats ({row.observations:,} observations); {kind} (confidence {format_percent(row.coverage)})",
        left=_position(row.low, top),
        width=max(0.0, (_position(row.high, top) or 0.0) - (_position(row.low, top) or 0.0)),
        dot=dot,
    )


def _position(value: float, top: float) -> float | None:
    return round(100 * min(max(value / top, 0.0), 1.0), 2) if top > 0 else None
