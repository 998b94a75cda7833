"""The probability that each eligible provider is really first: what the campaign's repeats leave open.

1. Slots and trials are redrawn by random normal weights on whole trials, so that metrics measured together move together, with the noise
   that `noise.py` finds likely: Student's, around the median, which ranks.
2. Providers do not differ without bound: among near-equals the one that leads has been lucky. Scores are drawn towards their common
   middle as in a one-way random-effects model whose spread is unknown, with a half-Cauchy prior of median `USUAL_SPREAD`.
3. A rate that a search found lies anywhere in its bracket, whatever the repeats say.
4. Gates are judged again in each draw; where all are closed nobody is first.

The draws are seeded by provider: the same trials give the same probabilities, also when another provider is taken away that is not
eligible. How often the probabilities come true: `make perf-decisions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.analysis.cost.unit_costs import sustained
from plumbline.analysis.decisions.decision import Column, Ranked
from plumbline.analysis.decisions.value_functions import Array, log_values, log_worths, worth
from plumbline.analysis.trial_sample import SUSTAINED, TrialSample
from plumbline.declarations import Criterion, Preference

USUAL_SPREAD = 0.1
"""Half of all fields of providers are taken to differ by less than this (standard deviation of log scores), half by more."""

_ALIKE = 1e-12
"""Log scores that differ by no more are equal: less than the rounding of a price decides nothing."""

_SPREADS = USUAL_SPREAD * np.tan(np.pi / 2 * (np.arange(24) + 0.5) / 24)
"""Points of that distribution that are equally likely."""


@dataclass(frozen=True)
class _Moved:
    """One provider's numbers of one workload in every draw: deviations of its columns (columns × draws, logarithms of worths) and of its
    gates (gates × draws, in their units), of its score seen against today's best (draws), and the draws of its repeats' weights."""

    columns: Array
    gates: Array
    own: Array
    weights: Draws


@dataclass(frozen=True)
class DrawnScores:
    """The eligible providers' log scores in every draw, in their order.

    `own`: providers × draws, seen against today's best, so that they vary by the provider's own repeats alone. `first`: providers × draws,
    the share of the first place, gates judged. `likelihoods`: how much each draw counts. `noise`: by workload the weights of each
    provider's repeats.
    """

    own: Array
    first: Array
    likelihoods: Array
    noise: Mapping[str, Sequence[Draws]]


def probabilities(
    preference: Preference, columns: Sequence[Column], eligible: Sequence[Ranked], trials: Sequence[TrialSample], seed: int, draws: int
) -> dict[str, float]:
    """Probability of each eligible provider to be first; empty when some number of some provider has fewer than two usable repeats."""
    drawn = draw_scores(preference, columns, eligible, trials, seed, draws)
    if drawn is None:
        return {}
    chances = drawn.first @ drawn.likelihoods / drawn.likelihoods.sum()
    return {c.provider: min(float(chances[i]), 1.0) for i, c in enumerate(eligible)}


def draw_scores(
    preference: Preference, columns: Sequence[Column], eligible: Sequence[Ranked], trials: Sequence[TrialSample], seed: int, draws: int
) -> DrawnScores | None:
    """The scores of the eligible providers in every draw; None where no probability can be computed."""
    if len(eligible) < 2 or min(c.n for c in eligible) < 2:
        return None
    best = [max(float(worth(c.metric, np.array([p.values[j]], dtype=float))[0]) for p in eligible) for j, c in enumerate(columns)]
    middle = np.array(
        [[log_worths(c.metric, np.array([p.values[j]], dtype=float), best[j])[0] for p in eligible] for j, c in enumerate(columns)]
    )
    worths = np.empty((len(columns), len(eligible), draws))
    variances, own_moves = np.zeros((2, len(eligible), draws))
    open_gates = np.ones((len(eligible), draws), dtype=bool)
    # A stream of its own for each provider: taking another one away must not change this one's draws.
    rngs = [np.random.default_rng([seed, *c.provider.encode()]) for c in eligible]
    noise = {}
    for workload in preference.workloads:
        here = [j for j, c in enumerate(columns) if c.workload == workload]
        own = [[t for t in trials if t.usable and (t.provider, t.workload) == (c.provider, workload)] for c in eligible]
        shared = np.random.default_rng([seed, 0, *workload.encode()])
        moved = _move(preference, [columns[j] for j in here], [best[j] for j in here], middle[here], own, rngs, shared, draws)
        noise[workload] = [of.weights for of in moved]
        for i, (candidate, of) in enumerate(zip(eligible, moved, strict=True)):
            worths[here, i] = middle[here, i][:, None] + of.columns
            inside, weight = (
                _bracket(own[i], seed, candidate.provider, draws),
                sum(columns[j].weight for j in here if _searched(columns[j])),
            )
            worths[[j for j in here if _searched(columns[j])], i] += inside
            variances[i] += of.weights.spread**2 + weight**2 * float(np.var(inside))
            own_moves[i] += of.own + weight * inside
            values = {(g.workload, g.text): g.value for g in candidate.gates}
            for gate, deviations in zip(preference.gates, of.gates, strict=True):
                level = (values[workload, gate.text] or 0.0) + deviations
                open_gates[i] &= level <= gate.limit if gate.op == "<=" else level >= gate.limit
    scores = _scores(preference, columns, worths, best)
    central = _scores(preference, columns, middle[:, :, None], best)
    posterior, likelihoods = _draw_together(central, scores - central, variances, np.random.default_rng([seed, 1]))
    levels, _ = _draw_together(central, own_moves, variances, np.random.default_rng([seed, 1]))
    return DrawnScores(levels, _shared_first(np.where(open_gates, posterior, -np.inf)), likelihoods, noise)


def _searched(column: Column) -> bool:
    return column.metric == SUSTAINED or sustained(column.metric)


def _bracket(trials: Sequence[TrialSample], seed: int, provider: str, draws: int) -> Array:
    """Where between what held and what failed the sustained rate lies: logarithms, anywhere in it alike. Not less the more repeats there are,
    because they step on the same rates and stop at the same one."""
    rates = [n for t in trials if (n := t.number(SUSTAINED, "value", "sweep")) is not None and n.value and n.ci_high]
    width = float(np.median([np.log(n.ci_high / n.value) for n in rates])) if rates else 0.0  # type: ignore[operator]
    return np.random.default_rng([seed, 2, *provider.encode()]).random(draws) * width


def _move(
    preference: Preference,
    columns: Sequence[Column],
    best: Sequence[float],
    middle: Array,
    trials: Sequence[Sequence[TrialSample]],
    rngs: Sequence[np.random.Generator],
    shared: np.random.Generator,
    draws: int,
) -> list[_Moved]:
    """Draws of one workload; `middle`: columns × providers, `trials`: by provider."""
    numbers = [
        _deviations(np.array([log_worths(c.metric, _numbers(own, c), b) for c, b in zip(columns, best, strict=True)]).T) for own in trials
    ]
    scores = [_by_trial(preference, columns, best, middle[:, i], own) for i, own in enumerate(numbers)]
    slots = [np.unique([t.slot for t in own], return_inverse=True)[1] for own in trials]
    drawn = draw([RepeatScatter(score, slot) for score, slot in zip(scores, slots, strict=True)], rngs, shared, draws)
    gates = [
        _deviations(np.array([_numbers(own, gate) for gate in preference.gates]).reshape(len(preference.gates), len(own)).T)
        for own in trials
    ]
    return [
        _Moved(d.scores(n).T, d.others(g).T, d.scores(s[:, None])[:, 0], d)
        for d, n, g, s in zip(drawn, numbers, gates, scores, strict=True)
    ]


def _scores(preference: Preference, columns: Sequence[Column], worths: Array, best: Sequence[float]) -> Array:
    """Log scores (providers × draws) of logarithms of worths (columns × providers × draws)."""
    values = (c.weight * log_values(c.metric, preference.values.get(c.metric), worths[j], best[j]) for j, c in enumerate(columns))
    total: Array = np.sum(list(values), axis=0)
    return total


def _by_trial(preference: Preference, columns: Sequence[Column], best: Sequence[float], middle: Array, deviations: Array) -> Array:
    """Each trial's own log score (its part of one workload), its worths seen against today's best."""
    score = np.zeros(len(deviations))
    for j, column in enumerate(columns):
        candidates = np.stack([middle[j] + deviations[:, j], np.zeros(len(deviations))])
        score += column.weight * log_values(column.metric, preference.values.get(column.metric), candidates, best[j])[0]
    return score


def _draw_together(central: Array, moved: Array, variances: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Scores drawn given that providers differ as providers do, and how likely each draw's state of the world made what was measured.

    `central` (providers × 1), `moved` and `variances` (providers × draws): the scores as measured, their drawn deviations, and the
    variances that these were drawn with. The field's spread is drawn from its prior; each draw then counts by its likelihood.
    """
    draws = moved.shape[1]
    spread = _SPREADS[rng.integers(len(_SPREADS), size=draws)] ** 2
    precision = 1 / (variances + spread)
    total = precision.sum(axis=0)
    centre = (precision * central).sum(axis=0) / total
    log = 0.5 * np.log(precision).sum(axis=0) - 0.5 * np.log(total) - 0.5 * (precision * (central - centre) ** 2).sum(axis=0)
    shrunk = spread * precision
    field = centre + rng.standard_normal(draws) / np.sqrt(total)
    return shrunk * central + (1 - shrunk) * field + np.sqrt(shrunk) * moved, np.exp(log - log.max())


def _shared_first(scores: Array) -> Array:
    """Who is first in each draw (providers × draws); equal scores share it, and where every gate is closed nobody is."""
    top = scores.max(axis=0)
    first = (scores >= top - _ALIKE) & np.isfinite(top)
    shared: Array = first / np.maximum(first.sum(axis=0), 1)
    return shared


def _deviations(numbers: Array) -> Array:
    """Deviations of each column (trials × columns) from its mean; a trial without the number deviates by 0, and the others by more to
    make up for it."""
    known = np.isfinite(numbers).sum(axis=0)
    n = len(numbers)
    inflated = np.sqrt(n * (n - 1) / (known * (known - 1)))
    spread: Array = np.where(np.isnan(numbers), 0.0, numbers - np.nanmean(numbers, axis=0)) * inflated
    return spread


def _numbers(trials: Sequence[TrialSample], what: Column | Criterion) -> Array:
    values = (t.value(what.metric, what.statistic, what.phase) for t in trials)
    return np.array([np.nan if v is None else v for v in values], dtype=float)


# How much the repeats of one provider on one workload leave its score open: noise of slots, noise of repeats, and what peers' tell.
#
# The model of a trial's log score: the provider's level, a deviation that all repeats of its slot share (the hour, often the node), a
# deviation of its own. Little is known of either from the two, three or nine repeats of a campaign, so nothing is taken as known:
#
# - the slots' standard deviation is about half of the repeats', nine times in ten below one and a half times, now and then the manifold
#   (half of Student's, 2 degrees of freedom): three slots say something about it, one slot nothing
# - the repeats' variances of the providers are scattered around one of the workload, as if each had been seen before in `PEERS` repeats;
#   the workload's own is learned from all providers' repeats under a wide prior (`USUAL`, `WIDE`)
#
# Both posteriors are computed on grids, mean and scale integrated out; a provider's level then is Student's around what was measured.


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
