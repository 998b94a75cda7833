"""Runs of other benchmark tools beside a campaign's scorecards, as `plumbline scorecard` shows them."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.cli.output import marked, out, table
from plumbline.presentation.imported_runs import FigureRow, ImportedRun

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
