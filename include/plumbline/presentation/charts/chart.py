"""A chart as Plotly data, axes and provider colours. Colours are names (`$p0`, `$ink`) that the page resolves for light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROVIDER_COLOURS, STAGE_COLOURS = 8, 12
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")


@dataclass(frozen=True)
class Chart:
    """One picture as Plotly data. `section` is where it stands; `caption` says what one sees and how it was made."""

    name: str
    section: str
    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int = 340
    wide: bool = False


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis in the house style."""
    return {"title": {"text": title}, "gridcolor": "$grid", "linecolor": "$line", "zeroline": False, "automargin": True, **more}


def log_axis(title: str, values: Iterable[float], at: Sequence[float] = ()) -> dict[str, Any]:
    """A logarithmic axis over these values (the positive ones), with every tick written out; `at`: where the ticks stand, if not at 1, 2, 5.

    Left to itself Plotly writes "2" for 20 and for 200.
    """
    ticks = list(at) or _ticks([v for v in values if v > 0])
    return axis(title, type="log", tickmode="array", tickvals=ticks, ticktext=[f"{tick:,.4g}" for tick in ticks])


def _ticks(values: Sequence[float]) -> list[float]:
    low, high = min(values) / 1.2, max(values) * 1.2
    span = high / low
    steps = (1.0,) if span > 1000 else (1.0, 2.0, 5.0) if span > 12 else (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [tick for power in powers for step in steps if low <= (tick := float(f"{step}e{power}")) <= high]


def provider_style(providers: Sequence[str], provider: str) -> tuple[str, str, str]:
    """A provider's colour, dash and symbol: the same in every chart, and told apart without colours too."""
    i = providers.index(provider)
    return f"$p{i % PROVIDER_COLOURS}", DASHES[i % len(DASHES)], SYMBOLS[i % len(SYMBOLS)]


def round_for_chart(values: NDArray[np.float64]) -> list[float]:
    """Values to five significant digits: more cannot be seen and would only make the file heavier."""
    return [float(f"{v:.5g}") for v in values.tolist()]
