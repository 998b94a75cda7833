"""Charts of a decision: P(first), and how far weights and prices may move before the first place changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.sensitivity import PriceFlip, PriceSwing, WeightFlip, WeightSwing
from plumbline.metrics.formatting import format_name, format_percent, format_probability
from plumbline.presentation.charts.chart import Chart, axis, provider_style

_NEAR, _FAR = 0.5, 2.0
"""Factors of today's price that the chart of prices shows; what lies beyond is said in the table."""


def probability_first_chart(decision: Decision) -> Chart | None:
    """Probability of being first, by eligible provider; None where none could be computed."""
    rows = [r for r in decision.ranking if r.eligible and r.probability_first is not None]
    if not rows:
        return None
    names = sorted(r.provider for r in decision.ranking)
    rows = rows[::-1]  # drawn from below
    return Chart(
        name="probability-of-being-first",
        section="decision",
        title="Probability of being first",
        caption="How often each is first when slots and repeats are redrawn with what they leave open.",
        data=[
            {
                "type": "bar",
                "orientation": "h",
                "y": [r.provider for r in rows],
                "x": [r.probability_first for r in rows],
                "text": [format_probability(r.probability_first) for r in rows],
                "textposition": "outside",
                "cliponaxis": False,
                "width": 0.5,
                "marker": {"color": [provider_style(names, r.provider)[0] for r in rows]},
                "hovertemplate": "%{y}: first with %{text}<extra></extra>",
            }
        ],
        layout={
            "xaxis": axis("", tickformat=".0%", range=[0, 1.12], tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1]),
            "yaxis": axis("", type="category", ticklabelstandoff=8),
            "showlegend": False,
        },
        height=110 + 44 * len(rows),
        wide=True,
    )


def weight_swings_chart(decision: Decision, swings: Sequence[WeightSwing]) -> Chart | None:
    """The range of each weight over which the first stays first; None where there is no choice to make."""
    if not swings or decision.first is None:
        return None
    first, names = decision.first.provider, _named(decision, [flip for s in swings for flip in (s.below, s.above)])
    rows = swings[::-1]
    labels = [format_name(s.metric) for s in rows]
    data: list[dict[str, Any]] = []
    for swing, label in zip(rows, labels, strict=True):
        low = swing.below.weight if swing.below else 0.0
        high = swing.above.weight if swing.above else 1.0
        data.append(
            _range(
                label,
                low,
                high,
                f"{first} stays first from {format_percent(low)} to {format_percent(high)}",
                provider_style(names, first)[0],
            )
        )
    flips = [(label, flip) for s, label in zip(rows, labels, strict=True) for flip in (s.below, s.above) if flip is not None]
    for provider in dict.fromkeys(flip.first for _, flip in flips):
        own = [(label, flip) for label, flip in flips if flip.first == provider]
        data.append(
            _flip_marks(
                provider, names, [label for label, _ in own], [f.weight for _, f in own], [format_percent(f.weight) for _, f in own]
            )
        )
    data.append(_current_marks(labels, [s.weight for s in rows], [format_percent(s.weight) for s in rows]))
    return Chart(
        name="weight-swings",
        section="decision",
        title="How far a weight must move",
        caption=f"Bar: weights at which {first} stays first, the others rescaled in proportion. Line: the weight now. Marks: who is first beyond.",
        data=data,
        layout={
            "xaxis": axis("weight", tickformat=".0%", range=[-0.01, 1.01]),
            "yaxis": axis("", type="category", categoryorder="array", categoryarray=labels, ticklabelstandoff=8),
        },
        height=140 + 46 * len(rows),
        wide=True,
    )


def price_swings_chart(decision: Decision, swings: Sequence[PriceSwing]) -> Chart | None:
    """The range of each provider's price over which the first stays first; None where nobody is."""
    if not swings or decision.first is None:
        return None
    first, names = decision.first.provider, _named(decision, [flip for s in swings for flip in (s.falls, s.rises)])
    rows = swings[::-1]
    data: list[dict[str, Any]] = []
    for swing in rows:
        low, high = (_clamped_factor(flip, end) for flip, end in ((swing.falls, _NEAR), (swing.rises, _FAR)))
        data.append(_range(swing.provider, low, high, f"{first} stays first", provider_style(names, first)[0]))
    flips = [(s.provider, f) for s in rows for f in (s.falls, s.rises) if f is not None and _NEAR <= f.factor <= _FAR]
    for provider in dict.fromkeys(flip.first for _, flip in flips):
        own = [(of, flip) for of, flip in flips if flip.first == provider]
        told = [f"{f.usd_per_hour:,.2f} USD/h" if f.usd_per_hour is not None else f"× {f.factor:.2f}" for _, f in own]
        data.append(_flip_marks(provider, names, [of for of, _ in own], [f.factor for _, f in own], told))
    now = [f"{s.usd_per_hour:,.2f} USD/h" if s.usd_per_hour is not None else "no price known" for s in rows]
    data.append(_current_marks([s.provider for s in rows], [1.0] * len(rows), now))
    ticks = [_NEAR, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, _FAR]
    return Chart(
        name="price-swings",
        section="decision",
        title="At which price the first changes",
        caption=f"Bar: prices of each provider's instance at which {first} stays first, the others' unchanged, between half and twice today's.",
        data=data,
        layout={
            "xaxis": axis(
                "price, as a share of today's",
                type="log",
                range=[math.log10(_NEAR) - 0.01, math.log10(_FAR) + 0.01],
                tickmode="array",
                tickvals=ticks,
                ticktext=[f"{t:.0%}" for t in ticks],
            ),
            "yaxis": axis("", type="category", categoryorder="array", categoryarray=[s.provider for s in rows], ticklabelstandoff=8),
        },
        height=140 + 46 * len(rows),
        wide=True,
    )


def _named(decision: Decision, flips: Sequence[WeightFlip | PriceFlip | None]) -> list[str]:
    """Who has a colour: who is listed, and who would be first although so many rank before it that it is not listed."""
    return sorted({*(r.provider for r in decision.ranking), *(flip.first for flip in flips if flip is not None)})


def _clamped_factor(flip: PriceFlip | None, end: float) -> float:
    if flip is None:
        return end
    return min(max(flip.factor, _NEAR), _FAR)


def _range(row: str, low: float, high: float, said: str, paint: str) -> dict[str, Any]:
    line = {"type": "scatter", "mode": "lines", "y": [row, row], "x": [low, high], "showlegend": False, "opacity": 0.38}
    return {**line, "line": {"color": paint, "width": 14}, "hovertemplate": f"{said}<extra></extra>"}


def _flip_marks(provider: str, names: Sequence[str], rows: Sequence[str], at: Sequence[float], told: Sequence[str]) -> dict[str, Any]:
    """Where `provider` becomes first."""
    paint, _, symbol = provider_style(names, provider)
    marks = {"type": "scatter", "mode": "markers", "y": list(rows), "x": list(at), "text": list(told), "name": f"then {provider}"}
    look = {"color": paint, "symbol": symbol, "size": 12, "line": {"color": "$paper", "width": 1}}
    return {**marks, "marker": look, "hovertemplate": f"beyond %{{text}}, {provider} is first<extra></extra>"}


def _current_marks(rows: Sequence[str], at: Sequence[float], told: Sequence[str]) -> dict[str, Any]:
    marks = {"type": "scatter", "mode": "markers", "y": list(rows), "x": list(at), "text": list(told), "name": "now"}
    look = {"symbol": "line-ns", "size": 20, "line": {"color": "$ink", "width": 3}}
    return {**marks, "marker": look, "hovertemplate": "now %{text}<extra></extra>"}
