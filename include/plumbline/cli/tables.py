"""Tables of many providers: the first rows, and columns that continue below where the terminal ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from plumbline.cli.output import out, table

TOP = 10
"""Providers and rows that are shown without --all."""
_WIDEST = 26


def print_table(shown: Table, most: int | None = None, sums: Sequence[Sequence[str | Text]] = ()) -> None:
    """Print a table, with its `sums` as the last rows; of more than `most` other rows the first ones."""
    hidden = 0 if most is None else max(0, shown.row_count - most)
    if hidden:
        for column in shown.columns:
            del column._cells[most:]
        del shown.rows[most:]
    shown.add_section()
    for cells in sums:
        shown.add_row(*cells, style="bold")
    out.print(shown)
    if hidden:
        out.print(f"  and {hidden} more: --all", style="dim")


@dataclass
class ProviderTable:
    """A row for each thing and a column for each provider; `lead`: the columns before those of the providers."""

    title: str
    lead: tuple[str, ...]
    providers: Sequence[str]
    rows: list[tuple[tuple[str | Text, ...], tuple[str | Text, ...], str | None, bool]] = field(default_factory=list)

    def add(self, lead: Sequence[str | Text], cells: Sequence[str | Text], style: str | None = None, end: bool = False) -> None:
        """Add a row."""
        self.rows.append((tuple(lead), tuple(cells), style, end))

    def print(self, right: bool = False) -> None:
        """Print the table, split into several if the terminal is narrow."""
        if not self.rows:
            return
        title = self.title
        for start, end in self._parts():
            names = self.providers[start:end]
            shown = table(title, *self.lead, *names, right=tuple(names) if right else ())
            for column in shown.columns[: len(self.lead)]:
                column.max_width = _lead_width()
                column.overflow = "fold"
            for lead, cells, style, last in self.rows:
                shown.add_row(*lead, *cells[start:end], style=style, end_section=last)
            out.print(shown)
            title = ""

    def _parts(self) -> list[tuple[int, int]]:
        widths = [
            min(_WIDEST, max([cell_len(name), *(_widest(cells[i]) for _, cells, _, _ in self.rows)]))
            for i, name in enumerate(self.providers)
        ]
        lead = sum(
            min(_lead_width(), max([cell_len(name), *(_widest(row[0][j]) for row in self.rows)])) + 3 for j, name in enumerate(self.lead)
        )
        parts, start, used = [], 0, lead
        for i, width in enumerate(widths):
            if i > start and used + width + 3 > out.width:
                parts.append((start, i))
                start, used = i, lead
            used += width + 3
        return [*parts, (start, len(widths))]


def _lead_width() -> int:
    return max(16, 2 * out.width // 5)


def _widest(cell: str | Text) -> int:
    plain = cell.plain if isinstance(cell, Text) else cell
    return max((cell_len(line) for line in plain.splitlines()), default=0)
