"""`plumbline alerts`: what Slack would show, with no Slack at all."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.rule import Rule
from rich.text import Text

from plumbline.alerts import Message, chart, render
from plumbline.alerts.digest import render_digest
from plumbline.alerts.message import render_details
from plumbline.alerts.preview import EXAMPLE_CONTEXT, EXAMPLE_FINDING, EXAMPLE_HISTORY, Preview, lines, page
from plumbline.alerts.slack.mrkdwn import StyledSpan
from plumbline.answers.compared_series import compared_series
from plumbline.answers.ledger import open_ledger
from plumbline.cli.output import Json, clear_errors, completed, emit, fail, out, read_archive
from plumbline.declarations import DeclarationError, load
from plumbline.findings.compared import Compared
from plumbline.results.finding import OPEN_STATES
from plumbline.workflows.alert import alert_of, build_digest, finding_chart, previous_month

alerts = typer.Typer(help="Preview Slack messages and the monthly digest, without Slack.", no_args_is_help=True)
Save = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="also write each message there: Block Kit as NAME.json, the page as NAME.html, the chart as NAME.png"
    ),
]


@alerts.command()
def preview(
    finding_id: Annotated[str | None, typer.Argument(help="`plumbline findings` lists them", callback=completed("finding"))] = None,
    everything: Annotated[bool, typer.Option("--all", help="every open finding")] = False,
    example: Annotated[bool, typer.Option("--example", help="a made-up finding with everything that a message can show")] = False,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Show a finding's message as Slack would: here, as Block Kit JSON (--json), or as a page with its chart (--save)."""
    if [finding_id is not None, everything, example].count(True) != 1:
        fail("expected a finding's id, --all or --example: one of them")
    previews, compared = (_example(), None) if example else _stored(finding_id, as_json)
    _show(previews, save, as_json, compared)


@alerts.command()
def digest(
    month: Annotated[str | None, typer.Option(help="such as 2026-11; the month that ended last if left out")] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="rehearse it with simulated findings; the message says so")] = False,
    save: Save = None,
    as_json: Json = False,
) -> None:
    """Show a month's digest as Slack would get it: what is open, ranked by money, and what changed."""
    now = datetime.now(timezone.utc)
    with clear_errors(ValueError, DeclarationError), read_archive(listing=True, as_json=as_json) as archive:
        made = build_digest(archive, load(), month or previous_month(now), now, simulated=simulated)
    _show([Preview(f"digest-{made.month}", render_digest(made))], save, as_json)


def _example() -> list[Preview]:
    return [
        Preview(
            EXAMPLE_FINDING.finding_id,
            render(EXAMPLE_FINDING, context=EXAMPLE_CONTEXT),
            render_details(EXAMPLE_FINDING, context=EXAMPLE_CONTEXT),
            chart.picture(EXAMPLE_HISTORY, f"plumbline-{EXAMPLE_FINDING.finding_id}.png"),
        )
    ]


def _stored(finding_id: str | None, as_json: bool) -> tuple[list[Preview], Compared | None]:
    """One finding, or all open ones; where there is none, how many series were compared."""
    with clear_errors(LookupError, DeclarationError), read_archive(listing=finding_id is None, as_json=as_json) as archive:
        views = [archive.finding(finding_id)] if finding_id else archive.findings(OPEN_STATES)
        declared = load()
        ledger = open_ledger(archive, declared)
        cases = [alert_of(archive, declared, view, ledger=ledger) for view in views]
        previews = [
            Preview(
                c.finding.finding_id,
                render(c.finding, context=c.context),
                render_details(c.finding, context=c.context),
                finding_chart(archive, c.finding),
            )
            for c in cases
        ]
        return previews, None if previews else compared_series(archive)


def _show(previews: list[Preview], save: Path | None, as_json: bool, compared: Compared | None = None) -> None:
    """`compared`: of what no finding is open, where there is none."""
    if save is not None:
        _write(previews, save)

    def show() -> None:
        for one in previews:
            _print(one.message)
            if one.picture is not None:
                out.print(Text(f"chart: {one.picture.alt_text}", style="dim"))
            if one.details is not None:
                out.print(Text("in the thread:", style="dim"))
                _print(one.details)
            out.print()
        if not previews:
            out.print(f"no open findings{compared.limit}; nothing to send" if compared else "nothing to send")

    emit(as_json, [{"name": one.name, **_content(one)} for one in previews], show)


def _content(one: Preview) -> dict[str, Any]:
    thread = {"thread": list(one.details.blocks)} if one.details is not None else {}
    return {"text": one.message.text, "blocks": list(one.message.blocks), **thread}


def _write(previews: list[Preview], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"--save {folder}: {error.strerror}; expected a folder, or a place to make one")
    for one in previews:
        (folder / f"{one.name}.json").write_text(json.dumps(_content(one), indent=1, ensure_ascii=False) + "\n")
        (folder / f"{one.name}.html").write_text(page(one.message, one.picture, one.details))
        if one.picture is not None:
            (folder / f"{one.name}.png").write_bytes(one.picture.data)


def _print(message: Message) -> None:
    for line in lines(message):
        if line.kind == "divider":
            out.print(Rule(style="dim"))
        else:
            text = Text.assemble(*((span.text, _style(span)) for span in line.spans))
            text.stylize({"header": "bold reverse", "context": "dim"}.get(line.kind, ""))
            out.print(text)


def _style(span: StyledSpan) -> str:
    if span.link:
        return f"link {span.link}"
    return "bold" if span.bold else "cyan" if span.code else "yellow" if span.mention else ""
