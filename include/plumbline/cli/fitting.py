"""A table as it is where it fits the terminal, else a card for each row."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_TALLEST = 3
"""Lines of a row on average, beyond which cards are easier to read."""
_ANY = 10_000
_NUMBER = 3
"""Characters of a first cell that is only a place in a ranking: a card's title has the next one too."""


def fitted(console: Console, shown: Table) -> RenderableType:
    """The table, or its rows as cards where a word would be cut or rows get too high. A table without a heading stays."""
    if not shown.show_header or _fits(console, shown):
        return shown
    return Group(*_cards(shown, console.width))


def _fits(console: Console, shown: Table) -> bool:
    # What it needs is cut to what there is, so ask with room for any table.
    if Measurement.get(console, console.options.update(max_width=_ANY), shown).minimum > console.width:
        return False
    lines = len(console.render_lines(shown, pad=False))
    return lines <= _TALLEST * shown.row_count + sum(row.end_section for row in shown.rows) + 4


def _cards(shown: Table, width: int) -> Iterator[RenderableType]:
    if shown.title:
        yield Text(shown.title, style="bold") if isinstance(shown.title, str) else shown.title
    columns = [(str(column.header), list(column.cells)) for column in shown.columns]
    for number, row in enumerate(shown.rows):
        cells = [(name, _text(own[number], str(row.style or ""))) for name, own in columns]
        titles = 2 if len(cells[0][1].plain) <= _NUMBER and len(cells) > 1 else 1
        yield Text(" ", style="bold").join(text for _, text in cells[:titles])
        pairs = [Text.assemble((f"{name} " if name else "", "dim"), text) for name, text in cells[titles:] if text.plain not in ("", "–")]
        yield from (Padding(line, (0, 0, 0, 2)) for line in _flow(pairs, width - 2))
    yield Text()


def _flow(pairs: list[Text], width: int) -> Iterator[Text]:
    """As many pairs a line as fit; none is broken that fits a line."""
    line = Text()
    for pair in pairs:
        if line.cell_len and line.cell_len + 3 + pair.cell_len > width:
            yield line
            line = Text()
        line.append(" · " if line.cell_len else "", "dim").append_text(pair)
    if line.cell_len:
        yield line


def _text(cell: object, style: str) -> Text:
    found = cell.copy() if isinstance(cell, Text) else Text(str(cell))
    found.stylize_before(style)
    return found
