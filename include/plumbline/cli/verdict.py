"""A campaign's verdict on one screen: winners as bars, drift, criteria and costs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from plumbline.cli.output import SEVERITY_STYLES, TONES, marked, out
from plumbline.cli.tables import TOP
from plumbline.metrics.formatting import shorten
from plumbline.metrics.names import names_by_text
from plumbline.presentation.verdicts import Bar, CampaignVerdict, WorkloadVerdict
from plumbline.results.finding import SYMBOLS

_IN_FULL = 4
"""Workloads that get bars; more of them get a line each."""
_LINES, _FINDINGS = 20, 4
_PARTS = " ▏▎▍▌▋▊▉"


def show_verdict(verdict: CampaignVerdict, *, everything: bool = False, most: int = TOP) -> None:
    """Print it. `most`: providers of a workload; `everything`: all providers, workloads, choices and findings."""
    out.print(verdict.headline, style="bold yellow" if verdict.busy else "bold")
    out.print(_head(verdict))
    if verdict.request:
        out.print(verdict.request, style="dim", markup=False)
    if len(verdict.workloads) <= _IN_FULL or everything:
        for one in verdict.workloads:
            out.print()
            _workload(one, len(one.bars) if everything else most)
    else:
        out.print()
        _lines(verdict.workloads[:_LINES])
        if more := len(verdict.workloads) - _LINES:
            out.print(f"  and {more} more workloads: --all", style="dim") if more > 0 else None
    out.print()
    _choices(verdict, everything)
    _drift(verdict, len(verdict.findings) if everything else _FINDINGS)
    if verdict.criteria:
        out.print(_named_row("Criteria", _criteria(verdict.criteria)))
    for tile in verdict.tiles[:-1]:
        out.print(_named_row(tile.name, Text.assemble((tile.value, TONES.get(tile.tone, "")), f" {tile.note}")))


def _head(verdict: CampaignVerdict) -> Text:
    names = verdict.providers
    who = ", ".join(names) if sum(map(len, names)) < out.width // 2 else f"{len(names)} providers"
    mark = {"": "", "some": " SIMULATED in part", "all": " SIMULATED"}[verdict.simulated]
    return marked("{}[yellow]{}[/] · {} · {}", verdict.campaign_id, mark, who, verdict.trials_text)


def _workload(one: WorkloadVerdict, most: int) -> None:
    title = marked("[bold]{}[/] {} [dim]· {} {}[/]", one.kind.capitalize(), one.title, one.metric, one.arrow)
    out.print(title.append(f"  {one.leader}", _leader_style(one)))
    bars = one.bars[:most]
    if bars:
        name, text, interval = (
            max(len(part) for part in parts) for parts in zip(*((b.provider, b.text, b.interval) for b in bars), strict=True)
        )
        room = min(30, out.width - name - text - interval - 8)
        for bar in bars:
            out.print(_bar(bar, name, text, room))
        if more := len(one.bars) - len(bars):
            out.print(f"  and {more} more: --all", style="dim")
    _without(one)


def _bar(bar: Bar, name: int, text: int, room: int) -> Text:
    eighths = max(1, round(8 * max(room, 0) * bar.share))
    drawn = ("█" * (eighths // 8) + _PARTS[eighths % 8].strip()).ljust(room) if room >= 8 else ""
    style = "green" if bar.best else "cyan"
    return Text.assemble(
        f"  {bar.provider:<{name}}  ", (drawn, style), f"  {bar.text:>{text}}", (f"  {bar.interval}" if bar.interval else "", "dim")
    )


def _without(one: WorkloadVerdict, indent: int = 2) -> None:
    """A line for each reason why providers have no bar."""
    for why, providers in names_by_text(one.without.items()).items():
        out.print(Padding(Text(f"{shorten(providers)}: {why}", "dim"), (0, 0, 0, indent)))


def _choices(verdict: CampaignVerdict, everything: bool) -> None:
    for number, row in enumerate(verdict.choices if everything else verdict.rows):
        style = "" if row.verdict == "stay" else "bold yellow" if row.verdict in ("move", "unclear", "only") else "bold"
        line = Text.assemble(f"{row.team} · {row.workloads}: ", (row.sentence, style))
        for aside in filter(None, (row.saves, row.today)):
            line.append(f"; {aside}", "dim")
        out.print(_named_row("" if number else "Choices", line))
    if verdict.more and not everything:
        out.print(_named_row("", Text(f"and {verdict.more}: --all", "dim")))


def _lines(workloads: Sequence[WorkloadVerdict]) -> None:
    """A line for each workload."""
    kind, name, best, text = (
        max(map(len, parts)) for parts in zip(*((w.kind, w.workload, w.leader, _top(w)) for w in workloads), strict=True)
    )
    for one in workloads:
        line = Text.assemble(
            (f"  {one.kind:<{kind}}  ", "dim"), f"{one.workload:<{name}}  ",
            (f"{one.leader:<{best}}", _leader_style(one)),
            f"  {_top(one):>{text}}",
        )  # fmt: skip
        if line.cell_len + 2 + len(one.metric) <= out.width:
            line.append(f"  {one.metric}", "dim")
        out.print(line)
        if not one.bars:
            _without(one, indent=4 + kind)


def _leader_style(one: WorkloadVerdict) -> str:
    unclear = sum(bar.best for bar in one.bars) != 1 and len(one.bars) > 1
    return "yellow" if unclear else "bold" if one.bars else "dim"


def _top(one: WorkloadVerdict) -> str:
    return one.bars[0].text if one.bars else ""


def _drift(verdict: CampaignVerdict, most: int) -> None:
    parts = [f"{count} {state}" for state, count in verdict.series.items()]
    out.print(_named_row("Drift", f"{sum(verdict.series.values())} series: {', '.join(parts)}" if parts else "nothing compared"))
    for finding in verdict.findings[:most]:
        text = Text.assemble((f"  {SYMBOLS[finding.severity]} {finding.severity:<4} ", SEVERITY_STYLES[finding.severity]), finding.headline)
        text.truncate(max(40, out.width), overflow="ellipsis")
        out.print(text)
    if more := len(verdict.findings) - most:
        out.print(f"  and {more} more: plumbline findings", style="dim") if more > 0 else None


def _criteria(counts: dict[str, int]) -> Text:
    total = sum(counts.values())
    words = {"pass": ("pass", "green"), "mixed": ("mixed", "yellow"), "fail": ("fail", "red"), "insufficient": ("cannot tell", "yellow")}
    if counts.get("pass") == total:
        return Text.assemble((f"all {total} pass", "green"))
    parts = [(f"{counts[name]} {word}", style) for name, (word, style) in words.items() if counts.get(name)]
    cell = Text()
    for number, part in enumerate(parts):
        cell.append(", " if number else "").append(*part)
    return cell.append(f" of {total}")


def _named_row(name: str, value: str | Text) -> Table:
    line = Table.grid(padding=(0, 1), pad_edge=False)
    line.add_column(width=14, style="bold")
    line.add_column(overflow="fold")
    line.add_row(name, value)
    return line
