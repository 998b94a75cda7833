"""`plumbline log`: what people note of a provider."""

from __future__ import annotations

import getpass
import os
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated, cast, get_args

import typer

from plumbline.cli.declared import load_declared
from plumbline.cli.output import Json, clear_errors, emit, fail, out, read_archive, table
from plumbline.cli.tables import print_table
from plumbline.metrics.formatting import unknown_name
from plumbline.results.operations import LogEntryView, LogKind, Whose
from plumbline.workflows.operations_log import log_operation


def log(
    kind: Annotated[str | None, typer.Argument(help="incident, ticket, quota or maintenance")] = None,
    provider: Annotated[str | None, typer.Argument(help="as it is declared")] = None,
    what: Annotated[str, typer.Option(help="what happened, or what was asked")] = "",
    opened: Annotated[str, typer.Option(help="begin, or when it was asked, such as 2026-11-02T10:00Z; now if left out")] = "",
    answered: Annotated[str, typer.Option(help="the provider's first answer")] = "",
    solved: Annotated[str, typer.Option(help="end, or the answer that settled it")] = "",
    whose: Annotated[Whose | None, typer.Option(help="whose fault it is; unknown if left out")] = None,
    severity: Annotated[str, typer.Option(help="as the provider names it")] = "",
    reference: Annotated[str, typer.Option(help="its number at the provider")] = "",
    entry: Annotated[str, typer.Option("--id", help="complete or correct this entry; what is left out stays")] = "",
    listed: Annotated[bool, typer.Option("--list", help="show the entries of the kind and provider that are named")] = False,
    as_json: Json = False,
) -> None:
    if kind is not None and kind not in get_args(LogKind):
        fail(unknown_name("kind of entry", kind, get_args(LogKind)))
    if listed:
        with read_archive(listing=True, as_json=as_json) as archive:
            entries = archive.operations(provider, cast(LogKind | None, kind))
        emit(as_json, entries, lambda: _show(entries))
        return
    if kind is None or provider is None:
        fail("expected plumbline log incident|ticket|quota|maintenance PROVIDER, or --list")
    begin = opened or ("" if entry else datetime.now(timezone.utc).isoformat())
    given = {"kind": kind, "provider": provider, "what": what, "opened": begin, "answered": answered, "solved": solved}
    given |= {"whose": whose or "", "severity": severity, "reference": reference, "id": entry}
    with clear_errors(LookupError, ValueError), read_archive(empty=True) as archive:
        noted = log_operation(archive, load_declared(), given, getpass.getuser(), os.getuid())
    saved = noted.entry

    def show() -> None:
        out.print(f"{saved.entry_id}: {saved.kind} of {saved.provider}, revision {saved.revision}")
        for note in noted.notes:
            out.print(f"  {note}", markup=False)

    emit(as_json, {**asdict(saved), "notes": noted.notes}, show)


def _show(entries: list[LogEntryView]) -> None:
    shown = table("Operations log", "id", "kind", "provider", "opened", "first answer", "solved", "whose", "what")
    for e in entries:
        times = (f"{at:%Y-%m-%d %H:%M}" if at else "–" for at in (e.opened, e.answered, e.solved))
        shown.add_row(e.entry_id, e.kind, e.provider, *times, e.whose, e.what)
    print_table(shown)
