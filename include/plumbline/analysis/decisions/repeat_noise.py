"""How much the repeats of one provider on one workload leave its score open: noise of slots, noise of repeats, and what peers' tell.

The model of a trial's log score: the provider's level, a deviation that all repeats of its slot share (the hour, often the node), a
deviation of its own. Little is known of either from the two, three or nine repeats of a campaign, so nothing is taken as known:

- the slots' standard deviation is about half of the repeats', nine times in ten below one and a half times, now and then the manifold
  (half of Student's, 2 degrees of freedom): three slots say something about it, one slot nothing
- the repeats' variances of the providers are scattered around one of the workload, as if each had been seen before in `PEERS` repeats;
  the workload's own is learned from all providers' repeats under a wide prior (`USUAL`, `WIDE`)

Both posteriors are computed on grids, mean and scale integrated out; a provider's level then is Student's around what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.analysis.decisions.value_functions import Array

PEERS = 4.0
"""Noise of providers that run the same workload differs by a factor of up to two and a half or so."""
USUAL, WIDE = 0.02, 1.5
"""Repeats of one workload scatter by 2 %, nineteen times in twenty between 0.1 % and 40 % (log-normal)."""

_ROUNDING = 1e-24
"""Squares of log scores up to which repeats are equal: what is left of three equal numbers less their mean is no noise that was measured."""
_RATIOS = np.geomspace(0.05, 50, 40) ** 2
"""Variances of slots over that of repeats that are looked at: up to repeats of a slot that are all but equal."""
_RATIO_PRIOR = -1.5 * np.log1p(_RATIOS / 0.5**2 / 2) + 0.5 * np.log(_RATIOS)
"""Half of Student's with 2 degrees of freedom and scale 0.5, of the standard deviations; the second term is the grid's own spacing."""
_LEVELS = np.geomspace(1e-4, 1.0, 41) ** 2
"""Variances of a workload's repeats that are looked at."""
_PRIOR = -0.5 * (np.log(np.sqrt(_LEVELS) / USUAL) / WIDE) ** 2


@dataclass(frozen=True)
class RepeatScatter:
    """One provider's repeats of one workload. `score`: the log score of each trial; `slots`: the number of its slot, from 0."""

    score: Array
    slots: NDArray[np.intp]

    @property
    def means(self) -> Array:
        """Slots × trials: what makes slots' means of trials' numbers."""
        weights = np.zeros((int(self.slots.max()) + 1, len(self.slots)))
        weights[self.slots, np.arange(len(self.slots))] = 1 / np.bincount(self.slots)[self.slots]
        return weights

    @property
    def precisions(self) -> Array:
        """Ratios × slots: precision of a slot's mean, in units of one repeat's."""
        precisions: Array = 1 / (_RATIOS[:, None] + 1 / np.bincount(self.slots))
        return precisions

    @property
    def squares(self) -> Array:
        """Sum of squares by ratio: within slots, and between them as far as the ratio does not explain it."""
        levels = self.means @ self.score
        centres = self.precisions @ levels / self.precisions.sum(axis=1)
        within = float(((self.score - levels[self.slots]) ** 2).sum())
        squares = within + (self.precisions * (levels - centres[:, None]) ** 2).sum(axis=1)
        return np.where(squares > _ROUNDING, squares, 0.0)

    def likelihoods(self) -> Array:
        """Logarithm of the likelihood of levels × ratios, with the ratios' prior in it."""
        sizes = np.bincount(self.slots)
        ratio = _RATIO_PRIOR - 0.5 * np.log1p(np.outer(_RATIOS, sizes)).sum(axis=1) - 0.5 * np.log(self.precisions.sum(axis=1))
        before = PEERS * _LEVELS[:, None]
        log_likelihoods: Array = ratio + 0.5 * PEERS * np.log(before) - 0.5 * (PEERS + len(self.score) - 1) * np.log(before + self.squares)
        return log_likelihoods


@dataclass(frozen=True)
class Draws:
    """Random weights of one provider's trials. `moved(numbers)` gives deviations of the mean of numbers (trials × columns): draws ×
    columns. `spread`: the score's standard deviation in each draw's state of the world, in the log score's unit."""

    spread: Array
    _by_trial: Array
    _by_slot: Array
    _centre: Array
    _means: Array
    _slots: NDArray[np.intp]
    _own: Array
    _scale: Array
    _ratio: Array
    _sizes: NDArray[np.intp]

    def left_by(self, times: float) -> Array:
        """The share of the score's variance that `times` as many repeats in each slot leave, in each draw: what slots differ in stays."""
        ratio = self._ratio[:, None]
        left: Array = (1 / (ratio + 1 / self._sizes)).sum(axis=1) / (1 / (ratio + 1 / (times * self._sizes))).sum(axis=1)
        return left

    def scores(self, numbers: Array) -> Array:
        """Deviations of what the score is made of, with the noise that the score has."""
        return self._raw(numbers) * self._scale[:, None]

    def others(self, numbers: Array) -> Array:
        """Deviations of other numbers of the same trials: by their own scatter alone, Student's with n - 1 degrees of freedom."""
        return self._raw(numbers) * self._own[:, None]

    def _raw(self, numbers: Array) -> Array:
        by_slot = self._means @ numbers
        between = self._by_slot @ by_slot - self._by_slot.sum(axis=1, keepdims=True) * (self._centre @ by_slot)
        levels: Array = self._by_trial @ (numbers - by_slot[self._slots]) + between
        return levels


def draw(scatters: Sequence[RepeatScatter], rngs: Sequence[np.random.Generator], shared: np.random.Generator, draws: int) -> list[Draws]:
    """Draws of every provider's level on one workload; `rngs`: a stream of each provider's own."""
    tables = [s.likelihoods() for s in scatters]
    moving = [t for s, t in zip(scatters, tables, strict=True) if s.squares.max() > 0]  # what never moves tells nothing of the noise
    log = _PRIOR + sum((np.logaddexp.reduce(t, axis=1) for t in moving), np.zeros(len(_LEVELS)))
    level = shared.choice(len(_LEVELS), size=draws, p=_normed(log))
    return [_of_one(s, t, level, rng) for s, t, rng in zip(scatters, tables, rngs, strict=True)]


def _of_one(scatter: RepeatScatter, table: Array, level: NDArray[np.intp], rng: np.random.Generator) -> Draws:
    n, draws = len(scatter.score), len(level)
    cumulative = np.cumsum(np.exp(table - table.max(axis=1, keepdims=True)), axis=1)
    cumulative /= cumulative[:, -1:]
    ratio = np.minimum((rng.random(draws)[:, None] > cumulative[level]).sum(axis=1), len(_RATIOS) - 1)
    own = rng.chisquare(n - 1, size=draws)
    chi = own + rng.chisquare(PEERS, size=draws)
    precisions, squares = scatter.precisions, scatter.squares
    total = precisions.sum(axis=1)[ratio]
    inflation = _median_over_mean(n)
    variance = np.where(squares[ratio] > 0, (PEERS * _LEVELS[level] + squares[ratio]) * inflation / (chi * total), 0.0)
    scale = np.sqrt(variance / np.where(squares[ratio] > 0, squares[ratio], 1.0))
    return Draws(
        spread=np.sqrt(variance),
        _by_trial=rng.standard_normal((draws, n)),
        _by_slot=rng.standard_normal((draws, precisions.shape[1])) * np.sqrt(precisions[ratio]),
        _centre=(precisions / precisions.sum(axis=1, keepdims=True))[ratio],
        _means=scatter.means,
        _slots=scatter.slots,
        _own=np.sqrt(inflation / (own * total)),
        _scale=scale,
        _ratio=_RATIOS[ratio],
        _sizes=np.bincount(scatter.slots),
    )


def _normed(log: Array) -> Array:
    weights: Array = np.exp(log - log.max())
    return weights / float(weights.sum())


def _median_over_mean(n: int) -> float:
    """Variance of the median of `n` normal numbers over that of their mean (within 1 %): 1 for two, then on the way to π/2."""
    return 1.0 if n <= 2 else float(np.pi / 2 * n / (n + (0.5 if n % 2 else 1.27)))
