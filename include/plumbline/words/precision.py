"""Precisions of one model in words: costs, savings, and the measured difference in quality."""

from __future__ import annotations

from typing import Any

from plumbline.analysis.cost.precision import Lever, PrecisionRow
from plumbline.analysis.cost.unit_costs import COSTS, not_measured
from plumbline.metrics.formatting import common_scale, format_name, format_percent


def cost_text(lever: Lever, row: PrecisionRow) -> str:
    """A cost in the unit that all rows share; an en dash where there is none."""
    shown = common_scale("USD", [r.cost.value for r in lever.rows if r.cost is not None])
    return shown.text(row.cost.value if row.cost is not None else None)


def no_cost_text(lever: Lever, row: PrecisionRow) -> str:
    """Why a precision has no cost; empty if it has one."""
    if row.cost is not None:
        return ""
    outcome = next(each for each in COSTS if each.metric == lever.metric)
    return f"{format_name(lever.metric)} has no value in any usable trial: no price, or {not_measured(outcome)}"


def saving_text(lever: Lever, row: PrecisionRow) -> str:
    """The saving of a precision against the reference; empty for the reference and if it is unknown."""
    return "" if row.saving is None or row.precision == lever.reference else format_saving(row.saving)


def format_saving(saving: float) -> str:
    """`12 % less`, or `more` where it costs more."""
    return f"{format_percent(abs(saving))} {'less' if saving >= 0 else 'more'}"


def quality_text(lever: Lever, row: PrecisionRow) -> str:
    """The measured quality beside the reference's; what was not measured is said, never shown as equal."""
    right = "" if row.accuracy is None else f"; {format_percent(row.accuracy, 1)} of the questions are answered right"
    return _difference_text(lever, row) + right


def _difference_text(lever: Lever, row: PrecisionRow) -> str:
    own, base, agreement = row.difference.own, row.difference.base, lever.measure == "output_agreement"
    if row.difference.is_reference:
        return "the reference" if agreement or base is None else f"the reference, final loss {base:.4g} nats"
    if own is None:
        return "not measured"
    if agreement:
        return f"{format_percent(own, 1)} of the outputs are those of {row.difference.other}"
    if base is None:
        return f"final loss {own:.4g} nats; that of {row.difference.other} was not measured"
    spread = row.difference.spread
    repeats = "one repeat each" if spread is None else f"repeats spread over {spread:.2g}"
    return f"final loss {own:.4g} nats, {own - base:+.2g} ({repeats})"


def lever_data(lever: Lever) -> dict[str, Any]:
    """The fields of a lever for JSON, what its rows say in words."""
    return {**vars(lever), "rows": [_row_data(lever, row) for row in lever.rows]}


def _row_data(lever: Lever, row: PrecisionRow) -> dict[str, Any]:
    figures = {name: value for name, value in vars(row).items() if name != "accuracy"}
    return {**figures, "difference": quality_text(lever, row), "why": no_cost_text(lever, row)}
