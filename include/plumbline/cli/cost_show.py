"""A bill as a person reads it, and as a script does."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from plumbline.cli.output import out, table
from plumbline.prices import Bill, Line


def lines_table(title: str | Text, bill: Bill) -> Table:
    """Every line of a bill, and its total."""
    numbers = ("quantity", "unit price", "cost")
    shown = table(title, "item", "what", *numbers, "basis", "since", "source", right=numbers)
    for column in shown.columns:
        column.no_wrap = column.header not in ("what", "source")
        column.min_width = 16 if column.header == "what" else None
    for n, line in enumerate(bill.lines, 1):
        shown.add_row(
            line.item.replace("_", " "),
            line.what,
            str(line.quantity),
            str(line.unit_price),
            str(line.cost),
            line.basis,
            line.since.isoformat() if line.since else "–",
            line.source,
            end_section=n == len(bill.lines),
        )
    shown.add_row("total" if bill.complete else "at least", "", "", "", str(bill.total) if bill.total else "–", style="bold")
    return shown


def incomplete(bill: Bill, of: str = "") -> None:
    """Say what is not on the bill because nobody can know it."""
    for each in bill.unknown:
        out.print(
            f"  {of}{each.item.replace('_', ' ')} not known: {each.reason}", style="dim", highlight=False, markup=False, soft_wrap=True
        )


def _line_row(line: Line) -> dict[str, Any]:
    """A line for `--json`."""
    return {
        "item": line.item,
        "what": line.what,
        "quantity": line.quantity,
        "unit_price": line.unit_price,
        "cost": line.cost,
        "basis": line.basis,
        "source": line.source,
        "since": line.since,
    }


def as_data(bill: Bill) -> dict[str, Any]:
    """A bill for `--json`."""
    return {
        "lines": [_line_row(line) for line in bill.lines],
        "by_item": bill.by_item(),
        "total": bill.total,
        "complete": bill.complete,
        "unknown": bill.unknown,
    }
