"""The changes of one series: where it stepped or began to slope, how far, how sure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from plumbline.drift.series.boundaries import prune
from plumbline.drift.series.candidates import candidates
from plumbline.drift.series.points import FEWEST, points
from plumbline.drift.series.ramps import Ramp, between, merged

FLOOR = 0.015
"""Least change worth a word (1.5 %) where the caller names no threshold."""


@dataclass(frozen=True)
class Change:
    """One lasting change. `index`: first point after it, counted over all points given, missing ones too. `effect`: relative, 0.05 is
    5 % more; of the median magnitude where the series has values that are not positive. `before`, `after`: levels in the series' unit,
    for a ramp where it begins and where it stands at its end. `p`: nominal, of the levels' difference (of a ramp: of
    its strongest step, or of its slope)."""

    index: int
    kind: Literal["step", "ramp"]
    effect: float
    p: float
    before: float
    after: float


def changes(values: Sequence[float | None], *, floor: float = FLOOR) -> tuple[Change, ...]:
    """Every lasting change of a series of one value per campaign, oldest first.

    None and NaN are missing points; they are skipped and keep their places. Fewer than 12 existing points give nothing, and so do
    spikes. `floor` is the least relative change. Raises ValueError for a floor that is not positive and finite.
    """
    if not (0 < floor < math.inf):
        raise ValueError(f"floor: {floor} is no relative change; expected a positive number such as 0.02")
    series = points(values)
    if len(series.y) < FEWEST:
        return ()
    least = math.log1p(floor) if series.logged else floor
    steps, noise = prune(series.y, candidates(series.y), least)
    return tuple(
        Change(
            index=int(series.at[found.at]),
            kind="ramp" if isinstance(found, Ramp) else "step",
            effect=series.ratio(found.after - found.before),
            p=found.p,
            before=series.level(found.before),
            after=series.level(found.after),
        )
        for found in between(series.y, merged(series.y, steps, noise), least)
    )
