"""A chart as Plotly data, and its traces, axes and shapes. Colours are names (`$p0`, `$ink`) that the page resolves for light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROVIDER_COLOURS, STAGE_COLOURS = 8, 12
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
PAPER = {"color": "$paper", "width": 1}
_EDGE_SHARE, _MIN_LABEL_DISTANCE = 0.15, 0.22
"""Shares of an axis."""
BETTER = {"lower_is_better": ", lower is better", "higher_is_better": ", higher is better"}
"""The metric's direction in a title."""
Part = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """One figure as Plotly data. `section`: where it belongs; `caption`: what it shows and how it was made."""

    name: str
    section: str
    title: str
    caption: str
    data: list[Part]
    layout: Part
    height: int = 340
    wide: bool = False


def bars(y: Sequence[Any], x: Sequence[Any], colour: Any, hover: str, *, marker: Part | None = None, **attributes: Any) -> Part:
    """Horizontal bars, one for each category of `y`. `marker` and `attributes` go to Plotly as they are."""
    bar = {"type": "bar", "orientation": "h", "y": list(y), "x": list(x), "marker": {"color": colour, **(marker or {})}}
    return {**bar, "hovertemplate": _hover(hover), **attributes}


def marks(
    x: Sequence[Any],
    y: Sequence[Any],
    colour: str,
    hover: str,
    *,
    size: int = 9,
    symbol: Any = "circle",
    marker: Part | None = None,
    **attributes: Any,
) -> Part:
    """One mark for each point."""
    style = {"color": colour, "size": size, "symbol": symbol, **(marker or {})}
    return {"type": "scatter", "mode": "markers", "x": list(x), "y": list(y), "marker": style, "hovertemplate": _hover(hover), **attributes}


def line(
    x: Sequence[Any], y: Sequence[Any], colour: str, hover: str = "", *, width: float = 2, dash: str = "solid", **attributes: Any
) -> Part:
    """One line; without `hover` it does not react to the pointer."""
    trace = {"type": "scatter", "mode": "lines", "x": list(x), "y": list(y), "line": {"color": colour, "width": width, "dash": dash}}
    return {**trace, **({"hovertemplate": _hover(hover)} if hover else {"hoverinfo": "skip"}), **attributes}


def labels(positions: Mapping[str, float], x: Sequence[float]) -> Part:
    """Labels above the points `positions` (name → x): those far enough apart along an axis that spans `x`. At its ends they extend inwards."""
    low, span = min(x), max(x) - min(x) or 1.0
    labelled: dict[str, float] = {}
    for name, place in sorted(((name, (position - low) / span) for name, position in positions.items()), key=itemgetter(1)):
        if all(abs(place - other) >= _MIN_LABEL_DISTANCE for other in labelled.values()):
            labelled[name] = place
    sides = {
        n: "top right" if position < _EDGE_SHARE else "top left" if position > 1 - _EDGE_SHARE else "top center"
        for n, position in labelled.items()
    }
    text = [n if n in labelled else "" for n in positions]
    return {"mode": "markers+text", "text": text, "textposition": [sides.get(n, "top center") for n in positions], "cliponaxis": False}


def _hover(text: str) -> str:
    return text if "<extra>" in text else f"{text}<extra></extra>"


def error_bars(
    values: Sequence[float], lows: Sequence[float | None], highs: Sequence[float | None], factor: float, colour: str, **attributes: Any
) -> Part:
    """Plotly's error bars from interval ends in the values' unit; an absent end has no bar."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if high is None else (high - v) / factor for v, high in zip(values, highs, strict=True)],
        "arrayminus": [0.0 if low is None else (v - low) / factor for v, low in zip(values, lows, strict=True)],
        "color": colour,
        "thickness": 1.4,
        **attributes,
    }


def pattern(shape: str, size: int = 6, solidity: float = 0.2) -> Part:
    """A bar's hatching, which distinguishes bars without colours."""
    return {"shape": shape, "fillmode": "overlay", "fgcolor": "$paper", "size": size, "solidity": solidity}


def vertical(x: Any, colour: str = "$ink", width: float = 1.4, dash: str = "dot", **attributes: Any) -> Part:
    """A line over the height of the chart."""
    shape = {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1}
    return {**shape, "line": {"color": colour, "width": width, "dash": dash}, **attributes}


def band(begin: float, end: float) -> Part:
    """A shaded range of x, behind the data."""
    shape = {"type": "rect", "xref": "x", "yref": "paper", "x0": begin, "x1": end, "y0": 0, "y1": 1}
    return {**shape, "fillcolor": "$band", "line": {"width": 0}, "layer": "below"}


def axis(title: str, **attributes: Any) -> Part:
    """An axis in the house style."""
    return {"title": {"text": title}, "gridcolor": "$grid", "linecolor": "$line", "zeroline": False, "automargin": True, **attributes}


def categories(**attributes: Any) -> Part:
    """An axis of names."""
    return axis("", type="category", ticklabelstandoff=8, **attributes)


def log_axis(title: str, values: Iterable[float], explicit_ticks: Sequence[float] = ()) -> Part:
    """A logarithmic axis over the positive values, with every tick written out (Plotly alone writes "2" for 20 and for 200).
    `explicit_ticks`: ticks other than 1, 2, 5."""
    ticks = list(explicit_ticks) or _ticks([v for v in values if v > 0])
    return axis(title, type="log", tickmode="array", tickvals=ticks, ticktext=[f"{tick:,.4g}" for tick in ticks])


def _ticks(values: Sequence[float]) -> list[float]:
    low, high = min(values) / 1.2, max(values) * 1.2
    span = high / low
    steps = (1.0,) if span > 1000 else (1.0, 2.0, 5.0) if span > 12 else (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [tick for power in powers for step in steps if low <= (tick := float(f"{step}e{power}")) <= high]


def provider_style(providers: Sequence[str], provider: str) -> tuple[str, str, str]:
    """A provider's colour, dash and symbol: the same in every chart, distinct without colours too."""
    i = providers.index(provider)
    return f"$p{i % PROVIDER_COLOURS}", DASHES[i % len(DASHES)], SYMBOLS[i % len(SYMBOLS)]


def round_for_chart(values: NDArray[np.float64]) -> list[float]:
    """Values to five significant digits, which keeps the file small."""
    return [float(f"{v:.5g}") for v in values.tolist()]


def significant(value: float | None, digits: int = 6) -> float | None:
    """The value to so many significant digits; None stays None."""
    return None if value is None else float(f"{value:.{digits}g}")


def plotly_time(moment: datetime) -> str:
    """A time as Plotly reads it, UTC."""
    return moment.strftime("%Y-%m-%d %H:%M")
