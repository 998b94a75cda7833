"""Owned, rented, reserved, serverless or hosted: which is cheapest at which use, what that rests on, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from plumbline.analysis.cost.payment_options import PaymentOptions
from plumbline.answers.ways_to_pay import WaysCase
from plumbline.metrics.formatting import format_amount, format_percent, join_words
from plumbline.presentation.charts.chart import Chart
from plumbline.presentation.charts.owning import owning_chart
from plumbline.presentation.cost_forecasts import way_sentences
from plumbline.words.costs import option_text, options_data

DECLARED_BY = {
    "reserve": "`prices: [{purchase: reserved, …}]` in its providers/NAME.yaml, or a contract",
    "own": "`owned: [{instances: …, capital: …}]` in its providers/NAME.yaml",
    "serverless": "`serverless: [{gpu_second: …}]` in a provider that measured the workload",
    "hosted": "`hosted: [{name: …, workloads: [NAME]}]` in economics.yaml",
}
"""What would make each way to pay known."""
NO_CASE = "No served workload has a usable trial, so nothing can be compared."


@dataclass(frozen=True)
class WayLine:
    """One way to pay. `cheapest`: where it is, by utilisation; `year`: USD over twelve months; `basis`: what its price rests on. Of one that is not
    known, `cheapest` and `year` are en dashes and `basis` says what is missing."""

    name: str
    cheapest: str
    year: str
    basis: str
    known: bool


@dataclass(frozen=True)
class CostAssumption:
    """`declared`: whether economics.yaml or a result has it."""

    name: str
    value: str
    declared: bool


@dataclass(frozen=True)
class OwningCase:
    """A provider and a workload in the list. `answer`: where each way is cheapest, or why there is no comparison."""

    provider: str
    workload: str
    campaign: str
    simulated: bool
    answer: str
    compared: bool


@dataclass(frozen=True)
class OwningView:
    """One case in full. `year`: the cheapest way over twelve months at the declared volume, empty without one; `fleets`: the costs and the instances
    behind it."""

    case: OwningCase
    year: str
    lines: tuple[WayLine, ...]
    fleets: str
    assumptions: tuple[CostAssumption, ...]
    chart: Chart | None
    command: str


def owning_cases(cases: Sequence[WaysCase]) -> tuple[OwningCase, ...]:
    """Those that are compared first, of them those with an owned price."""
    found = sorted(cases, key=lambda case: (isinstance(case.ways, str), "own" not in _names(case.ways)))
    return tuple(
        OwningCase(case.provider, case.workload, case.campaign, case.simulated, _answer(case.ways), not isinstance(case.ways, str))
        for case in found
    )


def owning_view(case: WaysCase) -> OwningView:
    ways = case.ways
    (head,) = owning_cases([case])
    return OwningView(
        case=head,
        year="" if isinstance(ways, str) or not ways.months else _year(ways),
        lines=_lines(ways),
        fleets="" if isinstance(ways, str) else "; ".join(way_sentences(ways)[1:]),
        assumptions=_assumptions(case),
        chart=None if isinstance(ways, str) else owning_chart(case.provider, case.workload, ways),
        command=f"plumbline cost break-even {case.provider} {case.workload}",
    )


def owning_data(cases: Sequence[WaysCase], on: date) -> list[dict[str, Any]]:
    """For JSON: of each case what `plumbline cost break-even PROVIDER WORKLOAD --json` says of the ways to pay."""
    return [
        {
            "provider": case.provider,
            "workload": case.workload,
            "campaign": case.campaign,
            "simulated": case.simulated,
            "on": on,
            "ways": {"reason": case.ways} if isinstance(case.ways, str) else {**options_data(case.ways), "totals": case.ways.totals},
        }
        for case in cases
    ]


def _names(ways: PaymentOptions | str) -> tuple[str, ...]:
    return () if isinstance(ways, str) else tuple(option.name for option in ways.options)


def _answer(ways: PaymentOptions | str) -> str:
    if isinstance(ways, str):
        return f"not known: {ways}"
    if len(ways.spans) == 1:
        return f"{ways.spans[0][0]} is cheapest at any use"
    return f"cheapest is {join_words(f'{name} {_span(low, high)}' for name, low, high in ways.spans)} of the capacity"


def _year(ways: PaymentOptions) -> str:
    usd = min(ways.totals)
    name = ways.options[ways.totals.index(usd)].name
    return f"over twelve months from {ways.months[0].volume:,.0f} requests a month on, {name} is cheapest: {format_amount(usd)} USD"


def _span(low: float, high: float) -> str:
    return f"below {format_percent(high, 1)}" if low == 0 else f"from {format_percent(low, 1)}" if high == 1 else _between(low, high)


def _between(low: float, high: float) -> str:
    return f"from {format_percent(low, 1)} to {format_percent(high, 1)}"


def _lines(ways: PaymentOptions | str) -> tuple[WayLine, ...]:
    lines, left_out = [], dict[str, str]()
    if not isinstance(ways, str):
        totals = ways.totals if ways.months else (None,) * len(ways.options)
        for option, total in zip(ways.options, totals, strict=True):
            spans = [_span(low, high) for name, low, high in ways.spans if name == option.name]
            year = "not known" if total is None else f"{format_amount(total)} USD"
            lines.append(WayLine(option.name, join_words(spans) or "nowhere", year, option_text(option), True))
        left_out = dict(each.split(": ", 1) for each in ways.left_out)
    names = [line.name for line in lines]
    for name, declare in DECLARED_BY.items():
        hosted = name == "hosted" and any(own not in ("rent", *DECLARED_BY) and not own.startswith("serverless") for own in names)
        if not hosted and not any(own.startswith(name) for own in (*names, *left_out)):
            lines.append(WayLine(name, "–", "–", f"not declared: {declare}", False))
    lines += [WayLine(name, "–", "–", why, False) for name, why in left_out.items()]
    return tuple(lines)


def _assumptions(case: WaysCase) -> tuple[CostAssumption, ...]:
    inputs, about = case.inputs, (case.provider, case.workload)
    used, grows = inputs.range("utilisation", ""), inputs.economics.assumed("growth", *about)
    volume = inputs.volume(inputs.at_best("cost_per_1k_requests"))
    lines = [
        CostAssumption(
            "utilisation", "not known: all paid time counts as used" if used is None else format_percent(used.expected), used is not None
        ),
        CostAssumption(
            "volume", "not known: no cost over twelve months" if volume is None else f"{volume:,.0f} requests a month", volume is not None
        ),
        CostAssumption(
            "growth",
            "not known: the volume stays" if grows is None else f"{format_percent(float(grows.value), 1)} a month",
            grows is not None,
        ),
    ]
    if not isinstance(case.ways, str):
        lines.append(CostAssumption("capacity", f"{case.ways.capacity:,.0f} requests a month, as {case.campaign} measured", True))
    return tuple(lines)
