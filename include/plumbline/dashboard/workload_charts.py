"""The numbers that a workload is asked about first, each a chart of dots with their intervals, providers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plumbline.dashboard.cells import ANSWERED_WHOLE, COSTS_SHOWN, HEADLINE
from plumbline.declarations import METRICS
from plumbline.reports.chart import Chart, axis, colour
from plumbline.reports.figures import percent, scale, sentence, words
from plumbline.scorecards import Row, Scorecard

_BETTER = {"lower_is_better": ", lower is better", "higher_is_better": ", higher is better"}


def key_charts(cards: Sequence[Scorecard]) -> tuple[Chart, ...]:
    """A chart for the primary number, each headline and the cost of an outcome, where more than nobody measured it."""
    kind = cards[0].kind
    first = next((c.asked_first.metric for c in cards if c.asked_first is not None), None)
    whole = kind == "inference" and all(c.row("inter_token_latency") is None for c in cards)
    groups = [*((first,),) * (first is not None), *(ANSWERED_WHOLE if whole else HEADLINE[kind]), COSTS_SHOWN[kind]]
    names: dict[str, None] = {}
    for group in groups:
        name = next((n for n in group if n is not None and any((r := c.row(n)) is not None and r.value is not None for c in cards)), None)
        if name is not None:
            names[name] = None
    return tuple(_dots(cards, name) for name in names)


def _dots(cards: Sequence[Scorecard], metric: str) -> Chart:
    providers = [c.provider for c in cards]
    rows: list[tuple[str, Row, float]] = [
        (c.provider, r, r.value) for c in cards if (r := c.row(metric)) is not None and r.value is not None
    ]
    known = METRICS[metric]
    shown = scale(known.unit, [v for _, _, v in rows], metric)
    data: list[dict[str, Any]] = []
    for provider, row, value in reversed(rows):
        paint, _, symbol = colour(providers, provider)
        low, high = (row.low if row.low is not None else value), (row.high if row.high is not None else value)
        how = f"{percent(row.coverage)} interval" if row.coverage is not None else "one repeat: no interval"
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "repeats",
                "y": [provider] * len(row.values),
                "x": [v / shown.factor for v in row.values],
                "text": list(row.trials),
                "customdata": [f"/trials/{t}" for t in row.trials],
                "marker": {"color": paint, "size": 7, "opacity": 0.4, "symbol": symbol},
                "hovertemplate": f"%{{x:.4g}} {shown.suffix}<br>%{{text}}<extra></extra>",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": provider,
                "y": [provider],
                "x": [value / shown.factor],
                "marker": {"color": paint, "size": 12, "symbol": symbol, "line": {"color": "$paper", "width": 1.5}},
                "error_x": {
                    "type": "data", "symmetric": False, "color": paint, "thickness": 2, "width": 6,
                    "array": [(high - value) / shown.factor], "arrayminus": [(value - low) / shown.factor],
                },
                "hovertemplate": f"{provider}: %{{x:.4g}} {shown.suffix}<extra>median of {row.n}, {how}</extra>",
            }
        )  # fmt: skip
    statistic = "" if rows[0][1].statistic == "value" else f" {rows[0][1].statistic}"
    return Chart(
        name=f"key {metric}",
        section="workload",
        title=f"{sentence(words(metric))}{statistic}{_BETTER.get(known.direction, '')}",
        caption="Large mark: median over usable repeats with its interval; light marks: the repeats, each leads to its trial.",
        data=data,
        layout={
            "xaxis": axis("requests a second" if shown.suffix == "/s" else shown.suffix or known.unit),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "showlegend": False,
            "hovermode": "closest",
        },
        height=110 + 46 * len(rows),
    )
