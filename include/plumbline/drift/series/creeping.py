"""A creep away from the oldest accepted baseline: many steps, each of them too small to be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from plumbline.drift.series.changes import FLOOR
from plumbline.drift.series.points import FEWEST, points

_TREND_LEVEL = 0.001
_NEWEST = 4


@dataclass(frozen=True)
class Creep:
    """`effect`: newest level against the oldest accepted one, relative; `slope`: relative change per point (Theil–Sen) with its 95 %
    interval; `p`: Kendall's trend test."""

    effect: float
    slope: float
    slope_low: float
    slope_high: float
    p: float


def creep(values: Sequence[float | None], oldest_accepted: float, *, floor: float = FLOOR) -> Creep | None:
    """A trend that carried the newest level by `floor` or more from the oldest accepted baseline's level, or None.

    `values` are the campaigns since that baseline; each step may be too small for any threshold, and every newer baseline may have
    been accepted. The newest level is the median of the last four existing points. Fewer than 12 existing points give None.
    Raises ValueError if the baseline's level or an existing value is not positive: a ratio needs both.
    """
    series = points(values)
    if not (0 < oldest_accepted < math.inf):
        raise ValueError(f"oldest_accepted: {oldest_accepted} has no ratio; expected a positive level in the series' unit")
    if len(series.y) and not series.logged:
        raise ValueError("values: a creep is a ratio; expected positive values only")
    if len(series.y) < FEWEST:
        return None
    moved = float(np.median(series.y[-_NEWEST:])) - math.log(oldest_accepted)
    trend = stats.kendalltau(series.at, series.y)
    slope, _, low, high = stats.theilslopes(series.y, series.at, 0.95)
    if not (abs(moved) >= math.log1p(floor) and trend.pvalue <= _TREND_LEVEL and moved * slope > 0):
        return None
    return Creep(math.expm1(moved), math.expm1(slope), math.expm1(low), math.expm1(high), float(trend.pvalue))
