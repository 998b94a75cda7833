"""`plumbline doctor`: the whole installation, each line with its remedy."""

from __future__ import annotations

import typer
from rich.text import Text

from plumbline.cli.output import FAILED, OK, Json, emit, out
from plumbline.launch.cluster.doctor.line import Line

_MARK = {"ok": ("✓", "green"), "failed": ("✗", "red"), "unknown": ("–", "dim")}


def doctor(as_json: Json = False) -> None:
    """Check this installation: Airflow, both databases, the result store, pools, DAGs, connections, disk, clock and versions."""
    from plumbline.orchestration.doctor.examine import examine

    lines = []
    for line in examine():
        lines.append(line)
        if not as_json:
            show(line)
    conclude({}, lines, as_json)


def show(line: Line) -> None:
    """One line, with its remedy below it."""
    out.print(Text.assemble(_MARK[line.status], f" {line.check:<28} "), end="")
    out.print(line.found, highlight=False, markup=False, soft_wrap=True)
    if line.remedy:
        out.print(f"  {'':<28} → {line.remedy}", style="yellow", highlight=False, markup=False, soft_wrap=True)


def conclude(about: dict[str, str], lines: list[Line], as_json: bool) -> None:
    """The verdict, or all lines as JSON; exit code 1 if a check failed."""
    wrong = [line for line in lines if line.status == "failed"]
    verdict = f"{len(wrong)} of {len(lines)} checks failed" if wrong else "all that was checked is right"
    emit(as_json, {**about, "ok": not wrong, "checks": lines}, lambda: out.print(verdict, highlight=False))
    raise typer.Exit(FAILED if wrong else OK)
