"""`plumbline cost month`: what is paid, by month."""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from typing import Annotated

import typer

from plumbline.cli.output import Json, clear_errors, emit, fail, marked, out, read_archive, table
from plumbline.cli.tables import TOP, print_table
from plumbline.declarations import DeclarationError, load
from plumbline.workflows.spend import NOTE, Spend, spend, spend_csv


def month(
    of: Annotated[str | None, typer.Option("--month", help="the month in the middle, such as 2026-11; this one if left out")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="as CSV with paid and share of each month")] = False,
    everything: Annotated[bool, typer.Option("--all", help="every row instead of the first ten")] = False,
    as_json: Json = False,
) -> None:
    """What was paid last month and this one so far, and the forecast of the next, by provider and workload, against budgets."""
    now = datetime.now(timezone.utc)
    if of is not None:
        try:
            now = datetime.strptime(of, "%Y-%m").replace(tzinfo=timezone.utc)
        except ValueError:
            fail(f'--month "{of}" is not a month; expected one such as 2026-11')
    with clear_errors(DeclarationError), read_archive(empty=True) as archive:
        found = spend(archive, load(), now)
    if as_csv:
        sys.stdout.write(spend_csv(found))
        return
    emit(as_json, found.view, lambda: _show(found, everything))


def _show(found: Spend, everything: bool) -> None:
    numbers = found.headings
    shown = table("Spend, USD", "provider", "workload", *numbers, "forecast from", right=numbers)
    for row in found.rows:
        name = marked("{}[yellow]{}[/]", row.provider, " SIMULATED" if row.simulated else "")
        shown.add_row(name, row.workload, *row.cells, row.times)
    print_table(shown, None if everything else TOP, sums=[(row.provider, "", *row.cells) for row in found.sums])
    for why in dict.fromkeys(row.why for row in found.rows if row.why):
        out.print(f"  without a price: {why}", style="dim")
    out.print(f"  {NOTE}", style="dim")
    for balance in found.balances:
        out.print(f"{balance.provider}: {balance}", style="yellow" if balance.exceeded else None)
