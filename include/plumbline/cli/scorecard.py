"""`plumbline campaigns`, `scorecard` and `report`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.cli.output import Json, clear_errors, emit, marked, out, read_archive, table
from plumbline.declarations import DeclarationError
from plumbline.presentation.decisions import rank_rows
from plumbline.presentation.scorecard_rows import (
    CardTable,
    Cell,
    CriterionCell,
    ScorecardRows,
    acceptance_rows,
    campaign_rows,
    card_tables,
)
from plumbline.presentation.tables.export import TableFormat
from plumbline.presentation.trials import attempt_rows
from plumbline.workflows.report import campaign_data, newest_campaign, write_report

_COLOURS = {"good": "green", "bad": "red"}


def show_rows(rows: ScorecardRows) -> None:
    """The rows of one table of scorecards, a column for each provider; then its shares and refusals, a line each."""
    shown = table("", "beside the metrics", *rows.providers)
    if rows.primary is not None:
        shown.add_row(Text(rows.primary.name, style="bold"), *[_row_cell(c) for c in rows.primary.cells], end_section=True)
    for group in (rows.friction, rows.capacity):
        for i, row in enumerate(group, start=1):
            shown.add_row(row.name, *[_row_cell(c) for c in row.cells], end_section=i == len(group))
    out.print(shown)
    for line in rows.shares:
        out.print(f"  {line.provider}: {line.sentence}", style=None if line.exact else "dim")
    for apart in rows.apart:
        said = "not comparable" if apart.weight == "refused" else "mind"
        out.print(marked("  [yellow]{}[/]: {}", said, apart.reason))


def _row_cell(cell: Cell) -> Text:
    if cell.reason:
        return Text(cell.reason, style="dim")
    return Text.assemble((cell.text, _COLOURS.get(cell.mark or "", "")), (f" {cell.detail}" if cell.detail else "", "dim"))


Campaign = Annotated[str | None, typer.Argument(help="campaign id; the newest one if left out")]


def scorecard(campaign: Campaign = None, as_json: Json = False) -> None:
    """Show a campaign's verdict: winners, drift and costs. With -v every metric, criterion and decision."""
    with clear_errors(LookupError, DeclarationError), read_archive() as archive:
        name = campaign or newest_campaign(archive)
        data = campaign_data(archive, name)
    concluded = conclude(data)

    def show() -> None:
        show_scorecards(data, concluded)
        show_unusable(data)

    beside = campaign_rows(data, concluded.cards)
    emit(as_json, {"campaign": name, "scorecards": concluded.cards, "beside": beside, "decisions": concluded.decisions}, show)


def report(
    campaign: Campaign = None,
    tables: Annotated[TableFormat | None, typer.Option(help="every table as well, for spreadsheets or for programs")] = None,
    as_json: Json = False,
) -> None:
    """Write a campaign's report as HTML and Markdown, and print its path."""
    read_archive().close()
    with clear_errors(LookupError, DeclarationError):
        path = write_report(campaign, () if tables is None else (tables,))
    folder = None if tables is None else path.parent / "tables"

    def show() -> None:
        for place in (path, folder):
            if place is not None:
                out.print(str(place))

    emit(as_json, {"report": path, "tables": folder}, show)


def show_scorecards(data: CampaignData, concluded: Conclusions) -> None:
    """Every card as a table with what stands beside its metrics, training before inference, then the rankings."""
    beside = campaign_rows(data, concluded.cards)
    for card, rows in zip(card_tables(concluded.cards), beside, strict=True):
        out.print(_card(card))
        _acceptance(card)
        show_rows(rows)
    for decision in concluded.decisions:
        shown = table(
            f"Team {decision.team} · {decision.kind}", "rank", "provider", "score", "P(first)", "", right=("rank", "score", "P(first)")
        )
        for row in rank_rows(decision):
            shown.add_row(row.place, row.provider, row.score, row.chance, "; ".join(row.why_not))
        out.print(shown)
        if decision.comparison.line:
            out.print(f"  {decision.comparison.line}", style="dim")
        if decision.note:
            out.print(f"  {decision.note}", style="dim")


def show_unusable(data: CampaignData) -> None:
    """Why an attempt's numbers are not taken at their word; the page of the trial in Airflow has its log and its pods."""
    rows = [row for row in attempt_rows(data) if row.status != "valid"]
    if rows:
        out.print("\nNot valid", style="bold")
    for row in rows:
        tried = f", attempt {row.attempt}" if row.attempt > 1 else ""
        out.print(f"  {row.trial_id}{tried}: {row.status}")
        for reason in row.reasons:
            out.print(f"      {reason}")


def _card(card: CardTable) -> Table:
    names = [c.provider for c in card.cards]
    shown = table(f"{card.kind.capitalize()} · {card.title}", "", "statistic", *names, right=tuple(names))
    counts = [", ".join(f"{n} {status}" for status, n in c.counts.items() if n) for c in card.cards]
    shown.add_row("trials", "", *counts, end_section=True)
    for _, rows in card.groups:
        for i, row in enumerate(rows):
            shown.add_row(
                f"{row.name} {row.arrow}",
                row.detail,
                *[_cell(c) for c in row.cells],
                style="dim" if row.minor else None,
                end_section=i == len(rows) - 1,
            )
    return shown


def _cell(cell: Cell) -> Text:
    return Text(f"{cell.text} {cell.unit}".strip(), style="bold green" if cell.mark == "best" else "")


def _acceptance(card: CardTable) -> None:
    rows = acceptance_rows(card.cards)
    if not rows:
        return
    shown = table("", "criterion", *[c.provider for c in card.cards])
    for row in rows:
        shown.add_row(row.text, *[_outcome(v) for v in row.verdicts])
    out.print(shown)


def _outcome(verdict: CriterionCell | None) -> Text | str:
    if verdict is None:
        return ""
    if verdict.outcome == "insufficient":
        return marked("[yellow]insufficient[/] {}", verdict.explanation)
    colour = {"pass": "green", "mixed": "yellow", "fail": "red"}[verdict.outcome]
    margin = f" ({verdict.margin})" if verdict.margin else ""
    return Text.assemble((verdict.outcome, colour), f" {verdict.value}{margin}")
