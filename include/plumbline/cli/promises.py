"""`plumbline promises`: what providers promise, against what was measured."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from plumbline.answers.promises import DECLARE, ProviderPromises, provider_promises
from plumbline.cli.declared import declared_providers, load_declared
from plumbline.cli.output import Json, emit, out, read_archive, table
from plumbline.cli.tables import TOP, print_table
from plumbline.metrics.formatting import format_name
from plumbline.presentation.promises import promise_totals, promises_data

_COLOURS = {"good": "green", "bad": "red", "": "yellow"}


def promises(
    provider: Annotated[list[str] | None, typer.Argument(help="all that promise something if none is named")] = None,
    everything: Annotated[bool, typer.Option("--all", help="every row instead of the first ten")] = False,
    as_json: Json = False,
) -> None:
    declared = load_declared()
    chosen = declared_providers(declared, provider or sorted(declared.providers))
    with read_archive(listing=True, as_json=as_json) as archive:
        found = [provider_promises(archive, declared, one.name) for one in chosen]
    shown = [each for each in found if each.rows]
    emit(as_json, [promises_data(p) for p in shown], lambda: _show(shown, everything))


def _show(found: list[ProviderPromises], everything: bool) -> None:
    if not found:
        out.print(f"nothing is promised; declare in the provider's file what its contract says, such as {DECLARE}")
        return
    out.print(f"{promise_totals(found).text()}", style="bold")
    shown = table("Promises", "provider", "promise", "promised", "measured", "95 % interval", "verdict", "still needed", "credit")
    # Broken ones first.
    rows = sorted(((p.provider, row) for p in found for row in p.rows), key=lambda pair: pair[1].verdict != "broken")
    for name, row in rows:
        verdict = Text(format_name(row.verdict), style=_COLOURS[row.mark])
        measured, credit = ("; ".join(filter(None, pair)) or "–" for pair in ((row.measured, row.one_witness), (row.credit, row.to_do)))
        shown.add_row(name, row.name, row.promised, measured, row.interval or "–", verdict, row.needed or "–", credit)
    print_table(shown, None if everything else TOP)
