"""Round trips, first tokens and reads of data by place, as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plumbline.analysis.places import PlaceMatrix
from plumbline.metrics import METRICS
from plumbline.metrics.formatting import Scale, common_scale
from plumbline.metrics.pooling import PooledMetric

_TITLES = {
    "inference": ("client at", "median round trip · p50 first token with its interval"),
    "training": ("data at", "fetched, page cache dropped · read once more"),
}


@dataclass(frozen=True)
class PlaceTable:
    """`lead`: what the rows are; `meaning`: what a cell holds. `rows`: a place and its cells, one a column, "–" where nothing was measured."""

    title: str
    lead: str
    meaning: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def place_tables(matrices: Iterable[PlaceMatrix]) -> tuple[PlaceTable, ...]:
    return tuple(_table(matrix) for matrix in matrices)


def _table(matrix: PlaceMatrix) -> PlaceTable:
    scales = [
        common_scale(METRICS[metrics[0].metric].unit, [each.value for each in metrics])
        for metrics in zip(*matrix.cells.values(), strict=True)
    ]
    lead, meaning = _TITLES[matrix.kind]
    rows = tuple((row, tuple(_cell(matrix.cells.get((row, column), ()), scales) for column in matrix.columns)) for row in matrix.rows)
    return PlaceTable(matrix.workload, lead, meaning, matrix.columns, rows)


def _cell(values: tuple[PooledMetric, ...], scales: list[Scale]) -> str:
    if not values:
        return "–"
    texts = [scale.text(value.value) for value, scale in zip(values, scales, strict=True)]
    interval = scales[-1].interval(values[-1].low, values[-1].high)
    return " · ".join(texts) + (f" ({interval})" if interval else "")
