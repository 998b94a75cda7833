"""The columns of the exported tables: names that stay, what each holds and in which unit.

`python -m plumbline.reports.export_columns` prints them as `docs/export-tables.md` shows them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Holds = Literal["text", "number", "count", "flag", "day"]


@dataclass(frozen=True)
class ExportColumn:
    """`unit_in` names the column that holds the number's unit; `unit`: it is always this one. Neither: the number has none."""

    name: str
    holds: Holds
    meaning: str
    unit_in: str | None = None
    unit: str | None = None


def _text(name: str, meaning: str) -> ExportColumn:
    return ExportColumn(name, "text", meaning)


def _number(name: str, meaning: str, *, of: str | None = None, unit: str | None = None) -> ExportColumn:
    return ExportColumn(name, "number", meaning, of, unit)


def _count(name: str, meaning: str) -> ExportColumn:
    return ExportColumn(name, "count", meaning)


_CAMPAIGN = _text("campaign", "campaign id")
_CARD = (
    _CAMPAIGN,
    _text("kind", "training or inference"),
    _text("workload", "the workload's name"),
    _count("version", "the workload's version"),
    _text("provider", "the provider's name"),
)
_METRIC = (
    _text("metric", "the metric's standard name"),
    _text("statistic", "p50, p95, median, value, …"),
    _text("phase", "the phase it was measured in"),
)
_DECISION = (_CAMPAIGN, _text("team", "the team"), _text("kind", "training or inference"))
_UNIT = _text("unit", "unit of the numbers of this row")
_TRIALS = _text("trials", "ids of the trials behind it, separated by spaces")

COLUMNS: dict[str, tuple[ExportColumn, ...]] = {
    "scorecards": (
        *_CARD,
        _text("group", "latency, throughput, cost, reliability, …"),
        *_METRIC,
        _number("value", "median over usable repeats; empty: not measured", of="unit"),
        _number("low", "lower end of the interval", of="unit"),
        _number("high", "upper end of the interval", of="unit"),
        _number("coverage", "the interval's true confidence", unit="ratio"),
        _UNIT,
        _text("direction", "lower_is_better, higher_is_better or informative"),
        _count("n", "usable repeats that measured it"),
        _count("observations", "observations of all repeats together"),
        ExportColumn("leading", "flag", "whether this statistic and phase stand for the metric"),
        _TRIALS,
    ),
    "acceptance": (
        *_CARD,
        _text("criterion", "the criterion as it was declared"),
        *_METRIC,
        _text("outcome", "pass, mixed, fail or insufficient"),
        _number("value", "median over usable repeats", of="unit"),
        _number("worst", "the repeat that is furthest on the bad side", of="unit"),
        _number("limit", "the declared limit", of="unit"),
        _UNIT,
        _number("margin", "distance of the median from the limit over the limit, positive on the good side", unit="ratio"),
        _count("met", "repeats that meet it"),
        _count("n", "repeats that measured it"),
        _count("planned", "trials that were planned"),
        _text("explanation", "why the outcome is what it is"),
        _TRIALS,
    ),
    "decisions": (
        *_DECISION,
        _count("place", "rank; empty for a provider that is not eligible"),
        _text("provider", "the provider's name"),
        ExportColumn("eligible", "flag", "whether it passes every gate and was measured on every weighted metric"),
        _number("score", "weighted score, 1 is best at everything", unit="ratio"),
        _number("probability_first", "share of the draws in which it is first; empty: cannot be computed", unit="ratio"),
        _count("n", "usable repeats behind the number that has the fewest"),
        _text("why_not", "why it is not eligible"),
        _text("note", "what this decision cannot say"),
        _count("seed", "seed of the draws"),
        _count("draws", "how often the campaign was redrawn"),
        _TRIALS,
    ),
    "decision_values": (
        *_DECISION,
        _text("provider", "the provider's name"),
        _text("workload", "the workload's name"),
        *_METRIC,
        _number("weight", "share of the score", unit="ratio"),
        _number("value", "median over usable repeats; empty: not measured", of="unit"),
        _UNIT,
        _number("worth", "what the team's value function makes of it, 1 is best", unit="ratio"),
    ),
    "gates": (
        *_DECISION,
        _text("provider", "the provider's name"),
        _text("workload", "the workload's name"),
        _text("gate", "the gate as it was declared"),
        _number("value", "median over usable repeats; empty: not measured", of="unit"),
        _number("limit", "the declared limit", of="unit"),
        _UNIT,
        ExportColumn("passed", "flag", "not measured is not passed"),
    ),
    "reliability": (
        *_CARD,
        _count("planned", "trials that were planned"),
        _count("attempts", "attempts that were made, retries included"),
        *(_count(status, f"trials that ended {status}") for status in ("valid", "degraded", "invalid", "failed", "missing")),
        _count("launches", "attempts that count as launches of the provider's"),
        _count("launches_started", "launches whose harness started"),
        _number("launch_low", "lower end of the 95 % Wilson interval of the share that started", unit="ratio"),
        _number("launch_high", "its upper end", unit="ratio"),
        _number("launch_promised", "what the provider's contract promises", unit="ratio"),
        _text("launch_verdict", "met, missed, unproven or none_declared"),
    ),
    "findings": (
        _CAMPAIGN,
        _text("finding", "finding id"),
        _text("kind", "performance, environment, price, reliability or missing_data"),
        _text("severity", "info, warn or page"),
        _text("state", "open, acknowledged, accepted or resolved"),
        _text("headline", "the finding in a line"),
        _text("explanation", "what it is attributed to"),
        _text("series", "series key"),
    ),
    "trials": (
        *_CARD,
        _text("trial", "trial id"),
        _count("attempt", "attempt of the trial, from 1"),
        _text("slot", "time of day, UTC"),
        _count("repeat", "repeat in the slot, from 1"),
        _text("status", "valid, degraded, invalid, failed or missing, after the quality checks"),
        _text("failure_class", "why it failed"),
        _text("reasons", "why it is not simply valid"),
        ExportColumn("started", "day", "day of its first event, UTC"),
        _number("held", "from request to release, summed over nodes", unit="s"),
        _count("nodes", "instances that it held"),
    ),
    "metrics": (
        *_CARD,
        _text("trial", "trial id"),
        _count("attempt", "attempt of the trial, from 1"),
        *_METRIC,
        _number("value", "the trial's own number; empty: could not be measured", of="unit"),
        _number("low", "lower end of its own 95 % interval", of="unit"),
        _number("high", "upper end", of="unit"),
        _UNIT,
        _text("direction", "lower_is_better, higher_is_better or informative"),
        _count("n", "observations behind it"),
    ),
    "prices": (
        _text("provider", "the provider's name"),
        _text("purchase", "on_demand, spot or reserved"),
        _number("price", "price of the whole instance", of="unit"),
        _UNIT,
        ExportColumn("since", "day", "first day it holds"),
        ExportColumn("until", "day", "first day it no longer holds; empty: open"),
        _text("source", "where the price is from"),
    ),
}
"""The columns of each table, by the table's name."""

MEANINGS = {
    "scorecards": "every number of every scorecard, with its interval",
    "acceptance": "acceptance criteria as declared, and what became of them",
    "decisions": "each team's ranking of the providers",
    "decision_values": "the weighted numbers that the rankings are made of",
    "gates": "hard gates, provider by provider",
    "reliability": "how trials ended, and launches against what the contract promises",
    "findings": "what drifted",
    "trials": "every attempt of every trial",
    "metrics": "every number of every attempt, costs included",
    "prices": "the prices that costs are reckoned with",
}
"""What each table holds."""


def described(names: Iterable[str]) -> str:
    """What these tables hold, column by column, in Markdown."""
    lines: list[str] = []
    for name in names:
        rows = (f"| `{c.name}` | {c.holds} | {_unit(c)} | {c.meaning} |" for c in COLUMNS[name])
        lines += [f"## {name}", "", f"{MEANINGS[name][:1].upper()}{MEANINGS[name][1:]}.", ""]
        lines += ["| column | holds | unit | what it is |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _unit(column: ExportColumn) -> str:
    return f"in `{column.unit_in}`" if column.unit_in else column.unit or ""


if __name__ == "__main__":
    sys.stdout.write(described(COLUMNS))
