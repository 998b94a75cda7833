"""`plumbline cost plan`: what a plan would cost, option by option."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from plumbline.cli.cost_show import as_data, incomplete, lines_table
from plumbline.cli.output import Json, clear_errors, emit, fail, out, table
from plumbline.declarations import DeclarationError, load
from plumbline.declarations.cost_plan import CostPlan, PlanLine, PlanOption
from plumbline.declarations.loader import load_file
from plumbline.prices import MixedUnits, Money
from plumbline.prices.plan import PlannedOption, plan_bills


def plan(
    file: Annotated[
        Path | None, typer.Argument(help="a plan's YAML file, such as include/config/plans/example-chat-50m-requests.yaml")
    ] = None,
    line: Annotated[
        list[str] | None,
        typer.Option("--line", help='instead of a file, one line: "gpu: 500 instance-hours at 98.32 USD/instance-hour"; again for more'),
    ] = None,
    as_json: Json = False,
) -> None:
    """What a plan would cost: each line of each option, its total, and how much more or less than the first option it is."""
    if (file is None) == (not line):
        fail("expected either a plan's file or at least one --line, and not both")
    with clear_errors(DeclarationError):
        written = load_file(file, CostPlan) if file is not None else _typed(line or [])
        declared = load()
    unknown = sorted({p for o in written.options for each in o.lines if (p := each.provider) and p not in declared.providers})
    if unknown:
        fail(f'{file}: no provider is called "{unknown[0]}"; expected one of {", ".join(sorted(declared.providers))}')
    with clear_errors(MixedUnits):
        found = plan_bills(written, declared.providers, datetime.now(timezone.utc).date())

    def show() -> None:
        if written.description:
            out.print(written.description, highlight=False, markup=False, soft_wrap=True)
        for option in found:
            out.print(lines_table(option.name, option.bill))
            incomplete(option.bill)
        if len(found) > 1:
            _compared(found)

    emit(as_json, {"plan": written.name, "options": [{"name": o.name, "dearer": o.dearer, **as_data(o.bill)} for o in found]}, show)


def _compared(found: tuple[PlannedOption, ...]) -> None:
    against = f"against {found[0].name}"
    shown = table("Side by side", "option", "total", against, right=("total", against))
    for option in found:
        total = "–" if option.bill.total is None else f"{'' if option.bill.complete else '≥ '}{option.bill.total}"
        shown.add_row(option.name, total, "" if option.dearer is None else _difference(option.dearer))
    out.print(shown)


def _difference(dearer: Money) -> str:
    return f"+{dearer}" if dearer.amount > 0 else str(dearer).replace("-", "−")


def _typed(lines: list[str]) -> CostPlan:
    made = []
    for text in lines:
        try:
            made.append(PlanLine.written(text))
        except ValidationError as error:
            fail(f'--line "{text}": {error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")}')
        except ValueError as error:
            fail(f"--line {error}")
    return CostPlan(name="typed", options=(PlanOption(name="as typed", lines=tuple(made)),))
