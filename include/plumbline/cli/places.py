"""`plumbline places`: one offer in each of its regions, and the distance of client and data, as the page Places shows them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

import typer

from plumbline.answers.offer_places import workload_places
from plumbline.cli.declared import load_declared
from plumbline.cli.output import NO_CAMPAIGN, Json, emit, fail, out, read_archive, table
from plumbline.metrics.formatting import capitalize_first, format_count, unknown_name
from plumbline.presentation.offer_places import PlacedCell, PlacesView, places_view


def places(
    workload: Annotated[str | None, typer.Argument(help="a measured workload; the first by name if none is named")] = None,
    as_json: Json = False,
) -> None:
    declared = load_declared()
    with read_archive(listing=True, as_json=as_json) as archive:
        names = sorted({each.workload for each in archive.workload_names()})
        if workload is not None and workload not in names:
            fail(unknown_name("workload in the archive", workload, names))
        chosen = workload or next(iter(names), "")
        found = workload_places(archive, declared, datetime.now(timezone.utc).date(), chosen) if chosen else None
    view = None if found is None else places_view(found)
    emit(as_json, {"workloads": names, "places": view}, lambda: out.print(NO_CAMPAIGN) if view is None else _show(view, names))


def _show(view: PlacesView, names: list[str]) -> None:
    what = f"{view.metric}, {view.better}" if view.metric else "no usable trial in any of these places"
    out.print(f"{view.workload}: {what}", style="bold", markup=False)
    if view.offers:
        shown = table("One offer in several places", "offer", "place", "provider", "measured", "interval", "distance", "price now")
        for row in view.offers:
            for n, cell in enumerate(each for cells in row.cells for each in cells):
                shown.add_row("" if n else row.offer, *_cells(cell))
            shown.add_section()
        out.print(shown)
        if view.single:
            out.print(f"  {format_count(view.single, 'further offer')} at one place only", style="dim")
    else:
        out.print(
            "no offer is declared in two places: one cloud and instance_type with different region or zone are one offer", markup=False
        )
    if view.clients is not None:
        shown = table(f"{capitalize_first(view.clients.lead)} …: {view.clients.meaning}", view.clients.lead, *view.clients.columns)
        for place, values in view.clients.rows:
            shown.add_row(place, *values)
        out.print(shown)
    else:
        out.print("measured from one place for each provider: no matrix of client or data", style="dim")
    if others := [name for name in names if name != view.workload]:
        out.print(f"other workloads: {', '.join(others)}", style="dim", markup=False)


def _cells(cell: PlacedCell) -> tuple[str, ...]:
    mark = " SIMULATED" if cell.simulated else ""
    return cell.place, f"{cell.provider}{mark}", cell.text, cell.interval or "–", cell.distance or "–", cell.price or "not known"
