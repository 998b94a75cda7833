"""Lasting changes (steps, ramps, creep) in a series of one value per campaign."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

MINIMUM_CHANGE = 0.015
"""Least change worth a word (1.5 %) where the caller names no threshold."""


@dataclass(frozen=True)
class SeriesChange:
    """One lasting change. `index`: first point after it, counted over all points given, missing ones too. `effect`: relative, 0.05 is
    5 % more; of the median magnitude where the series has values that are not positive. `before`, `after`: levels in the series' unit,
    for a ramp where it begins and where it stands at its end. `p`: nominal, of the levels' difference, or of a ramp's
    slope."""

    index: int
    kind: Literal["step", "ramp"]
    effect: float
    p: float
    before: float
    after: float


def detect_changes(values: Sequence[float | None], *, floor: float = MINIMUM_CHANGE) -> tuple[SeriesChange, ...]:
    """Every lasting change of a series of one value per campaign, oldest first.

    None and NaN are missing points; they are skipped and keep their places. Fewer than 12 existing points give nothing, and so do
    spikes. `floor` is the least relative change. Raises ValueError for a floor that is not positive and finite.
    """
    if not (0 < floor < math.inf):
        raise ValueError(f"floor: {floor} is not a relative change; expected a positive number such as 0.02")
    series = analysis_points(values)
    if len(series.y) < MINIMUM_POINTS:
        return ()
    least = math.log1p(floor) if series.logged else floor
    steps, noise = prune(series.y, candidate_boundaries(series.y), least)
    return tuple(
        SeriesChange(
            index=int(series.at[change.at]),
            kind="ramp" if isinstance(change, GradualChange) else "step",
            effect=series.ratio(change.after - change.before),
            p=change.p,
            before=series.level(change.before),
            after=series.level(change.after),
        )
        for change in add_ramps_between(series.y, merge_into_ramps(series.y, steps, noise, least), least)
    )


Array = npt.NDArray[np.float64]

MINIMUM_POINTS = 12
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


def analysis_points(values: Sequence[float | None]) -> Points:
    """The points that exist (neither None, NaN nor infinite): logs if all are positive, else shares of the median magnitude."""
    raw = np.array([math.nan if v is None else v for v in values], dtype=float)
    at = np.flatnonzero(np.isfinite(raw))
    known = raw[at]
    if known.size and (known > 0).all():
        return Points(at, np.log(known), True, 1.0)
    magnitude = float(np.median(np.abs(known))) if known.size else 0.0
    unit = magnitude or (float(np.mean(np.abs(known))) if known.size else 0.0) or 1.0
    return Points(at, known / unit, False, unit)


def successive_scatter(y: Array) -> float:
    """Standard deviation from point to point; a change moves one difference of many and so does not widen it."""
    steps = np.diff(y)
    return max(_MAD * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2), NOISE_FLOOR)


def scatter_about(residuals: Array, fitted: int) -> float:
    """Standard deviation of residuals, with the degrees of freedom that `fitted` parameters took."""
    freedom = max(1, len(residuals) - fitted)
    far = np.abs(residuals)
    middle = max(_MAD * float(np.median(far)) * math.sqrt(len(far) / freedom), NOISE_FLOOR)
    # The median alone is too often too small on a dozen points; a spike counts as no more than the outermost ordinary point.
    return max(middle, math.sqrt(float((np.minimum(far, _OUTERMOST * middle) ** 2).sum()) / freedom))


SMALLEST = 3
"""Points in the shortest segment: two alike are a coincidence of spikes."""
_PENALTY = 0.4  # × ln n: half of what bare KernelCPD needs to stay calm, because every boundary is judged afterwards
_WINDOW = 250
"""Points searched at once. The search is quadratic where nothing changes, and a change needs no more neighbours than this to be seen."""
_SAMPLE = 500
"""Points from which the kernel's width is learned; all pairs of 10,000 points would take gigabytes."""


def candidate_boundaries(y: Array) -> list[int]:
    """Ascending boundaries (first point after), at least `SMALLEST` points apart and away from both ends."""
    from ruptures import KernelCPD  # loads scipy.signal, which takes longer than most commands
    from ruptures.exceptions import BadSegmentationParameters

    z = (y - y[0]) / successive_scatter(y)
    penalty, width = _PENALTY * math.log(len(y)), _kernel_width(z)
    boundaries: list[int] = []
    begin = 0
    while True:
        end = min(begin + _WINDOW, len(z))
        try:
            search = KernelCPD(kernel="rbf", min_size=SMALLEST, params={"gamma": width}).fit(z[begin:end].reshape(-1, 1))
            inside = [begin + int(b) for b in search.predict(pen=penalty)[:-1]]
        except BadSegmentationParameters:  # the last window is too short to be cut
            inside = []
        if end == len(z):
            return boundaries + inside
        # The next window begins in the middle of this one, on a boundary if there is one: what lies near a window's end is seen again.
        half = begin + _WINDOW // 2
        first_half = [b for b in inside if b <= half]
        boundaries += first_half
        begin = first_half[-1] if first_half and first_half[-1] > half - SMALLEST else half
        if boundaries and boundaries[-1] < begin < boundaries[-1] + SMALLEST:
            begin = boundaries[-1]


def _kernel_width(z: Array) -> float:
    """One over the median squared distance of pairs of points; 1 if most points are alike."""
    some = z[np.linspace(0, len(z) - 1, min(len(z), _SAMPLE)).astype(int)]
    squares = np.subtract.outer(some, some)[np.triu_indices(len(some), 1)] ** 2
    middle = float(np.median(squares))
    return 1 / middle if middle > 0 else 1.0


# Which candidates are changes: each boundary must pass four tests against its two neighbouring segments, the weakest goes first.
#
# size         the levels differ by the caller's floor
# evidence     the difference of two robust levels over its standard error, which one robust scatter of all segments gives: Student's t, with
#              what the robust scatter costs in degrees of freedom. Its p must be 0.028 % at 12 points and that × (12 / n)² at n: a series
#              is looked at after every point, and the sum over all looks stays finite. So at most 1 % of normal series alarm in 24 points
#              (`make perf-drift` counts it)
# superiority  a point after the change lies beyond a point before it with a probability of 80 %: modes that alternate do not
# ranks        Mann–Whitney |z| ≥ 2.8, or the segments are too short for that and do not overlap at all: no shape of noise fools ranks
#
# The newest segment needs four points: three equal wild ones are common on real machines, and one campaign's wait costs less than an alarm.


CONFIRMED_BY = 4
"""Points that the newest segment must have."""
REACH = 250
"""Points of each neighbouring segment that judge a boundary: nearer ones say more, and long series stay fast."""
_LEVEL = 2.8e-4
_SPENT = 2
_FREEDOM = 0.8  # of n − k degrees of freedom are left to a scatter that winsorizes
_SUPERIORITY = 0.8
_RANK_Z = 2.8
_FAR = 2.0


@dataclass(frozen=True)
class Boundary:
    """A boundary that holds: levels on the analysis scale, and the p of its evidence."""

    at: int
    before: float
    after: float
    p: float


def prune(y: Array, candidates: list[int], floor: float) -> tuple[list[Boundary], float]:
    """The boundaries that pass every test, ascending, and the scatter within the segments between them; `floor` on the analysis scale."""
    edges = [0, *candidates, len(y)]
    while True:
        levels = [float(np.median(y[i:j])) for i, j in itertools.pairwise(edges)]
        noise = scatter_about(y - np.repeat(levels, np.diff(edges)), len(levels))
        judged = [_judge(y, edges, k, noise, floor) for k in range(1, len(edges) - 1)]
        strength = [math.inf, *(s for s, _ in judged), math.inf]
        # Of neighbours that fail, only the weakest goes: what it was merged with may hold afterwards.
        failed = {
            k for k in range(1, len(edges) - 1) if strength[k] < 1 and strength[k] <= strength[k - 1] and strength[k] < strength[k + 1]
        }
        if not failed:
            lasting = [Boundary(edges[k], levels[k - 1], levels[k], p) for k, (_, p) in enumerate(judged, 1) if strength[k] >= 1]
            return lasting, noise
        edges = [edge for k, edge in enumerate(edges) if k not in failed]


def allowed_p(points: int) -> float:
    """The p that a series of `points` may spend on one look."""
    return _LEVEL * (MINIMUM_POINTS / points) ** _SPENT


def p_value(t: float, freedom: int) -> float:
    """Two-sided p of a difference of `t` standard errors by a robust scatter from `freedom` degrees of freedom; never 0."""
    return max(2 * float(stdtr(max(1.0, _FREEDOM * freedom), -t)), 1e-300)


def rank_separation(before: Array, after: Array, rising: bool) -> float:
    """How far `after` lies beyond `before` by ranks alone, as a ratio to what is needed: below 1 they mix too much."""
    ranked = np.sort(before)
    above = float(np.mean(np.searchsorted(ranked, after, "left") + np.searchsorted(ranked, after, "right"))) / (2 * len(before))
    superior = above if rising else 1 - above
    spread = math.sqrt((len(before) + len(after) + 1) / (12 * len(before) * len(after)))  # of `superior`, if nothing changed
    return min(superior / _SUPERIORITY, (superior - 0.5) / min(_RANK_Z * spread, 0.5))


def _judge(y: Array, edges: list[int], k: int, noise: float, floor: float) -> tuple[float, float]:
    """(the least ratio of what was found to what is needed, p): below 1 the boundary fails."""
    at = edges[k]
    before, after = y[max(edges[k - 1], at - REACH) : at], y[at : min(edges[k + 1], at + REACH)]
    moved = _level(after, noise) - _level(before, noise)
    p = p_value(abs(moved) / (noise * math.sqrt(1 / len(before) + 1 / len(after))), len(y) - len(edges) + 1)
    strength = min(abs(moved) / floor, math.log(p) / math.log(allowed_p(len(y))), rank_separation(before, after, moved > 0))
    if edges[k + 1] == len(y) and edges[k + 1] - at < CONFIRMED_BY:
        strength = min(strength, 0.5)
    return strength, p


def _level(y: Array, noise: float) -> float:
    """The mean, with what lies far from the median pulled in: nearly as exact as the mean, and no spike moves it much."""
    middle = float(np.median(y))
    return middle + float(np.clip(y - middle, -_FAR * noise, _FAR * noise).mean())


# Ramps: runs of steps that a level and then a slope explain better, and slopes that no step explains at all. A ramp passes the tests of a step.
#
# A short ramp has no two levels: it widens the scatter about them and so hides itself from the test of steps. Where no step was found, a slope
# is tested against its own scatter, at 0.3 % of the level, because many shapes resemble a slope.


_REACH = 100  # points looked at on either side of a run: every place where a ramp may begin is fitted over all of them
_WILD = 3.0  # scatters beyond which a residual counts linearly, so that a spike bends no slope
_FEWEST = 8
_SHORTEST = 6  # points of a slope that no step speaks for: fewer are a spike's width
_SHARE = 3e-3
_INSTEAD = 1e-3  # p of a ramp instead of steps: these have passed the level of their look, and it adds no alarm
_UNCONFIRMED = 2  # newest points without which a ramp must hold too


@dataclass(frozen=True)
class GradualChange:
    """A slope from point `at` on, between two levels on the analysis scale; `p`: its own."""

    at: int
    before: float
    after: float
    p: float


def merge_into_ramps(y: Array, steps: Sequence[Boundary], noise: float, floor: float) -> list[Boundary | GradualChange]:
    """`steps` with every run that is rather a ramp replaced by it; ascending. `floor` on the analysis scale."""
    ends = [0, *(s.at for s in steps), len(y)]
    levels = np.repeat([float(np.median(y[i:j])) for i, j in itertools.pairwise(ends)], np.diff(ends))
    merged: list[Boundary | GradualChange] = []
    k = 0
    for _, group in itertools.groupby(steps, lambda s: s.after > s.before):
        run = list(group)
        begin, end = max(ends[k], run[0].at - _REACH), min(ends[k + len(run) + 1], run[-1].at + _REACH)
        ramp = _better_ramp(y, begin, end, run, levels, len(ends) - 1, noise, floor)
        # What only the newest points say is not believed yet: wild ones would bend a step into a slope.
        if ramp and end == len(y) and _better_ramp(y, begin, end - _UNCONFIRMED, run, levels, len(ends) - 1, noise, floor) is None:
            ramp = None
        merged += [ramp] if ramp else run
        k += len(run)
    return merged


def add_ramps_between(y: Array, changes: Sequence[Boundary | GradualChange], floor: float) -> list[Boundary | GradualChange]:
    """`changes` and the ramps in the stretches that it leaves level; ascending. `floor` on the analysis scale."""
    ends = [0, *(f.at for f in changes), len(y)]
    ramps = [
        _own_ramp(y, max(begin, end - 2 * _REACH), end, floor)
        for start, (begin, end) in zip([None, *changes], itertools.pairwise(ends), strict=True)
        if not isinstance(start, GradualChange) and end - begin >= _FEWEST
    ]
    return sorted([*changes, *(r for r in ramps if r)], key=lambda f: f.at)


def _own_ramp(y: Array, begin: int, end: int, floor: float) -> GradualChange | None:
    part = y[begin:end]
    noise = successive_scatter(part)
    knot, line, misfit = _bent(part, noise, _SHORTEST)
    rise = float(line[-1] - line[0])
    t = float(np.linalg.norm(line - line.mean())) / scatter_about(part - line, 3)
    p = p_value(t, len(part) - 3)
    risen = part[(knot + len(part)) // 2 :]
    if abs(rise) < floor or p > _SHARE * allowed_p(len(y)) or rank_separation(part[:knot], risen, rise > 0) < 1:
        return None
    place = np.arange(len(part))
    _, _, stepped = _best(part, (place[None, :] >= place[1:, None]).astype(float), noise)
    return GradualChange(begin + knot, float(line[0]), float(line[-1]), p) if misfit < stepped else None


def _better_ramp(
    y: Array, begin: int, end: int, run: Sequence[Boundary], levels: Array, segments: int, noise: float, floor: float
) -> GradualChange | None:
    """The ramp from a point of [begin, last step of the run] to `end` that explains [begin, end) better than the run, or None.

    It must move as the run does and pass a step's tests of size, evidence and ranks. `levels`: of all points by their `segments`.
    """
    part, steps = y[begin:end], [s.at - begin for s in run]
    if len(part) < max(_FEWEST, steps[-1] + 2):
        return None
    knot, line, misfit = _bent(part, noise, CONFIRMED_BY, steps[-1])
    rise = float(line[-1] - line[0])
    edges = [0, *steps, len(part)]
    means = np.repeat([float(part[i:j].mean()) for i, j in itertools.pairwise(edges)], np.diff(edges))
    stepped = float(_misfit(np.stack([part - levels[begin:end], part - means]), noise).min())
    # Schwarz's criterion: a knot costs as much as the place of a step, and every further step of the run costs a place and a level.
    if misfit + 2 * (1 - len(run)) * math.log(len(part)) * noise**2 >= stepped or (rise > 0) != (run[0].after > run[0].before):
        return None
    residuals = np.concatenate([(y - levels)[:begin], part - line, (y - levels)[end:]])
    p = p_value(float(np.linalg.norm(line - line.mean())) / scatter_about(residuals, segments), len(y) - segments)
    risen = part[(knot + len(part)) // 2 :]
    if abs(rise) < floor or p > _INSTEAD or rank_separation(part[:knot], risen, rise > 0) < 1:
        return None
    return GradualChange(begin + knot, float(line[0]), float(line[-1]), p)


def _bent(part: Array, noise: float, shortest: int, last: int | None = None) -> tuple[int, Array, float]:
    """(first point of the slope, the line, its misfit) of the best line that is flat and then slopes over `shortest` points or more, from the
    point `last` on at the latest."""
    place = np.arange(len(part))
    knots = place[2 : len(part) + 1 - shortest][: None if last is None else last - 1]
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
