"""What a scorecard says beside its metrics, in a terminal: the number asked first, friction, capacity, references, what is not comparable."""

from __future__ import annotations

from rich.text import Text

from plumbline.cli.output import marked, out, table
from plumbline.reports.scorecard_rows import PlainCell, ScorecardRows

_COLOURS = {"good": "green", "bad": "red"}


def show_rows(rows: ScorecardRows) -> None:
    """The rows of one table of scorecards, a column for each provider; then its shares and refusals, a line each."""
    shown = table("", "beside the metrics", *rows.providers)
    if rows.primary is not None:
        shown.add_row(Text(rows.primary.name, style="bold"), *[_cell(c) for c in rows.primary.cells], end_section=True)
    for group in (rows.friction, rows.capacity):
        for i, row in enumerate(group, start=1):
            shown.add_row(row.name, *[_cell(c) for c in row.cells], end_section=i == len(group))
    out.print(shown)
    for line in rows.shares:
        out.print(f"  {line.provider}: {line.sentence}", style=None if line.exact else "dim", highlight=False, markup=False)
    for apart in rows.apart:
        said = "not comparable" if apart.weight == "refused" else "mind"
        out.print(marked("  [yellow]{}[/]: {}", said, apart.reason), highlight=False)


def _cell(cell: PlainCell) -> Text:
    if cell.reason:
        return Text(cell.reason, style="dim")
    return Text.assemble((cell.text, _COLOURS.get(cell.mark or "", "")), (f" {cell.detail}" if cell.detail else "", "dim"))
