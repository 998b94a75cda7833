"""Cost against precision, with what was measured of the quality beside each bar."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from plumbline.reports.chart import Chart, axis
from plumbline.reports.figures import percent, scale, sentence, words
from plumbline.reports.precision import InPrecision, Lever


def precision_chart(lever: Lever) -> Chart | None:
    """A bar for each precision that has a cost; None if none has."""
    priced = [(row, row.cost) for row in reversed(lever.rows) if row.cost is not None]
    if not priced:
        return None
    shown = scale("USD", [cost.value for _, cost in priced])
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
        title=f"{sentence(lever.outcome)} by precision, {lever.rows[0].workload} on {lever.provider}",
        caption=f"{sentence(lever.load)}; median over usable repeats with its interval, against {lever.reference}. Beside each precision what "
        f"was measured of its quality ({words(lever.measure)}).",
        data=data,
        layout={
            "xaxis": axis(shown.suffix, rangemode="tozero", nticks=5),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "showlegend": False,
        },
        height=120 + 76 * len(priced),
        wide=True,
    )


def _saved(row: InPrecision, lever: Lever) -> str:
    if row.saving is None or row.precision == lever.reference:
        return ""
    return f" · {percent(abs(row.saving))} {'less' if row.saving >= 0 else 'more'}"
