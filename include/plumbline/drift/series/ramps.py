"""Ramps: runs of steps that a level and then a slope explain better, and slopes that no step explains at all.

A short ramp has no two levels: it widens the scatter about them and so hides itself from the test of steps. Where no step was found, a slope
is tested against its own scatter, at 0.3 % of the level, because many shapes resemble a slope.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.drift.series.boundaries import Boundary, allowed, p_of, standing_out
from plumbline.drift.series.points import Array, scatter, scatter_about

_REACH = 100  # points looked at on either side of a run: every place where a ramp may begin is fitted over all of them
_WILD = 3.0  # scatters beyond which a residual counts linearly, so that a spike bends no slope
_FEWEST = 8
_SHORTEST = 6  # points of a slope that no step speaks for: fewer are a spike's width
_SHARE = 3e-3


@dataclass(frozen=True)
class Ramp:
    """A slope from point `at` on, between two levels on the analysis scale; `p` of the strongest step that it replaces, or its own."""

    at: int
    before: float
    after: float
    p: float


def merged(y: Array, steps: Sequence[Boundary], noise: float) -> list[Boundary | Ramp]:
    """`steps` with every run that is rather a ramp replaced by it; ascending."""
    ends = [0, *(s.at for s in steps), len(y)]
    found: list[Boundary | Ramp] = []
    k = 0
    for _, group in itertools.groupby(steps, lambda s: s.after > s.before):
        run = list(group)
        found += _as_ramp(y, max(ends[k], run[0].at - _REACH), min(ends[k + len(run) + 1], run[-1].at + _REACH), run, noise)
        k += len(run)
    return found


def between(y: Array, found: Sequence[Boundary | Ramp], floor: float) -> list[Boundary | Ramp]:
    """`found` and the ramps in the stretches that it leaves level; ascending. `floor` on the analysis scale."""
    ends = [0, *(f.at for f in found), len(y)]
    ramps = [
        _own_ramp(y, max(begin, end - 2 * _REACH), end, floor)
        for start, (begin, end) in zip([None, *found], itertools.pairwise(ends), strict=True)
        if not isinstance(start, Ramp) and end - begin >= _FEWEST
    ]
    return sorted([*found, *(r for r in ramps if r)], key=lambda f: f.at)


def _own_ramp(y: Array, begin: int, end: int, floor: float) -> Ramp | None:
    part = y[begin:end]
    noise = scatter(part)
    knot, line, misfit = _bent(part, noise, _SHORTEST)
    rise = float(line[-1] - line[0])
    t = float(np.linalg.norm(line - line.mean())) / scatter_about(part - line, 3)
    p = p_of(t, len(part) - 3)
    risen = part[(knot + len(part)) // 2 :]
    if abs(rise) < floor or p > _SHARE * allowed(len(y)) or standing_out(part[:knot], risen, rise > 0) < 1:
        return None
    place = np.arange(len(part))
    _, _, stepped = _best(part, (place[None, :] >= place[1:, None]).astype(float), noise)
    return Ramp(begin + knot, float(line[0]), float(line[-1]), p) if misfit < stepped else None


def _as_ramp(y: Array, begin: int, end: int, run: Sequence[Boundary], noise: float) -> Sequence[Boundary | Ramp]:
    part = y[begin:end]
    if len(part) < _FEWEST:
        return run
    levels = np.repeat([run[0].before, *(s.after for s in run)], np.diff([begin, *(max(s.at, begin) for s in run), end]))
    knot, line, misfit = _bent(part, noise, 4)
    if misfit >= _misfit((part - levels)[None, :], noise)[0]:
        return run
    return [Ramp(begin + knot, float(line[0]), float(line[-1]), min(s.p for s in run))]


def _bent(part: Array, noise: float, shortest: int) -> tuple[int, Array, float]:
    """(first point of the slope, the line, its misfit) of the best line that is flat and then slopes over `shortest` points or more."""
    place = np.arange(len(part))
    knots = place[2 : 1 - shortest]
    best, line, misfit = _best(part, np.clip(place[None, :] - knots[:, None] + 1.0, 0.0, None), noise)
    return int(knots[best]), line, misfit


def _best(part: Array, shapes: Array, noise: float) -> tuple[int, Array, float]:
    """(row, line, misfit) of the row of `shapes` that fits best by least squares, moved and stretched."""
    shapes = shapes - shapes.mean(axis=1, keepdims=True)
    slopes = (shapes @ (part - part.mean())) / (shapes**2).sum(axis=1)
    misfit = _misfit(part - part.mean() - slopes[:, None] * shapes, noise)
    best = int(np.argmin(misfit))
    return best, part.mean() + slopes[best] * shapes[best], float(misfit[best])


def _misfit(residuals: Array, noise: float) -> Array:
    """Huber's loss by row."""
    far, wild = np.abs(residuals), _WILD * noise
    loss: Array = np.where(far < wild, far**2, wild * (2 * far - wild)).sum(axis=1)
    return loss
