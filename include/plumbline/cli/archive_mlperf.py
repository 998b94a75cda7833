"""`plumbline archive import-mlperf`: published MLPerf Training runs as campaigns of imported series."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from plumbline.archive import Refused
from plumbline.cli.opening import open_archive
from plumbline.cli.output import Json, clear_errors, emit, out, table
from plumbline.results.mlperf import PUBLISHED, parse


def import_mlperf(
    file: Annotated[Path, typer.Argument(help="CSV, one run a row", exists=True, dir_okay=False, readable=True)],
    rounds: Annotated[
        list[str] | None, typer.Option("--round", help="a round that is not known here and when it was published, such as v6.0=2026-06-03")
    ] = None,
    as_json: Json = False,
) -> None:
    """Import published MLPerf Training runs: never scored, never compared with what was measured here. Again changes nothing."""
    with clear_errors(ValueError, Refused):
        # utf-8-sig: spreadsheets put a mark before the first column's name.
        published = {**PUBLISHED, **dict(_round(text) for text in rounds or ())}
        try:
            with file.open(newline="", encoding="utf-8-sig") as lines:
                parsed = parse(lines, published)
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} is not text in UTF-8 ({error}); expected a CSV file") from error
        with open_archive() as archive:
            imported = archive.import_outside(parsed.results)
    statuses = Counter(r.validity.status for r in parsed.results)
    counted = {
        "rows": len(parsed.results) + len(parsed.rejected),
        "imported": imported.inserted,
        "unchanged": imported.unchanged,
        "kept_out": imported.kept_out,
        "rejected": parsed.rejected,
        "valid": statuses["valid"],
        "invalid": statuses["invalid"],
        "campaigns": sorted({r.campaign_id for r in parsed.results}),
        "series": len({r.series_key for r in parsed.results}),
    }

    def show() -> None:
        shown = table("", "campaign", "runs", "valid", "invalid", "series", right=("runs", "valid", "invalid", "series"))
        for campaign in sorted({r.campaign_id for r in parsed.results}):
            own = [r for r in parsed.results if r.campaign_id == campaign]
            valid = sum(r.validity.status == "valid" for r in own)
            shown.add_row(campaign, str(len(own)), str(valid), str(len(own) - valid), str(len({r.series_key for r in own})))
        if parsed.results:
            out.print(shown)
        out.print(
            f"{counted['rows']} rows: {imported.inserted} imported, {imported.unchanged} known already, "
            f"{len(imported.kept_out)} kept out, {len(parsed.rejected)} rejected",
            highlight=False,
        )
        for name in imported.kept_out:
            out.print(f"  kept out: the archive holds {name} with other values, which stay", highlight=False, markup=False, soft_wrap=True)
        for bad in parsed.rejected:
            out.print(f"  {file.name}:{bad.line}  {bad.reason}", style="yellow", highlight=False, markup=False, soft_wrap=True)

    emit(as_json, counted, show)


def _round(text: str) -> tuple[str, date]:
    name, _, day = text.partition("=")
    try:
        return name, date.fromisoformat(day)
    except ValueError:
        raise ValueError(f'--round "{text}"; expected a name and a date such as v6.0=2026-06-03') from None
