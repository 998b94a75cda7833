"""`plumbline report`: the report of a campaign as HTML and Markdown, and as a mail."""

from __future__ import annotations

from typing import Annotated

import typer

from plumbline.cli.declared import Campaign
from plumbline.cli.output import Json, clear_errors, emit, out, read_archive
from plumbline.declarations import DeclarationError
from plumbline.presentation.tables import TableFormat
from plumbline.workflows.report import write_files


def report(
    campaign: Campaign = None,
    tables: Annotated[TableFormat | None, typer.Option(help="every table as well, for spreadsheets or for programs")] = None,
    mail: Annotated[bool, typer.Option("--mail", help="also report.eml: the cover as a draft to send, the report attached")] = False,
    to: Annotated[list[str] | None, typer.Option(help="a recipient of the mail; repeat it for several")] = None,
    as_json: Json = False,
) -> None:
    read_archive().close()
    with clear_errors(LookupError, DeclarationError, ValueError):
        done = write_files(campaign, () if tables is None else (tables,), mail=mail or bool(to), to=to or ())

    def show() -> None:
        for place in (done.report, done.mail, done.tables):
            if place is not None:
                out.print(place)

    emit(as_json, done, show)
