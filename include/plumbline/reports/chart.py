"""What a chart is, and what all charts share. Colours are names (`$p0`, `$ink`), filled in by the page for light and for dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROVIDER_COLOURS, STAGE_COLOURS = 8, 8
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


def colour(providers: Sequence[str], provider: str) -> tuple[str, str, str]:
    """A provider's colour, dash and symbol: the same in every chart, and told apart without colours too."""
    i = providers.index(provider)
    return f"$p{i % PROVIDER_COLOURS}", DASHES[i % len(DASHES)], SYMBOLS[i % len(SYMBOLS)]


def rounded(values: NDArray[np.float64]) -> list[float]:
    """Values to five significant digits: more cannot be seen and would only make the file heavier."""
    return [float(f"{v:.5g}") for v in values.tolist()]
