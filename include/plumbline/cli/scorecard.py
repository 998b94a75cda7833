"""`plumbline campaigns`, `scorecard` and `report`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Annotated

import typer
from rich.text import Text

from plumbline.analysis.campaign_data import CampaignData
from plumbline.analysis.conclusions import Conclusions, conclude
from plumbline.analysis.scorecards.comparability import incomparable
from plumbline.cli.declared import Campaign
from plumbline.cli.output import Json, clear_errors, emit, marked, out, read_archive, table
from plumbline.cli.tables import TOP, ProviderTable, print_table
from plumbline.cli.verdict import show_verdict
from plumbline.declarations import DeclarationError
from plumbline.presentation.card_tables import CardTable, Cell, card_tables
from plumbline.presentation.decisions import rank_rows
from plumbline.presentation.imported_runs import FigureRow, ImportedRun, imported_runs
from plumbline.presentation.places import PlaceTable, place_tables
from plumbline.presentation.scorecard_rows import CriterionCell, ScorecardRows, campaign_rows, criterion_rows
from plumbline.presentation.trials import attempt_rows
from plumbline.presentation.verdicts import CampaignVerdict, campaign_verdict
from plumbline.words.comparisons import comparison_line
from plumbline.words.criteria import card_data
from plumbline.words.decision_record import decision_in_words
from plumbline.words.decisions import note_text
from plumbline.workflows.report import campaign_data, garbage_collection_paused, newest_campaign

_REASONS = 4
_COLOURS = {"good": "green", "bad": "red"}


def show_rows(rows: ScorecardRows, chosen: Collection[str]) -> None:
    """The rows of one table of scorecards, a column for each chosen provider; then its shares and refusals, a line each."""
    columns = [i for i, name in enumerate(rows.providers) if name in chosen]
    shown = ProviderTable("", ("beside the metrics",), [rows.providers[i] for i in columns])
    if rows.primary is not None:
        shown.add((Text(rows.primary.name, style="bold"),), [_row_cell(rows.primary.cells[i]) for i in columns], end=True)
    for group in (rows.friction, rows.capacity, rows.service):
        for n, row in enumerate(group, start=1):
            shown.add((row.name,), [_row_cell(row.cells[i]) for i in columns], end=n == len(group))
    shown.print()
    for line in rows.shares:
        if line.provider in chosen:
            out.print(f"  {line.provider}: {line.sentence}", style=None if line.exact else "dim")
    for apart in rows.apart:
        word = "not comparable" if apart.weight == "refused" else "caution"
        out.print(marked("  [yellow]{}[/]: {}", word, apart.reason))


def _row_cell(cell: Cell) -> Text:
    if cell.reason:
        return Text(cell.reason, style="dim")
    return Text.assemble((cell.text, _COLOURS.get(cell.mark or "", "")), (f" {cell.detail}" if cell.detail else "", "dim"))


@garbage_collection_paused()
def scorecard(
    campaign: Campaign = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="every metric, criterion and decision")] = False,
    everything: Annotated[bool, typer.Option("--all", help="the same, for every provider instead of the first ten")] = False,
    as_json: Json = False,
) -> None:
    with clear_errors(LookupError, DeclarationError), read_archive() as archive:
        name = campaign or newest_campaign(archive)
        data = campaign_data(archive, name)
    concluded = conclude(data)
    imported, verdict = imported_runs(data.imported, concluded.cards, data.workloads), campaign_verdict(concluded)
    places = place_tables(concluded.places)

    def show() -> None:
        show_verdict(verdict, everything=everything)
        if verbose or everything:
            show_scorecards(concluded, verdict, everything)
            show_places(places)
        else:
            for one in incomparable(concluded.cards):
                if one.weight == "refused":
                    out.print(marked("[yellow]not comparable[/]: {}", one.reason))
        show_imported(imported, verbose or everything)
        show_unusable(data, verbose or everything)
        if not (verbose or everything):
            out.print(marked("\n[dim]every metric, criterion and decision:[/] plumbline scorecard {} -v", name))

    beside = campaign_rows(data, concluded.cards) if as_json else ()
    first = {"headline": verdict.headline, "tiles": verdict.tiles, "choices": verdict.choices, "actions": verdict.actions}
    printed = {
        "campaign": name,
        **first,
        "scorecards": [card_data(card) for card in concluded.cards],
        "beside": beside,
        "decisions": [decision_in_words(decision) for decision in concluded.decisions],
        "imported": imported,
        "places": places,
    }
    emit(as_json, printed, show)


def show_scorecards(concluded: Conclusions, verdict: CampaignVerdict, everything: bool = False) -> None:
    """Every card as a table with its criteria and launches, training before inference, then the rankings; without `everything` the best ten."""
    beside = campaign_rows(concluded.campaign, concluded.cards)
    for card, rows, one in zip(card_tables(concluded.cards), beside, verdict.workloads, strict=True):
        order = [bar.provider for bar in one.bars] + list(one.without)
        chosen = order if everything else order[:TOP]
        out.print()
        _card(card, chosen)
        _acceptance(card, chosen)
        show_rows(rows, chosen)
        if len(chosen) < len(order):
            out.print(f"  and {len(order) - len(chosen)} more providers: --all", style="dim")
    for decision in concluded.decisions:
        shown = table(
            f"Team {decision.team} · {decision.kind}", "rank", "provider", "score", "P(first)", "", right=("rank", "score", "P(first)")
        )
        for row in rank_rows(decision):
            shown.add_row(row.place, row.provider, row.score, row.chance, "; ".join(row.why_not))
        print_table(shown, None if everything else TOP)
        if compared := comparison_line(decision.comparison):
            out.print(f"  {compared}", style="dim")
        if note := note_text(decision.note):
            out.print(f"  {note}", style="dim")


def show_places(tables: Sequence[PlaceTable]) -> None:
    for each in tables:
        shown = ProviderTable(f"Places · {each.title}: {each.meaning}", (each.lead,), each.columns)
        for place, cells in each.rows:
            shown.add((place,), cells)
        shown.print(right=True)


def show_unusable(data: CampaignData, each: bool = False) -> None:
    """Attempts that are not valid: a line for those whose first reason differs in its numbers alone, or `each` with all of its reasons."""
    rows = [row for row in attempt_rows(data) if row.status != "valid"]
    if not rows:
        return
    out.print("\nAttempts that are not valid", style="bold")
    if each or len(rows) == 1:
        for row in rows:
            out.print(f"  {row.trial_id}{f', attempt {row.attempt}' if row.attempt > 1 else ''}: {row.status}")
            for reason in row.reasons:
                out.print(f"      {reason}")
        return
    alike: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        reason = next(iter(row.reasons), "no reason recorded")
        alike.setdefault((row.status, re.sub(r"\d+([.,]\d+)*", "#", reason)), []).append(reason)
    for (status, _), reasons in list(alike.items())[:_REASONS]:
        line = Text(f"  {len(reasons)} {status}: {reasons[0]}")
        line.truncate(max(60, out.width), overflow="ellipsis")
        out.print(line)
    if (more := len(alike) - _REASONS) > 0:
        out.print(f"  and {more} more reasons: plumbline scorecard {data.campaign_id} -v", style="dim")


def _card(card: CardTable, chosen: Sequence[str]) -> None:
    cards = {c.provider: (i, c) for i, c in enumerate(card.cards)}
    shown = ProviderTable(f"{card.kind.capitalize()} · {card.title}", ("",), chosen)
    counts = [", ".join(f"{n} {status}" for status, n in cards[name][1].counts.items() if n) for name in chosen]
    shown.add(("trials",), counts, end=True)
    for _, rows in card.groups:
        for i, row in enumerate(rows):
            shown.add(
                (Text.assemble(f"{row.name} {row.arrow}".strip(), (f" {row.detail}" if row.detail else "", "dim")),),
                [_cell(row.cells[cards[name][0]]) for name in chosen],
                "dim" if row.minor else None,
                i == len(rows) - 1,
            )
    shown.print(right=True)


def _cell(cell: Cell) -> Text:
    return Text(f"{cell.text} {cell.unit}".strip(), style="bold green" if cell.mark == "best" else "")


def _acceptance(card: CardTable, chosen: Sequence[str]) -> None:
    cards = [next(c for c in card.cards if c.provider == name) for name in chosen]
    shown = ProviderTable("", ("criterion",), chosen)
    for row in criterion_rows(cards):
        shown.add((row.text,), [_outcome(v) for v in row.verdicts])
    shown.print()


def _outcome(verdict: CriterionCell | None) -> Text | str:
    if verdict is None:
        return ""
    if verdict.outcome == "insufficient":
        return marked("[yellow]insufficient[/] {}", verdict.explanation)
    colour = {"pass": "green", "mixed": "yellow", "fail": "red"}[verdict.outcome]
    margin = f" ({verdict.margin})" if verdict.margin else ""
    return Text.assemble((verdict.outcome, colour), f" {verdict.value}{margin}")


_LEADING = {"time to first token": "p50", "time per output token": "p50", "request throughput": "", "output token throughput": ""}
"""Figures that a line shows, with their statistics."""


def show_imported(runs: Sequence[ImportedRun], verbose: bool) -> None:
    """A line for each run; `verbose`: every figure beside the measured one, and the gaps in words."""
    if not runs:
        return
    out.print("\nImported results of other tools, never scored", style="bold")
    for run in runs:
        out.print(marked("[bold]{}[/] {} · {}, {}: {}", run.provider, run.workload, run.tool, run.measured_on, run.load))
        for text in run.rejected:
            out.print(f"  invalid: {text}", style="yellow")
        if not verbose:
            leading = [
                f"{f.name}{f' {f.statistic}' if f.statistic else ''} {f.imported} (here {f.measured})" for f in run.figures if _leads(f)
            ]
            out.print(f"  {' · '.join(leading)}")
            out.print(f"  not compared: {', '.join(dict.fromkeys(code for code, _ in run.gaps))}" if run.gaps else "", style="dim")
            continue
        shown = table("", "figure", "imported", "measured here", "measured over imported", "", right=("imported", "measured here"))
        for figure in run.figures:
            shown.add_row(f"{figure.name} {figure.statistic}".rstrip(), figure.imported, figure.measured, figure.ratio, figure.why)
        out.print(shown)
        for code, text in run.gaps:
            out.print(f"  {code}: {text}")


def _leads(figure: FigureRow) -> bool:
    return _LEADING.get(figure.name) == figure.statistic
