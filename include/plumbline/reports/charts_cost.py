"""Charts of what an outcome costs: by provider, by driver, by what it is made of; and which charts of costs there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plumbline.prices.scenarios import DEARER
from plumbline.prices.tornado import Bar
from plumbline.reports.chart import Chart, axis
from plumbline.reports.charts_break_even import SECTION, spot_chart, utilisation_chart, volume_chart
from plumbline.reports.figures import scale, sentence, words
from plumbline.reports.outlook import Outlook
from plumbline.reports.outlook_case import grouped
from plumbline.reports.outlook_hosted import HostedOutlook
from plumbline.reports.outlook_spot import SpotOutlook

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


def drawn(costs: Sequence[Outlook], spots: Sequence[SpotOutlook] = (), hosted: Sequence[HostedOutlook] = ()) -> tuple[Chart, ...]:
    """Every chart that these allow: by workload the providers' ranges, then each one's drivers, parts, spot and break-even."""
    workloads = dict.fromkeys(o.workload for o in costs)
    charts = [range_chart([o for o in costs if o.workload == workload]) for workload in workloads]
    for o in costs:
        charts += [tornado_chart(o), parts_chart(o)]
    charts += [spot_chart(s) for s in spots]
    for h in hosted:
        charts += [volume_chart(h), utilisation_chart(h)]
    return tuple(c for c in charts if c is not None)


def range_chart(outlooks: Sequence[Outlook]) -> Chart | None:
    """Best to worst of one workload's outcome by provider, with the expected cost; None if none of them has a cost."""
    found = [(o, s) for o in outlooks if (s := o.scenarios) is not None]
    if not found:
        return None
    shown = scale("USD", [s.expected.total for _, s in found])
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
        section=SECTION,
        title=f"{sentence(first.outcome)}: best, expected, worst, {first.workload}",
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


def tornado_chart(o: Outlook) -> Chart | None:
    """Each driver moved over its range, the widest on top; None where nothing has a range."""
    found = o.tornado
    if found is None or not found.bars:
        return None
    shown = scale("USD", [found.expected])
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
        section=SECTION,
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
        return f"{grouped(value)}/s"
    return f"{grouped(value)} USD{'/h' if bar.driver == 'price' else ' a month'}"


def parts_chart(o: Outlook) -> Chart | None:
    """What the best, the expected and the worst cost are made of."""
    found = o.scenarios
    if found is None:
        return None
    rows = (("worst", found.worst), ("expected", found.expected), ("best", found.best))
    shown = scale("USD", [parts.total for _, parts in rows])
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
        section=SECTION,
        title=f"What {o.outcome} cost, {o.workload} on {o.provider}",
        caption=f"{sentence(words(o.price))}. Rate {o.rate}.{without}",
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
