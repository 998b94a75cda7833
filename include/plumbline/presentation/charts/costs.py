"""Charts of costs: bills, forecasts and their drivers, spot and hosted break-even, cost by precision."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from plumbline.analysis.cost.bill import ITEMS
from plumbline.analysis.cost.campaign_bill import ProviderCost
from plumbline.analysis.cost.forecast import CostForecast
from plumbline.analysis.cost.forecast_inputs import format_grouped
from plumbline.analysis.cost.hosted_forecast import HostedForecast
from plumbline.analysis.cost.precision import Lever, PrecisionRow
from plumbline.analysis.cost.scenarios import DEARER, Bar
from plumbline.analysis.cost.spot_forecast import SpotForecast, spot_cost
from plumbline.analysis.cost.trial_bill import MONTH_H
from plumbline.metrics.formatting import Scale, capitalize_first, common_scale, format_name, format_percent
from plumbline.presentation.charts.chart import DASHES, STAGE_COLOURS, Chart, axis, log_axis, round_for_chart

PARTS = {
    "busy": "delivering",
    "failed": "done again",
    "idle": "paid, not asked",
    "egress": "egress",
    "storage": "storage",
    "engineering": "engineering",
}
DRIVERS = {
    "price": "instance price",
    "rate": "measured rate",
    "utilisation": "utilisation",
    "failure_rate": "failure rate",
    "egress": "egress",
    "storage": "storage",
}
_PATTERNS = ("", "/", "x", "\\", "-", ".")
_LINE = {"color": "$ink", "width": 1.4, "dash": "dot"}


def forecast_charts(
    costs: Sequence[CostForecast], spots: Sequence[SpotForecast] = (), hosted: Sequence[HostedForecast] = ()
) -> tuple[Chart, ...]:
    """Every chart that these allow: by workload the providers' ranges, then each one's drivers, parts, spot and break-even."""
    workloads = dict.fromkeys(o.workload for o in costs)
    charts = [range_chart([o for o in costs if o.workload == workload]) for workload in workloads]
    for o in costs:
        charts += [tornado_chart(o), parts_chart(o)]
    charts += [spot_chart(s) for s in spots]
    for h in hosted:
        charts += [volume_chart(h), utilisation_chart(h)]
    return tuple(c for c in charts if c is not None)


def range_chart(outlooks: Sequence[CostForecast]) -> Chart | None:
    """Best to worst of one workload's outcome by provider, with the expected cost; None if none of them has a cost."""
    found = [(o, s) for o in outlooks if (s := o.scenarios) is not None]
    if not found:
        return None
    shown = common_scale("USD", [s.expected.total for _, s in found])
    data: list[dict[str, Any]] = []
    for o, s in sorted(found, key=lambda each: -each[1].expected.total):
        best, expected, worst = (part.total / shown.factor for part in (s.best, s.expected, s.worst))
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [o.provider],
                "base": [best],
                "x": [worst - best],
                "width": 0.34,
                "marker": {"color": "$p0", "opacity": 0.32},
                "hovertemplate": f"{o.provider}: {best:,.4g} to {worst:,.4g} {shown.suffix}<extra></extra>",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "y": [o.provider],
                "x": [expected],
                "text": [shown.number(s.expected.total)],
                "textposition": "top center",
                "textfont": {"color": "$ink"},
                "marker": {"color": "$p0", "size": 11, "symbol": "diamond", "line": {"color": "$paper", "width": 1}},
                "hovertemplate": f"{o.provider}, expected: %{{x:,.4g}} {shown.suffix}<extra></extra>",
            }
        )
    first = found[0][0]
    return Chart(
        name=f"{first.kind}-{first.workload}-scenarios",
        section=COST_SECTION,
        title=f"{capitalize_first(first.outcome)}: best, expected, worst, {first.workload}",
        caption="Bar: every declared and measured range at its cheaper end, and at its dearer one. Diamond: as expected. "
        "What nobody declared is in none of them.",
        data=data,
        layout={
            "xaxis": axis(shown.suffix, rangemode="tozero"),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "showlegend": False,
        },
        height=140 + 64 * len(found),
    )


def tornado_chart(o: CostForecast) -> Chart | None:
    """Each driver moved over its range, the widest on top; None where nothing has a range."""
    found = o.tornado
    if found is None or not found.bars:
        return None
    shown = common_scale("USD", [found.expected])
    bars = found.bars[::-1]  # Plotly draws the first one at the bottom
    middle = found.expected / shown.factor
    data = []
    for dear, name, paint, pattern in ((False, "cheaper", "$p2", ""), (True, "dearer", "$p1", "/")):
        ends: list[str] = ["high" if (DEARER[bar.driver] == "high") == dear else "low" for bar in bars]
        costs = [(bar.at_high if end == "high" else bar.at_low) / shown.factor for bar, end in zip(bars, ends, strict=True)]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": [DRIVERS[bar.driver] for bar in bars],
                "base": [middle] * len(bars),
                "x": [float(f"{cost - middle:.6g}") for cost in costs],
                "text": [_end(bar, end) for bar, end in zip(bars, ends, strict=True)],
                "textposition": "outside",
                "textfont": {"color": "$soft"},
                "cliponaxis": False,
                "marker": {
                    "color": paint,
                    "opacity": 0.75,
                    "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "$paper", "size": 6, "solidity": 0.2},
                },
                "customdata": [float(f"{cost:.6g}") for cost in costs],
                "hovertemplate": f"%{{y}} %{{text}}: %{{customdata:,.4g}} {shown.suffix}<extra>{name}</extra>",
            }
        )
    reach = max(bar.width for bar in bars) / shown.factor
    return Chart(
        name=f"{o.kind}-{o.workload}-{o.provider}-tornado",
        section=COST_SECTION,
        title=f"What the cost of {o.outcome} hangs on, {o.workload} on {o.provider}",
        caption=f"Each driver over its range, the others as expected ({shown.text(found.expected)}); the widest bar is worth most to know better.",
        data=data,
        layout={
            "barmode": "overlay",
            "xaxis": axis(shown.suffix, range=_around(data, middle, reach)),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "shapes": [{"type": "line", "xref": "x", "yref": "paper", "x0": middle, "x1": middle, "y0": 0, "y1": 1, "line": _LINE}],
            "bargap": 0.35,
        },
        height=130 + 44 * len(bars),
    )


def _around(data: Sequence[dict[str, Any]], middle: float, reach: float) -> list[float]:
    """The axis with room beside the longest bars for what their ends say."""
    ends = [middle + x for each in data for x in each["x"]]
    return [max(0.0, min(ends) - 0.6 * reach), max(ends) + 0.42 * reach]


def _end(bar: Bar, end: str) -> str:
    value = bar.range.high if end == "high" else bar.range.low
    if bar.driver in ("utilisation", "failure_rate"):
        return f"{100 * value:.3g} %"
    if bar.driver == "rate":
        return f"{format_grouped(value)}/s"
    return f"{format_grouped(value)} USD{'/h' if bar.driver == 'price' else ' a month'}"


def parts_chart(o: CostForecast) -> Chart | None:
    """What the best, the expected and the worst cost are made of."""
    found = o.scenarios
    if found is None:
        return None
    rows = (("worst", found.worst), ("expected", found.expected), ("best", found.best))
    shown = common_scale("USD", [parts.total for _, parts in rows])
    data = []
    for i, (part, name) in enumerate(PARTS.items()):
        values = [parts.by_name()[part] for _, parts in rows]
        if not any(values):
            continue
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": [label for label, _ in rows],
                "x": [None if value is None else float(f"{value / shown.factor:.6g}") for value in values],
                "marker": {
                    "color": f"$s{2 * i % 12}",
                    "line": {"color": "$paper", "width": 1},
                    "pattern": {"shape": _PATTERNS[i], "fillmode": "overlay", "fgcolor": "$paper", "size": 6, "solidity": 0.2},
                },
                "hovertemplate": f"%{{y}}, {name}: %{{x:,.4g}} {shown.suffix}<extra></extra>",
            }
        )
    left_out = [m.what.replace("_", " ") for m in o.unknown if m.what in PARTS or m.what in ("utilisation", "failure_rate", "volume")]
    without = f" Not in it, because nobody declared it: {', '.join(left_out)}." if left_out else ""
    return Chart(
        name=f"{o.kind}-{o.workload}-{o.provider}-parts",
        section=COST_SECTION,
        title=f"What {o.outcome} cost, {o.workload} on {o.provider}",
        caption=f"{capitalize_first(format_name(o.price))}. Rate {o.rate}.{without}",
        data=data,
        layout={
            "barmode": "stack",
            "xaxis": axis(shown.suffix, rangemode="tozero"),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "legend": {"traceorder": "normal"},
            "bargap": 0.4,
        },
        height=290,
    )


COST_SECTION = "cost"
_POINTS = 81


def spot_chart(s: SpotForecast) -> Chart | None:
    """A finished run over the rate of interruptions, spot against on demand; None where it could not be reckoned."""
    if s.cost is None or s.run is None or s.on_demand_per_hour is None or s.spot_per_hour is None or s.per_hour is None:
        return None
    even = s.cost.break_even
    low, high = s.per_hour / 10, max(3 * s.per_hour, 2 * even if even is not None else 30 * s.per_hour)
    rates = np.geomspace(low, high, _POINTS)
    costs = np.array([spot_cost(s.run, s.on_demand_per_hour, s.spot_per_hour, float(rate)).spot for rate in rates])
    seen = np.isfinite(costs) & (costs <= 3 * s.cost.on_demand)  # beyond, a run practically never ends
    shown = common_scale("USD", [s.cost.on_demand, s.cost.spot])
    marks = [("declared", s.per_hour, s.cost.spot, "diamond")] + ([("break-even", even, s.cost.on_demand, "x")] if even else [])
    data: list[dict[str, Any]] = [
        _curve("spot", rates[seen], costs[seen] / shown.factor, "$p0", "solid", "interruptions an hour", shown),
        _curve("on demand", rates[[0, -1]], np.full(2, s.cost.on_demand / shown.factor), "$p1", "dash", "interruptions an hour", shown),
        *(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": name,
                "x": [float(f"{x:.6g}")],
                "y": [float(f"{y / shown.factor:.6g}")],
                "text": [f"{name}: {x:.3g}/h, {shown.text(y)}"],
                "textposition": "bottom right" if name == "declared" else "top left",
                "textfont": {"color": "$ink"},
                "marker": {"color": "$ink", "size": 10, "symbol": symbol},
                "showlegend": False,
                "hovertemplate": f"{name}: %{{x:.3g}}/h, %{{y:,.4g}} {shown.suffix}<extra></extra>",
            }
            for name, x, y, symbol in marks
        ),
    ]
    return Chart(
        name=f"training-{s.workload}-{s.provider}-spot",
        section=COST_SECTION,
        title=f"A finished run on spot, {s.workload} on {s.provider}",
        caption=f"{capitalize_first(s.run_basis)}; {s.restart_basis}. {capitalize_first(s.cost.why)}. Waiting for capacity makes a run later, not dearer, and is not in it.",
        data=data,
        layout={
            "xaxis": log_axis("interruptions an hour (log scale)", rates.tolist()),
            "yaxis": axis(shown.suffix, rangemode="tozero"),
            "hovermode": "closest",
        },
    )


def volume_chart(h: HostedForecast) -> Chart | None:
    """Cost a month over the monthly volume: one's own at its lowest, expected and highest utilisation, and each hosted model."""
    own, priced = h.own, [(b, b.per_request) for b in h.against if b.per_request is not None]
    if own is None or not priced:
        return None
    evens = [b.volume.value for b, _ in priced if b.volume is not None and b.volume.value]
    top = 1.6 * max([*evens, h.volume or 0.0]) or 2 * own.rate * 3600 * MONTH_H
    volumes = np.linspace(0.0, top, _POINTS)
    shares = {h.expected: "own"} if h.utilisation is None else _shares(h)
    lines = [(name, np.array([own.monthly(float(v), share) for v in volumes]), "$p0") for share, name in shares.items()]
    lines += [(b.hosted.name, volumes * each, f"$p{1 + i % 7}") for i, (b, each) in enumerate(priced)]
    shown = common_scale("USD", [float(np.max(values)) for _, values, _ in lines])
    data = [
        _curve(name, volumes, values / shown.factor, paint, DASHES[i % len(DASHES)], "requests a month", shown)
        for i, (name, values, paint) in enumerate(lines)
    ]
    for b, each in priced:
        if b.volume is not None and b.volume.value:
            data.append(_break_even_mark(f"break-even with {b.hosted.name}", b.volume.value, b.volume.value * each / shown.factor, shown))
    return Chart(
        name=f"inference-{h.workload}-{h.provider}-break-even-volume",
        section=COST_SECTION,
        title=f"One's own or hosted, by monthly volume, {h.workload} on {h.provider}",
        caption=" ".join(f"{b.hosted.name}: {b.volume.sentence}." for b, _ in priced if b.volume is not None)
        + f" Rate {h.rate}."
        + ("" if h.volume is None else " Dotted: the declared volume."),
        data=data,
        layout={
            "xaxis": axis("requests a month", rangemode="tozero", tickformat="~s"),
            "yaxis": axis(f"{shown.suffix} a month", rangemode="tozero", tickformat=",~s"),
            "hovermode": "closest",
            "shapes": [] if h.volume is None else [_vertical_line(h.volume)],
        },
    )


def utilisation_chart(h: HostedForecast) -> Chart | None:
    """Cost a month at the declared volume over the utilisation; None without a declared volume."""
    own, volume = h.own, h.volume
    priced = [(b, b.per_request) for b in h.against if b.per_request is not None]
    if own is None or volume is None or not priced:
        return None
    shares = np.linspace(0.05, 1.0, _POINTS)
    costs = np.array([own.monthly(volume, float(share)) for share in shares])
    shown = common_scale("USD", [float(np.median(costs))])
    data = [_curve("own", 100 * shares, costs / shown.factor, "$p0", "solid", "% utilisation", shown)]
    for i, (b, each) in enumerate(priced):
        level = np.full(2, volume * each / shown.factor)
        data.append(_curve(b.hosted.name, 100 * shares[[0, -1]], level, f"$p{1 + i % 7}", DASHES[1 + i % 7], "% utilisation", shown))
        if b.utilisation is not None and b.utilisation.value is not None:
            data.append(_break_even_mark(f"break-even with {b.hosted.name}", 100 * b.utilisation.value, float(level[0]), shown))
    told = " ".join(f"{b.hosted.name}: {b.utilisation.sentence}." for b, _ in priced if b.utilisation is not None)
    return Chart(
        name=f"inference-{h.workload}-{h.provider}-break-even-utilisation",
        section=COST_SECTION,
        title=f"One's own or hosted, by utilisation, {h.workload} on {h.provider}",
        caption=f"At {volume:,.0f} requests a month. {told}{'' if h.utilisation is None else ' Dotted: the expected utilisation.'}",
        data=data,
        layout={
            "xaxis": axis("utilisation", ticksuffix=" %", range=[0, 102]),
            "yaxis": axis(f"{shown.suffix} a month", rangemode="tozero", tickformat=",~s"),
            "hovermode": "closest",
            "shapes": [_vertical_line(100 * h.expected)] if h.utilisation is not None else [],
        },
    )


def _shares(h: HostedForecast) -> dict[float, str]:
    span = h.utilisation
    assert span is not None
    return {share: f"own at {share:.0%} utilisation" for share in dict.fromkeys((span.expected, span.low, span.high))}


def _curve(name: str, x: Any, y: Any, paint: str, dash: str, along: str, shown: Scale) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": round_for_chart(np.asarray(x, dtype=np.float64)),
        "y": round_for_chart(np.asarray(y, dtype=np.float64)),
        "line": {"color": paint, "width": 2.2, "dash": dash},
        "hovertemplate": f"{name}<br>%{{x:,.4g}} {along}: %{{y:,.4g}} {shown.suffix}<extra></extra>",
    }


def _break_even_mark(name: str, x: float, y: float, shown: Scale) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [float(f"{x:.6g}")],
        "y": [float(f"{y:.6g}")],
        "marker": {"color": "$ink", "size": 10, "symbol": "x"},
        "showlegend": False,
        "hovertemplate": f"{name}: %{{x:,.4g}}, %{{y:,.4g}} {shown.suffix}<extra></extra>",
    }


def _vertical_line(x: float) -> dict[str, Any]:
    """A dotted line at what was declared."""
    return {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": _LINE}


_ITEM_PATTERNS = ("", "/", "x", "-", "|", "+", ".", "\\", "")
"""Items are told apart without colours too."""


def bill_chart(costs: Sequence[ProviderCost]) -> Chart | None:
    """Cost per finished run by provider and kind, stacked by item; None if there is no finished run with a price anywhere."""
    known = [c for c in costs if c.per_finished_run is not None]
    if not known:
        return None
    currency = known[0].bill.total.currency if known[0].bill.total else "USD"
    names = [c.label for c in reversed(known)]
    data = []
    for i, item in enumerate(ITEMS):
        amounts = [None if (m := c.bill.of(item)) is None else m.amount / c.finished for c in reversed(known)]
        if any(amount is not None for amount in amounts):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "y": names,
                    "x": [None if amount is None else float(f"{amount:.6g}") for amount in amounts],
                    "name": format_name(item),
                    "marker": {
                        "color": f"$s{i % STAGE_COLOURS}",
                        "line": {"color": "$paper", "width": 1},
                        "pattern": {
                            "shape": _ITEM_PATTERNS[i % len(_ITEM_PATTERNS)],
                            "fillmode": "overlay",
                            "fgcolor": "$paper",
                            "size": 7,
                            "solidity": 0.15,
                        },
                    },
                    "hovertemplate": f"%{{y}}<br>{format_name(item)}: %{{x:.4g}} {currency} a finished run<extra></extra>",
                }
            )
    lacking = sorted({format_name(u.item) for c in known for u in c.bill.unknown})
    without = f" Not in it, since it is not known everywhere: {', '.join(lacking)}." if lacking else ""
    return Chart(
        name="cost-bill",
        section="cost",
        title="What a finished run was paid for",
        caption=f"Everything on the bill over the runs that finished, failed attempts included.{without}",
        data=data,
        layout={
            "barmode": "stack",
            "xaxis": axis(f"{currency} a finished run", rangemode="tozero", exponentformat="none"),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "legend": {"traceorder": "normal"},
        },
        height=170 + 46 * len(known),
        wide=True,
    )


def precision_chart(lever: Lever) -> Chart | None:
    """A bar for each precision that has a cost; None if none has."""
    priced = [(row, row.cost) for row in reversed(lever.rows) if row.cost is not None]
    if not priced:
        return None
    shown = common_scale("USD", [cost.value for _, cost in priced])
    # Broken into short lines: on a phone a long one would leave no room for the bars.
    labels = ["<br>".join([f"{row.precision}{_saved(row, lever)}", *wrap(row.difference, 26)]) for row, _ in priced]
    ends = [(cost.low if cost.low is not None else cost.value, cost.high if cost.high is not None else cost.value) for _, cost in priced]
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": labels,
            "x": [float(f"{cost.value / shown.factor:.6g}") for _, cost in priced],
            "width": 0.5,
            "marker": {"color": ["$p7" if row.precision == lever.reference else "$p0" for row, _ in priced], "opacity": 0.6},
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [(high - cost.value) / shown.factor for (_, cost), (_, high) in zip(priced, ends, strict=True)],
                "arrayminus": [(cost.value - low) / shown.factor for (_, cost), (low, _) in zip(priced, ends, strict=True)],
                "color": "$ink",
                "thickness": 1.4,
                "width": 7,
            },
            "hovertemplate": f"%{{y}}: %{{x:,.4g}} {shown.suffix}<extra></extra>",
        }
    ]
    return Chart(
        name=f"{lever.kind}-{lever.rows[0].workload}-{lever.provider}-precision",
        section="cost",
        title=f"{capitalize_first(lever.outcome)} by precision, {lever.rows[0].workload} on {lever.provider}",
        caption=f"{capitalize_first(lever.load)}; median over usable repeats with its interval, against {lever.reference}. Beside each precision what "
        f"was measured of its quality ({format_name(lever.measure)}).",
        data=data,
        layout={
            "xaxis": axis(shown.suffix, rangemode="tozero", nticks=5),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "showlegend": False,
        },
        height=120 + 76 * len(priced),
        wide=True,
    )


def _saved(row: PrecisionRow, lever: Lever) -> str:
    if row.saving is None or row.precision == lever.reference:
        return ""
    return f" · {format_percent(abs(row.saving))} {'less' if row.saving >= 0 else 'more'}"
