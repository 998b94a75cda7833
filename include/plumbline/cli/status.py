"""`plumbline status`: the status strip of the overview."""

from __future__ import annotations

from datetime import datetime, timezone

from rich.text import Text

from plumbline.cli.output import TONES, Json, beside, clear_errors, emit, read_archive
from plumbline.declarations import DeclarationError, installation_paths, load
from plumbline.presentation.overview import overview


def status(as_json: Json = False) -> None:
    with clear_errors(DeclarationError), read_archive(listing=True, as_json=as_json) as archive:
        found = overview(archive, load(), installation_paths().reports, datetime.now(timezone.utc))

    def show() -> None:
        width = max(len(tile.name) for tile in found.tiles)
        for tile in found.tiles:
            beside(Text(f"{tile.name:<{width}}  ", "dim"), Text.assemble((tile.value, TONES.get(tile.tone, "bold")), f"  {tile.note}"))

    emit(as_json, found, show)
