"""Charts of costs: bills, forecasts and their drivers, spot and hosted break-even, cost by precision."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from plumbline.analysis.cost.bill import ITEMS
from plumbline.analysis.cost.campaign_bill import ProviderCost
from plumbline.analysis.cost.forecast import CostForecast
from plumbline.analysis.cost.hosted_forecast import HostedForecast
from plumbline.analysis.cost.precision import Lever
from plumbline.analysis.cost.scenarios import DEARER
from plumbline.analysis.cost.spot_forecast import SpotForecast, spot_cost
from plumbline.analysis.cost.trial_bill import MONTH_H
from plumbline.metrics.formatting import Scale, capitalize_first, common_scale, format_name, format_percent
from plumbline.presentation.charts.chart import (
    DASHES,
    PAPER,
    STAGE_COLOURS,
    Chart,
    Part,
    axis,
    bars,
    categories,
    error_bars,
    line,
    log_axis,
    marks,
    pattern,
    round_for_chart,
    significant,
    vertical,
)
from plumbline.words.costs import break_even_text, format_driver, rate_text, run_text, spot_even_text
from plumbline.words.precision import quality_text, saving_text

PARTS = {
    "busy": "delivering",
    "failed": "repeated work",
    "idle": "idle",
    "egress": "egress",
    "storage": "storage",
    "engineering": "engineering",
    "support": "support plan",
}
DRIVERS = {
    "price": "instance price",
    "rate": "measured rate",
    "utilisation": "utilisation",
    "failure_rate": "failure rate",
    "egress": "egress",
    "storage": "storage",
}
COST_SECTION = "cost"
_POINTS = 81
_PATTERNS = ("", "/", "x", "\\", "-", ".", "+")
_ITEM_PATTERNS = ("", "/", "x", "-", "|", "+", ".", "\\", "")


def forecast_charts(
    costs: Sequence[CostForecast], spots: Sequence[SpotForecast] = (), hosted: Sequence[HostedForecast] = ()
) -> tuple[Chart, ...]:
    """Every chart that these allow: by workload the providers' ranges, then each one's drivers, components, spot and break-even."""
    workloads = dict.fromkeys(o.workload for o in costs)
    charts = [range_chart([o for o in costs if o.workload == workload]) for workload in workloads]
    charts += [chart for o in costs for chart in (tornado_chart(o), parts_chart(o))]
    charts += [spot_chart(s) for s in spots]
    charts += [chart for h in hosted for chart in (volume_chart(h), utilisation_chart(h))]
    return tuple(c for c in charts if c is not None)


def range_chart(forecasts: Sequence[CostForecast]) -> Chart | None:
    """Best, expected and worst cost of one workload's outcome by provider; None if none of them has a cost."""
    known = [(forecast, scenarios) for forecast in forecasts if (scenarios := forecast.scenarios) is not None]
    if not known:
        return None
    scale = common_scale("USD", [scenarios.expected.total for _, scenarios in known])
    data: list[Part] = []
    for forecast, scenarios in sorted(known, key=lambda pair: -pair[1].expected.total):
        best, expected, worst = (part.total / scale.factor for part in (scenarios.best, scenarios.expected, scenarios.worst))
        hover = f"{forecast.provider}: {best:,.4g} to {worst:,.4g} {scale.suffix}"
        data.append(bars([forecast.provider], [worst - best], "$p0", hover, base=[best], width=0.34, marker={"opacity": 0.32}))
        text = {
            "mode": "markers+text",
            "text": [scale.number(scenarios.expected.total)],
            "textposition": "top center",
            "textfont": {"color": "$ink"},
        }
        hover = f"{forecast.provider}, expected: %{{x:,.4g}} {scale.suffix}"
        data.append(marks([expected], [forecast.provider], "$p0", hover, size=11, symbol="diamond", marker={"line": PAPER}, **text))
    first = known[0][0]
    return Chart(
        name=f"{first.kind}-{first.workload}-scenarios",
        section=COST_SECTION,
        title=f"{capitalize_first(first.outcome)}: best, expected, worst, {first.workload}",
        caption="Bar: from the best to the worst case of all declared and measured ranges. Diamond: expected case. Undeclared costs are excluded.",
        data=data,
        layout={"xaxis": axis(scale.suffix, rangemode="tozero"), "yaxis": categories(), "showlegend": False},
        height=140 + 64 * len(known),
    )


def tornado_chart(forecast: CostForecast) -> Chart | None:
    """Each driver over its range, the widest on top; None where nothing has a range."""
    tornado = forecast.tornado
    if tornado is None or not tornado.bars:
        return None
    scale = common_scale("USD", [tornado.expected])
    drivers = tornado.bars[::-1]  # Plotly draws the first one at the bottom
    middle = tornado.expected / scale.factor
    data = []
    for dear, name, colour, shape in ((False, "cheaper", "$p2", ""), (True, "dearer", "$p1", "/")):
        ends = ["high" if (DEARER[bar.driver] == "high") == dear else "low" for bar in drivers]
        costs = [(bar.at_high if end == "high" else bar.at_low) / scale.factor for bar, end in zip(drivers, ends, strict=True)]
        data.append(
            bars(
                [DRIVERS[bar.driver] for bar in drivers],
                [significant(cost - middle) for cost in costs],
                colour,
                f"%{{y}} %{{text}}: %{{customdata:,.4g}} {scale.suffix}<extra>{name}</extra>",
                name=name,
                base=[middle] * len(drivers),
                text=[
                    format_driver(bar.driver, bar.range.high if end == "high" else bar.range.low)
                    for bar, end in zip(drivers, ends, strict=True)
                ],
                textposition="outside",
                textfont={"color": "$soft"},
                cliponaxis=False,
                marker={"opacity": 0.75, "pattern": pattern(shape)},
                customdata=[significant(cost) for cost in costs],
            )
        )
    reach, edges = max(bar.width for bar in drivers) / scale.factor, [middle + x for trace in data for x in trace["x"]]
    room = [max(0.0, min(edges) - 0.6 * reach), max(edges) + 0.42 * reach]  # for the text beside the bars
    return Chart(
        name=f"{forecast.kind}-{forecast.workload}-{forecast.provider}-tornado",
        section=COST_SECTION,
        title=f"Cost drivers of {forecast.outcome}, {forecast.workload} on {forecast.provider}",
        caption=f"Each driver over its range, the others as expected ({scale.text(tornado.expected)}). The widest bar is the largest uncertainty.",
        data=data,
        layout={
            "barmode": "overlay",
            "xaxis": axis(scale.suffix, range=room),
            "yaxis": categories(),
            "shapes": [vertical(middle)],
            "bargap": 0.35,
        },
        height=130 + 44 * len(drivers),
    )


def parts_chart(forecast: CostForecast) -> Chart | None:
    """Components of the best, the expected and the worst cost."""
    scenarios = forecast.scenarios
    if scenarios is None:
        return None
    rows = (("worst", scenarios.worst), ("expected", scenarios.expected), ("best", scenarios.best))
    scale = common_scale("USD", [parts.total for _, parts in rows])
    data = []
    for i, (part, name) in enumerate(PARTS.items()):
        values = [parts.by_name()[part] for _, parts in rows]
        if any(values):
            x = [None if value is None else significant(value / scale.factor) for value in values]
            hover = f"%{{y}}, {name}: %{{x:,.4g}} {scale.suffix}"
            style = {"line": PAPER, "pattern": pattern(_PATTERNS[i])}
            data.append(bars([label for label, _ in rows], x, f"$s{2 * i % STAGE_COLOURS}", hover, name=name, marker=style))
    excluded = [
        m.what.replace("_", " ") for m in forecast.unknown if m.what in PARTS or m.what in ("utilisation", "failure_rate", "volume")
    ]
    note = f" Excluded, not declared: {', '.join(excluded)}." if excluded else ""
    return Chart(
        name=f"{forecast.kind}-{forecast.workload}-{forecast.provider}-parts",
        section=COST_SECTION,
        title=f"Cost components of {forecast.outcome}, {forecast.workload} on {forecast.provider}",
        caption=f"{capitalize_first(format_name(forecast.price))}. Rate {rate_text(forecast.rate)}.{note}",
        data=data,
        layout=_stacked_layout(scale.suffix, bargap=0.4),
        height=290,
    )


def _stacked_layout(unit: str, exponents: Part | None = None, **attributes: Any) -> Part:
    xaxis = axis(unit, rangemode="tozero", **(exponents or {}))
    return {"barmode": "stack", "xaxis": xaxis, "yaxis": categories(), "legend": {"traceorder": "normal"}, **attributes}


def spot_chart(s: SpotForecast) -> Chart | None:
    """Cost of a finished run over the interruption rate, spot compared with on demand; None where it is unknown."""
    if s.cost is None or s.run is None or s.on_demand_per_hour is None or s.spot_per_hour is None or s.per_hour is None:
        return None
    break_even = s.cost.break_even
    low, high = s.per_hour / 10, max(3 * s.per_hour, 2 * break_even if break_even is not None else 30 * s.per_hour)
    rates = np.geomspace(low, high, _POINTS)
    costs = np.array([spot_cost(s.run, s.on_demand_per_hour, s.spot_per_hour, float(rate)).spot for rate in rates])
    visible = np.isfinite(costs) & (costs <= 3 * s.cost.on_demand)  # beyond, a run practically never ends
    scale = common_scale("USD", [s.cost.on_demand, s.cost.spot])
    points = [("declared", s.per_hour, s.cost.spot, "diamond")] + (
        [("break-even", break_even, s.cost.on_demand, "x")] if break_even else []
    )
    along = "interruptions an hour"
    data = [
        _curve("spot", rates[visible], costs[visible] / scale.factor, "$p0", "solid", along, scale),
        _curve("on demand", rates[[0, -1]], np.full(2, s.cost.on_demand / scale.factor), "$p1", "dash", along, scale),
    ]
    for name, x, y, symbol in points:
        text = {"mode": "markers+text", "text": [f"{name}: {x:.3g}/h, {scale.text(y)}"], "textfont": {"color": "$ink"}}
        place = "bottom right" if name == "declared" else "top left"
        hover = f"{name}: %{{x:.3g}}/h, %{{y:,.4g}} {scale.suffix}"
        mark = marks([significant(x)], [significant(y / scale.factor)], "$ink", hover, size=10, symbol=symbol, name=name, showlegend=False)
        data.append({**mark, **text, "textposition": place})
    return Chart(
        name=f"training-{s.workload}-{s.provider}-spot",
        section=COST_SECTION,
        title=f"Finished run on spot, {s.workload} on {s.provider}",
        caption=f"{capitalize_first(run_text(s.work))}; {s.restart_basis}. {capitalize_first(spot_even_text(s.cost.why))}. "
        "Waiting for capacity is not included.",
        data=data,
        layout={
            "xaxis": log_axis(f"{along} (log scale)", rates.tolist()),
            "yaxis": axis(scale.suffix, rangemode="tozero"),
            "hovermode": "closest",
        },
    )


def volume_chart(h: HostedForecast) -> Chart | None:
    """Monthly cost over the monthly volume: own deployment at its lowest, expected and highest utilisation, and each hosted model."""
    deployment, priced = h.own, [(comparison, comparison.per_request) for comparison in h.against if comparison.per_request is not None]
    if deployment is None or not priced:
        return None
    break_evens = [comparison.volume.value for comparison, _ in priced if comparison.volume is not None and comparison.volume.value]
    top = 1.6 * max([*break_evens, h.volume or 0.0]) or 2 * deployment.rate * 3600 * MONTH_H
    volumes, span = np.linspace(0.0, top, _POINTS), h.utilisation
    shares = (h.expected,) if span is None else dict.fromkeys((span.expected, span.low, span.high))
    lines = [
        (
            "own" if span is None else f"own at {format_percent(share)} utilisation",
            np.array([deployment.monthly(float(v), share) for v in volumes]),
            "$p0",
        )
        for share in shares
    ]
    lines += [(comparison.hosted.name, volumes * per_request, f"$p{1 + i % 7}") for i, (comparison, per_request) in enumerate(priced)]
    scale = common_scale("USD", [float(np.max(values)) for _, values, _ in lines])
    data = [
        _curve(name, volumes, values / scale.factor, colour, DASHES[i % len(DASHES)], "requests a month", scale)
        for i, (name, values, colour) in enumerate(lines)
    ]
    for comparison, per_request in priced:
        if comparison.volume is not None and (even := comparison.volume.value):
            data.append(_break_even_mark(comparison.hosted.name, even, even * per_request / scale.factor, scale))
    sentences = " ".join(f"{each.hosted.name}: {break_even_text(each.volume)}." for each, _ in priced if each.volume is not None)
    return Chart(
        name=f"inference-{h.workload}-{h.provider}-break-even-volume",
        section=COST_SECTION,
        title=f"Own or hosted, by monthly volume, {h.workload} on {h.provider}",
        caption=f"{sentences} Rate {rate_text(h.rate)}.{'' if h.volume is None else ' Dotted: the declared volume.'}",
        data=data,
        layout=_monthly_layout(scale, axis("requests a month", rangemode="tozero", tickformat="~s"), h.volume),
    )


def utilisation_chart(h: HostedForecast) -> Chart | None:
    """Monthly cost at the declared volume over the utilisation; None without a declared volume."""
    deployment, volume = h.own, h.volume
    priced = [(comparison, comparison.per_request) for comparison in h.against if comparison.per_request is not None]
    if deployment is None or volume is None or not priced:
        return None
    shares = np.linspace(0.05, 1.0, _POINTS)
    costs = np.array([deployment.monthly(volume, float(share)) for share in shares])
    scale = common_scale("USD", [float(np.median(costs))])
    data = [_curve("own", 100 * shares, costs / scale.factor, "$p0", "solid", "% utilisation", scale)]
    for i, (comparison, per_request) in enumerate(priced):
        level = np.full(2, volume * per_request / scale.factor)
        name = comparison.hosted.name
        data.append(_curve(name, 100 * shares[[0, -1]], level, f"$p{1 + i % 7}", DASHES[1 + i % 7], "% utilisation", scale))
        if comparison.utilisation is not None and comparison.utilisation.value is not None:
            data.append(_break_even_mark(name, 100 * comparison.utilisation.value, float(level[0]), scale))
    sentences = " ".join(f"{each.hosted.name}: {break_even_text(each.utilisation)}." for each, _ in priced if each.utilisation is not None)
    return Chart(
        name=f"inference-{h.workload}-{h.provider}-break-even-utilisation",
        section=COST_SECTION,
        title=f"Own or hosted, by utilisation, {h.workload} on {h.provider}",
        caption=f"At {volume:,.0f} requests a month. {sentences}{'' if h.utilisation is None else ' Dotted: the expected utilisation.'}",
        data=data,
        layout=_monthly_layout(
            scale, axis("utilisation", ticksuffix=" %", range=[0, 102]), None if h.utilisation is None else 100 * h.expected
        ),
    )


def _monthly_layout(scale: Scale, xaxis: Part, declared: float | None) -> Part:
    """`declared`: the x of a dotted line."""
    yaxis = axis(f"{scale.suffix} a month", rangemode="tozero", tickformat=",~s")
    return {"xaxis": xaxis, "yaxis": yaxis, "hovermode": "closest", "shapes": [] if declared is None else [vertical(declared)]}


def _curve(name: str, x: Any, y: Any, colour: str, dash: str, along: str, scale: Scale) -> Part:
    hover = f"{name}<br>%{{x:,.4g}} {along}: %{{y:,.4g}} {scale.suffix}"
    return line(round_for_chart(np.asarray(x)), round_for_chart(np.asarray(y)), colour, hover, width=2.2, dash=dash, name=name)


def _break_even_mark(hosted: str, x: float, y: float, scale: Scale) -> Part:
    name = f"break-even with {hosted}"
    hover = f"{name}: %{{x:,.4g}}, %{{y:,.4g}} {scale.suffix}"
    return marks([significant(x)], [significant(y)], "$ink", hover, size=10, symbol="x", name=name, showlegend=False)


def bill_chart(costs: Sequence[ProviderCost]) -> Chart | None:
    """Cost per finished run by provider and kind, stacked by item; None without a finished run that has a price."""
    priced = [c for c in costs if c.per_finished_run is not None][::-1]
    if not priced:
        return None
    total = priced[-1].bill.total
    currency = total.currency if total else "USD"
    data = []
    for i, item in enumerate(ITEMS):
        amounts = [None if (m := c.bill.of(item)) is None else significant(m.amount / c.finished) for c in priced]
        if any(amount is not None for amount in amounts):
            name = format_name(item)
            style = {"line": PAPER, "pattern": pattern(_ITEM_PATTERNS[i % len(_ITEM_PATTERNS)], 7, 0.15)}
            hover = f"%{{y}}<br>{name}: %{{x:.4g}} {currency} per finished run"
            data.append(bars([c.label for c in priced], amounts, f"$s{i % STAGE_COLOURS}", hover, name=name, marker=style))
    missing = sorted({format_name(u.item) for c in priced for u in c.bill.unknown})
    note = f" Excluded, not known for every provider: {', '.join(missing)}." if missing else ""
    return Chart(
        name="cost-bill",
        section="cost",
        title="Cost per finished run",
        caption=f"All bill items divided by finished runs, failed attempts included.{note}",
        data=data,
        layout=_stacked_layout(f"{currency} per finished run", {"exponentformat": "none"}),
        height=170 + 46 * len(priced),
        wide=True,
    )


def precision_chart(lever: Lever) -> Chart | None:
    """A bar for each precision that has a cost; None if none has."""
    priced = [(row, row.cost) for row in reversed(lever.rows) if row.cost is not None]
    if not priced:
        return None
    scale = common_scale("USD", [cost.value for _, cost in priced])
    labels = []
    for row, _ in priced:
        saving = saving_text(lever, row)
        # Short lines leave room for the bars on a phone.
        labels.append("<br>".join([f"{row.precision}{f' · {saving}' if saving else ''}", *wrap(quality_text(lever, row), 26)]))
    values = [cost.value for _, cost in priced]
    bar = bars(
        labels,
        [significant(value / scale.factor) for value in values],
        ["$p7" if row.precision == lever.reference else "$p0" for row, _ in priced],
        f"%{{y}}: %{{x:,.4g}} {scale.suffix}",
        width=0.5,
        marker={"opacity": 0.6},
        error_x=error_bars(values, [cost.low for _, cost in priced], [cost.high for _, cost in priced], scale.factor, "$ink", width=7),
    )
    return Chart(
        name=f"{lever.kind}-{lever.rows[0].workload}-{lever.provider}-precision",
        section="precision",
        title=f"{capitalize_first(lever.outcome)} by precision, {lever.rows[0].workload} on {lever.provider}",
        caption=f"{capitalize_first(lever.load)}; median over usable repeats with its interval, compared with {lever.reference}. Labels: measured "
        f"quality ({format_name(lever.measure)}).",
        data=[bar],
        layout={"xaxis": axis(scale.suffix, rangemode="tozero", nticks=5), "yaxis": categories(), "showlegend": False},
        height=120 + 76 * len(priced),
        wide=True,
    )
