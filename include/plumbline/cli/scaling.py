"""`plumbline scaling`: how long services with a rising load miss their SLO, as the page Scaling shows it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

import typer
from rich.text import Text

from plumbline.answers.scaling import scaled_workloads, unscaled_services
from plumbline.cli.declared import load_declared
from plumbline.cli.output import Json, emit, fail, out, read_archive, table
from plumbline.metrics.formatting import capitalize_first, unknown_name
from plumbline.presentation.scaling import DECLARE, ScalingView, scaling_view

_STYLES = {"pass": "green", "mixed": "yellow", "fail": "red"}


def scaling(
    workload: Annotated[str | None, typer.Argument(help="a workload whose load is stepped up; all if none is named")] = None,
    as_json: Json = False,
) -> None:
    declared = load_declared()
    if workload is not None and workload not in declared.workloads:
        fail(unknown_name("workload", workload, declared.workloads))
    with read_archive(empty=True) as archive:
        found = scaled_workloads(archive, declared, datetime.now(timezone.utc).date())
    views = [scaling_view(each, money=True) for each in found if workload in (None, each.spec.name)]
    unscaled = unscaled_services(declared)

    def show() -> None:
        if not views:
            out.print(
                f"{workload or 'no served workload'} steps no load up; the phase {DECLARE} measures how long scaling takes", markup=False
            )
            return
        for view in views:
            _show(view)
        if unscaled and workload is None:
            out.print(f"without the phase scale_out, so not measured: {', '.join(unscaled)}", style="dim", markup=False)

    emit(as_json, {"workloads": views, "unscaled": unscaled}, show)


def _show(view: ScalingView) -> None:
    out.print(f"{view.workload}: {view.answer}", style="bold", markup=False, soft_wrap=True)
    out.print(f"  {view.load}", style="dim", markup=False)
    if not view.lines:
        out.print(f"  plumbline run --workload {view.workload} measures it", style="dim", markup=False)
        return
    numbers = (*view.headings, "repeats")
    shown = table("", "provider", "campaign", *numbers, "criteria", right=numbers)
    for line in view.lines:
        figures = (f"{f.text}{f' ({f.interval})' if f.interval else ''}" for f in line.figures)
        criteria = Text("\n").join(Text(f"{v.metric} {v.limit}: {v.outcome}", _STYLES.get(v.outcome, "yellow")) for v in line.verdicts)
        name = Text.assemble(line.provider, (" SIMULATED" if line.simulated else "", "yellow"))
        shown.add_row(name, line.campaign, *figures, line.repeats, criteria or "–")
    out.print(shown)
    for line in view.lines:
        if line.why:
            out.print(f"  {line.provider}: {capitalize_first(line.why)}", style="dim", markup=False)
