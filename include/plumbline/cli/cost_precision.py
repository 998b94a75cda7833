"""`plumbline cost precision`: what a cheaper precision saves, with what it costs in quality."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

import typer

from plumbline.cli.cost import How, as_day, as_purchase
from plumbline.cli.cost_outlook import On
from plumbline.cli.opening import open_archive
from plumbline.cli.output import Json, clear_errors, emit, marked, out, table
from plumbline.declarations import DeclarationError, load


def precision(
    provider: Annotated[str | None, typer.Argument(help="a provider of the archive; every one if left out")] = None,
    purchase: How = "on_demand",
    on: On = None,
    as_json: Json = False,
) -> None:
    """What an outcome costs in each precision of one model, with the measured difference in quality beside it."""
    from plumbline.reports.precision import levers
    from plumbline.reports.standing import standing

    way, day = as_purchase(purchase), as_day(on) or datetime.now(timezone.utc).date()
    with clear_errors(DeclarationError):
        declared = load()
    made_up = provider in declared.providers and declared.providers[provider].simulated
    with open_archive() as archive:
        now = standing(archive, declared, day, purchase=way, simulated=made_up)
    found = [each for each in levers(now.trials, now.workloads) if provider in (None, each.provider)]

    def show() -> None:
        for each in found:
            simulated = "  SIMULATED" if each.provider in now.simulated else ""
            name = f"{each.outcome}, {each.rows[0].workload} on {each.provider}, {each.load}"
            title = marked("{}[yellow]{}[/]", name, simulated)
            shown = table(title, "precision", "workload", "cost", "saves", "quality", right=("cost", "saves"))
            for row in each.rows:
                saves = "" if row.saving is None or row.precision == each.reference else f"{row.saving:.1%}"
                shown.add_row(row.precision, f"{row.workload} v{row.version}", each.cost_text(row), saves, row.difference)
            out.print(shown)
            for row in each.rows:
                if row.why:
                    out.print(f"  {row.precision}: {row.why}", style="dim", highlight=False, markup=False, soft_wrap=True)
        if not found:
            who = f"no campaign of {provider}" if provider else "no provider's campaigns"
            out.print(f"{who} ran two precisions of one model; chat-limits-cpu and chat-limits-int8-cpu are such a pair", soft_wrap=True)

    emit(as_json, {"on": day, "simulated": sorted(now.simulated), "levers": found}, show)
