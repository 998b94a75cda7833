"""A series as the detector sees it: the points that exist, on a scale where equal ratios are equal steps, and how much they scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

FEWEST = 12
"""Points below which a series says nothing about change: campaigns are then compared by their repeats, not by their history."""
NOISE_FLOOR = 0.003
"""Least scatter assumed (0.3 %): A/A campaigns of quiet systems scatter by 0.1–0.5 %, and equal readings prove no noiseless machine."""
_OUTERMOST = 2.5
_MAD = 1.4826  # median absolute deviation → standard deviation of normal noise


@dataclass(frozen=True)
class Points:
    """`at`: index of each existing point in the caller's series; `y`: its value on the analysis scale; `logged`: whether that is log."""

    at: npt.NDArray[np.int64]
    y: Array
    logged: bool
    unit: float

    def level(self, y: float) -> float:
        """A level on the analysis scale in the caller's unit."""
        return math.exp(y) if self.logged else y * self.unit

    def ratio(self, step: float) -> float:
        """A step on the analysis scale as a relative change: 0.05 is 5 % more."""
        return math.expm1(step) if self.logged else step


def points(values: Sequence[float | None]) -> Points:
    """The points that exist (neither None, NaN nor infinite): logs if all are positive, else shares of the median magnitude."""
    raw = np.array([math.nan if v is None else v for v in values], dtype=float)
    at = np.flatnonzero(np.isfinite(raw))
    known = raw[at]
    if known.size and (known > 0).all():
        return Points(at, np.log(known), True, 1.0)
    magnitude = float(np.median(np.abs(known))) if known.size else 0.0
    unit = magnitude or (float(np.mean(np.abs(known))) if known.size else 0.0) or 1.0
    return Points(at, known / unit, False, unit)


def scatter(y: Array) -> float:
    """Standard deviation from point to point; a change moves one difference of many and so does not widen it."""
    steps = np.diff(y)
    return max(_MAD * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2), NOISE_FLOOR)


def scatter_within(y: Array, edges: Sequence[int], levels: Sequence[float]) -> float:
    """Standard deviation about the levels of the segments [edges[i], edges[i + 1])."""
    return scatter_about(y - np.repeat(levels, np.diff(edges)), len(levels))


def scatter_about(residuals: Array, fitted: int) -> float:
    """Standard deviation of residuals, with the degrees of freedom that `fitted` parameters took."""
    freedom = max(1, len(residuals) - fitted)
    far = np.abs(residuals)
    middle = max(_MAD * float(np.median(far)) * math.sqrt(len(far) / freedom), NOISE_FLOOR)
    # The median alone is too often too small on a dozen points; a spike counts as no more than the outermost ordinary point.
    return max(middle, math.sqrt(float((np.minimum(far, _OUTERMOST * middle) ** 2).sum()) / freedom))
