"""Creep: a trend that carried a series away from its oldest accepted baseline, although no step of it was large enough to be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.analysis.drift.change_detection import MINIMUM_CHANGE, MINIMUM_POINTS, analysis_points

_TREND_LEVEL = 0.001
_NEWEST = 4


@dataclass(frozen=True)
class Creep:
    """`effect`: newest level against the oldest accepted one, relative; `slope`: relative change per point (Theil–Sen); `p`: Kendall's trend test."""

    effect: float
    slope: float
    p: float


def detect_creep(values: Sequence[float | None], oldest_accepted: float, *, floor: float = MINIMUM_CHANGE) -> Creep | None:
    """A trend that carried the newest level by `floor` or more from the oldest accepted baseline's level, or None.

    `values` are the campaigns since that baseline; each step may be too small for any threshold, and every newer baseline may have
    been accepted. The newest level is the median of the last four existing points. Fewer than 12 existing points give None.
    Raises ValueError if the baseline's level or an existing value is not positive: a ratio needs both.
    """
    series = analysis_points(values)
    if not (0 < oldest_accepted < math.inf):
        raise ValueError(f"oldest_accepted: {oldest_accepted} has no ratio; expected a positive level in the series' unit")
    if len(series.y) and not series.logged:
        raise ValueError("values: a creep is a ratio; expected positive values only")
    if len(series.y) < MINIMUM_POINTS:
        return None
    from scipy import stats  # takes two seconds to import

    moved = float(np.median(series.y[-_NEWEST:])) - math.log(oldest_accepted)
    trend = stats.kendalltau(series.at, series.y)
    slope = float(stats.theilslopes(series.y, series.at)[0])
    if not (abs(moved) >= math.log1p(floor) and trend.pvalue <= _TREND_LEVEL and moved * slope > 0):
        return None
    return Creep(math.expm1(moved), math.expm1(slope), float(trend.pvalue))
