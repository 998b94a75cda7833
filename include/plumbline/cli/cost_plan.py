"""Options of a plan side by side, for `plumbline cost break-even --plan FILE|--line TEXT`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from plumbline.analysis.cost.bill import MixedUnits, Money
from plumbline.analysis.cost.planned_bill import PlannedOption, plan_bills
from plumbline.cli.cost import as_data, incomplete, lines_table
from plumbline.cli.output import clear_errors, emit, fail, out, table
from plumbline.declarations import DeclarationError, load
from plumbline.declarations.cost_plan import CostPlan, PlanLine, PlanOption
from plumbline.declarations.loader import load_file
from plumbline.metrics.formatting import unknown_name

Lines = Annotated[
    list[str] | None,
    typer.Option("--line", help='instead of a plan, one line: "gpu: 500 instance-hours at 98.32 USD/instance-hour"; again for more'),
]


def show_plan(file: Path | None, lines: Sequence[str], as_json: bool, day: date | None = None) -> None:
    """Print each line of each option, its total, and how much more or less than the first option it is. `day`: whose prices count; None: today."""
    if (file is None) == (not lines):
        fail("expected either a plan's file or at least one --line, and not both")
    with clear_errors(DeclarationError):
        written = load_file(file, CostPlan) if file is not None else _plan_of_lines(lines)
        declared = load()
    unknown = sorted({p for o in written.options for each in o.lines if (p := each.provider) and p not in declared.providers})
    if unknown:
        fail(f"{file or '--line'}: {unknown_name('provider', unknown[0], declared.providers)}")
    with clear_errors(MixedUnits):
        bills = plan_bills(written, declared.providers, day or datetime.now(timezone.utc).date())

    def show() -> None:
        if written.description:
            out.print(written.description)
        for option in bills:
            out.print(lines_table(option.name, option.bill))
            incomplete(option.bill)
        if len(bills) > 1:
            _compared(bills)

    emit(as_json, {"plan": written.name, "options": [{"name": o.name, "dearer": o.dearer, **as_data(o.bill)} for o in bills]}, show)


def _compared(bills: tuple[PlannedOption, ...]) -> None:
    against = f"against {bills[0].name}"
    shown = table("Side by side", "option", "total", against, right=("total", against))
    for option in bills:
        total = "–" if option.bill.total is None else f"{'' if option.bill.complete else '≥ '}{option.bill.total}"
        shown.add_row(option.name, total, "" if option.dearer is None else _difference(option.dearer))
    out.print(shown)


def _difference(dearer: Money) -> str:
    return f"+{dearer}" if dearer.amount > 0 else str(dearer).replace("-", "−")


def _plan_of_lines(lines: Sequence[str]) -> CostPlan:
    made = []
    for text in lines:
        try:
            made.append(PlanLine.written(text))
        except ValidationError as error:
            fail(f'--line "{text}": {error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")}')
        except ValueError as error:
            fail(f"--line {error}")
    return CostPlan(name="typed", options=(PlanOption(name="as typed", lines=tuple(made)),))
