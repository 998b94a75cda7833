"""`plumbline status`: the status strip of the overview, or what happened since a day."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime, timezone
from typing import Annotated

import typer
from rich.text import Text

from plumbline.archive.shelves import shelf
from plumbline.cli.output import TONES, Json, beside, clear_errors, emit, fail, out, read_archive
from plumbline.declarations import DeclarationError, load
from plumbline.metrics.formatting import capitalize_first, format_name, unknown_name
from plumbline.presentation.events.stream import EventList, count_events, event_note, read_stream, since_moment
from plumbline.presentation.overview import overview
from plumbline.presentation.series_summary import format_age
from plumbline.presentation.written_reports import REPORT


def status(
    since: Annotated[
        str | None,
        typer.Option(help="what happened since a day (2026-11-02, from its first minute UTC), a time back from now (7d), or monday"),
    ] = None,
    provider: Annotated[str, typer.Option(help="with --since: events that concern this provider alone")] = "",
    as_json: Json = False,
) -> None:
    now = datetime.now(timezone.utc)
    if since is not None:
        _show_stream(since, provider, now, as_json)
        return
    if provider:
        fail("--provider names whose events are shown; expected it with --since")
    with clear_errors(DeclarationError), read_archive(listing=True, as_json=as_json) as archive:
        found = overview(archive, load(), shelf("reports", lambda: nullcontext(archive)).names(REPORT), now)

    def show() -> None:
        width = max(len(tile.name) for tile in found.tiles)
        for tile in found.tiles:
            beside(Text(f"{tile.name:<{width}}  ", "dim"), Text.assemble((tile.value, TONES.get(tile.tone, "bold")), f"  {tile.note}"))

    emit(as_json, found, show)


def _show_stream(since: str, provider: str, now: datetime, as_json: bool) -> None:
    with clear_errors(DeclarationError, ValueError, LookupError):
        begin = since_moment(since, now)
        with read_archive(listing=True, as_json=as_json) as archive:
            declared = load()
            if provider and provider not in declared.providers and not archive.series_of([provider]):
                raise LookupError(unknown_name("provider", provider, {*declared.providers, *archive.provider_names()}))
            stream = read_stream(archive, declared, begin, now, provider=provider)
    emit(as_json, stream, lambda: _print(stream, now))


def _print(stream: EventList, now: datetime) -> None:
    of = f" on {stream.provider}" if stream.provider else ""
    counts = (
        f"{count_events(stream.events)}{', the newest' if stream.more else ''}" if stream.events else "nothing happened in what was watched"
    )
    out.print(Text.assemble((f"Since {stream.since:%Y-%m-%d %H:%M} UTC{of}: ", "bold"), counts))
    for day, events in stream.days:
        out.print(Text(f"\n{events[0].at:%A}, {day}", "bold"))
        for event in events:
            mark = " SIMULATED" if event.simulated else ""
            note = f" ({note})" if (note := event_note(event)) else ""
            label = Text(f"{event.at:%H:%M}  {f'{event.kind} {format_name(event.what)}':<20}  ", "dim")
            beside(label, Text.assemble(event.text, (note, "dim"), (mark, "yellow")))
    out.print(Text("\nWhat was watched", "bold"))
    for looked in stream.looked:
        last = f"last {format_age(looked.last, now)}" if looked.last is not None else "nothing to look at"
        beside(Text("  "), Text(f"{capitalize_first(looked.what)}: {last}{f'; {looked.note}' if looked.note else ''}"))
