"""Charts of a decision: P(first), and how far weights and prices may move before the first choice changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from plumbline.analysis.decisions.decision import Decision
from plumbline.analysis.decisions.sensitivity import PriceFlip, PriceSwing, WeightFlip, WeightSwing
from plumbline.analysis.decisions.winner_change import Cause, WinnerChange
from plumbline.metrics.formatting import format_money, format_name, format_percent, format_probability
from plumbline.presentation.charts.chart import PAPER, Chart, Part, axis, bars, categories, line, marks, provider_style
from plumbline.presentation.decisions import change_steps

_LOWEST_FACTOR, _HIGHEST_FACTOR = 0.5, 2.0
"""Factors of the current price between which the chart of prices shows flips; the table lists the others."""


def probability_first_chart(decision: Decision) -> Chart | None:
    """Probability of being first, by eligible provider; None where none could be computed."""
    rows = [r for r in decision.ranking if r.eligible and r.probability_first is not None][::-1]  # drawn from below
    if not rows:
        return None
    names = sorted(r.provider for r in decision.ranking)
    bar = bars(
        [r.provider for r in rows],
        [r.probability_first for r in rows],
        [provider_style(names, r.provider)[0] for r in rows],
        "%{y}: P(first) %{text}",
        text=[format_probability(r.probability_first) for r in rows],
        textposition="outside",
        cliponaxis=False,
        width=0.5,
    )
    return Chart(
        name="probability-of-being-first",
        section="decision",
        title="Probability of being first",
        caption="Share of draws in which each provider ranks first when slots and repeats are resampled with their noise.",
        data=[bar],
        layout={
            "xaxis": axis("", tickformat=".0%", range=[0, 1.12], tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1]),
            "yaxis": categories(),
            "showlegend": False,
        },
        height=110 + 44 * len(rows),
        wide=True,
    )


def weight_swings_chart(decision: Decision, swings: Sequence[WeightSwing]) -> Chart | None:
    """The range of each weight over which the first choice stays first; None without a choice."""
    if not swings or decision.first is None:
        return None
    first, rows = decision.first.provider, [(format_name(s.metric), s) for s in swings[::-1]]
    ranges = [(name, s.below.weight if s.below else 0.0, s.above.weight if s.above else 1.0) for name, s in rows]
    flips = [(name, f.weight, format_percent(f.weight), f.first) for name, s in rows for f in (s.below, s.above) if f is not None]
    return _swings_chart(
        "weight-swings",
        "Weight sensitivity",
        f"Bar: weights at which {first} stays first, the others rescaled in proportion. Line: current weight. Marks: next first choice.",
        _colours(decision, [flip for s in swings for flip in (s.below, s.above)]),
        first,
        [(*row, f"{first} stays first from {format_percent(row[1])} to {format_percent(row[2])}") for row in ranges],
        flips,
        [(name, s.weight, format_percent(s.weight)) for name, s in rows],
        axis("weight", tickformat=".0%", range=[-0.01, 1.01]),
    )


def price_swings_chart(decision: Decision, swings: Sequence[PriceSwing]) -> Chart | None:
    """The range of each provider's price over which the first choice stays first; None without a first choice."""
    if not swings or decision.first is None:
        return None
    first, rows = decision.first.provider, swings[::-1]
    ticks = [_LOWEST_FACTOR, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, _HIGHEST_FACTOR]
    flips = [
        (s.provider, f.factor, format_money(f.usd_per_hour, "USD/h") if f.usd_per_hour is not None else f"× {f.factor:.2f}", f.first)
        for s in rows
        for f in (s.falls, s.rises)
        if f is not None and _LOWEST_FACTOR <= f.factor <= _HIGHEST_FACTOR
    ]
    return _swings_chart(
        "price-swings",
        "Price sensitivity",
        f"Bar: instance prices at which {first} stays first, the others unchanged, between half and twice the current price.",
        _colours(decision, [flip for s in swings for flip in (s.falls, s.rises)]),
        first,
        [
            (s.provider, _clamped_factor(s.falls, _LOWEST_FACTOR), _clamped_factor(s.rises, _HIGHEST_FACTOR), f"{first} stays first")
            for s in rows
        ],
        flips,
        [(s.provider, 1.0, format_money(s.usd_per_hour, "USD/h") if s.usd_per_hour is not None else "unknown price") for s in rows],
        axis(
            "price, share of the current price",
            type="log",
            range=[math.log10(_LOWEST_FACTOR) - 0.01, math.log10(_HIGHEST_FACTOR) + 0.01],
            tickmode="array",
            tickvals=ticks,
            ticktext=[f"{t:.0%}" for t in ticks],
        ),
    )


_COLOURS: dict[Cause | None, str] = {"price": "$p2", "speed": "$p0", "cost": "$p2", "weights": "$p3", "noise": "$soft", None: "$line"}


def winner_change_chart(change: WinnerChange) -> Chart | None:
    """A waterfall from the lead before to the lead now; None where the lead is not known."""
    steps = change_steps(change)
    if not steps:
        return None
    reach = [100 * end for step in steps for end in (step.base, step.base + step.points)]
    margin = 0.16 * (max(reach) - min(reach)) or 1.0
    bar = bars(
        [step.name for step in steps],
        [100 * step.points for step in steps],
        [_COLOURS[step.cause] for step in steps],
        "%{y}: %{text}",
        base=[100 * step.base for step in steps],
        text=[step.text for step in steps],
        textposition="outside",
        cliponaxis=False,
        width=0.6,
    )
    return Chart(
        name="winner-change",
        section="decision",
        title="Parts of the lead's move",
        caption=f"Lead of {change.new} over {change.old}: 100 × logarithm of the ratio of their scores, about percent. "
        "The parts add up to the move.",
        data=[bar],
        layout={
            "xaxis": axis("lead, about percent", range=[min(reach) - margin, max(reach) + margin], zeroline=True, zerolinecolor="$ink"),
            "yaxis": categories(categoryorder="array", categoryarray=[step.name for step in steps][::-1]),
            "showlegend": False,
        },
        height=110 + 40 * len(steps),
        wide=True,
    )


def _colours(decision: Decision, flips: Sequence[WeightFlip | PriceFlip | None]) -> list[str]:
    """Providers with a colour: those listed, and next first choices that rank too low to be listed."""
    return sorted({*(r.provider for r in decision.ranking), *(flip.first for flip in flips if flip is not None)})


def _clamped_factor(flip: PriceFlip | None, end: float) -> float:
    return end if flip is None else min(max(flip.factor, _LOWEST_FACTOR), _HIGHEST_FACTOR)


def _swings_chart(
    name: str,
    title: str,
    caption: str,
    names: Sequence[str],
    first: str,
    ranges: Sequence[tuple[str, float, float, str]],
    flips: Sequence[tuple[str, float, str, str]],
    current: Sequence[tuple[str, float, str]],
    xaxis: Part,
) -> Chart:
    """`ranges`: (row, low, high, hover). `flips`: (row, position, text, next first choice). `current`: (row, position, text)."""
    colour = provider_style(names, first)[0]
    data = [line([low, high], [row, row], colour, hover, width=14, showlegend=False, opacity=0.38) for row, low, high, hover in ranges]
    for provider in dict.fromkeys(flip[3] for flip in flips):
        provider_flips = [flip for flip in flips if flip[3] == provider]
        flip_colour, _, symbol = provider_style(names, provider)
        hover = f"beyond %{{text}}, {provider} is first"
        rows, positions, text = ([flip[i] for flip in provider_flips] for i in range(3))
        data.append(
            marks(positions, rows, flip_colour, hover, size=12, symbol=symbol, marker={"line": PAPER}, text=text, name=f"then {provider}")
        )
    rows, positions, text = ([entry[i] for entry in current] for i in range(3))
    marker = {"line": {"color": "$ink", "width": 3}}
    data.append(marks(positions, rows, "$ink", "now %{text}", size=20, symbol="line-ns", marker=marker, text=text, name="now"))
    yaxis = categories(categoryorder="array", categoryarray=[row for row, *_ in ranges])
    return Chart(name, "decision", title, caption, data, {"xaxis": xaxis, "yaxis": yaxis}, height=140 + 46 * len(ranges), wide=True)
