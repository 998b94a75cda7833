"""Steps that are one ramp: where a level and then a slope explain a run of steps in one direction better, the run is a ramp."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.drift.series.boundaries import Boundary
from plumbline.drift.series.points import Array

_REACH = 100  # points looked at on either side of a run: every place where a ramp may begin is fitted over all of them
_WILD = 3.0  # scatters beyond which a residual counts linearly, so that a spike bends no slope


@dataclass(frozen=True)
class Ramp:
    """A slope from point `at` on, between two levels on the analysis scale; `p` of the strongest step that it replaces."""

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


def _as_ramp(y: Array, begin: int, end: int, run: Sequence[Boundary], noise: float) -> Sequence[Boundary | Ramp]:
    part, place = y[begin:end], np.arange(end - begin)
    knots = place[2:-3]
    if not len(knots):
        return run
    levels = np.repeat([run[0].before, *(s.after for s in run)], np.diff([begin, *(max(s.at, begin) for s in run), end]))
    # One least-squares line per knot: flat before it, a slope from it on.
    bent = np.clip(place[None, :] - knots[:, None] + 1.0, 0.0, None)
    bent -= bent.mean(axis=1, keepdims=True)
    slopes = (bent @ (part - part.mean())) / (bent**2).sum(axis=1)
    misfit = _misfit(part - part.mean() - slopes[:, None] * bent, noise)
    best = int(np.argmin(misfit))
    if misfit[best] >= _misfit((part - levels)[None, :], noise)[0]:
        return run
    line = part.mean() + slopes[best] * bent[best]
    return [Ramp(begin + int(knots[best]), float(line[0]), float(line[-1]), min(s.p for s in run))]


def _misfit(residuals: Array, noise: float) -> Array:
    """Huber's loss by row."""
    far, wild = np.abs(residuals), _WILD * noise
    loss: Array = np.where(far < wild, far**2, wild * (2 * far - wild)).sum(axis=1)
    return loss
