"""The probability that each eligible provider is really first: what the campaign's repeats leave open.

1. Slots and trials are redrawn by random normal weights on whole trials, so that metrics measured together move together, with the noise
   that `noise.py` finds likely: Student's, around the median, which ranks.
2. Providers do not differ without bound: among near-equals the one that leads has been lucky. Scores are drawn towards their common
   middle as in a one-way random-effects model whose spread is unknown, with a half-Cauchy prior of median `USUAL_SPREAD`.
3. Gates are judged again in each draw; where all are closed nobody is first.

The draws are seeded by provider: the same trials give the same probabilities, also when another provider is taken away that is not
eligible. How often the probabilities come true: `make perf-decisions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.declarations import Criterion, Preference
from plumbline.scorecards.decision import Column, Ranked
from plumbline.scorecards.inputs import TrialNumbers
from plumbline.scorecards.noise import Scatter, draw
from plumbline.scorecards.value import Array, log_values, logs, worth

USUAL_SPREAD = 0.1
"""Half of all fields of providers are taken to differ by less than this (standard deviation of log scores), half by more."""

_ALIKE = 1e-12
"""Log scores that differ by no more are equal: less than the rounding of a price decides nothing."""

_SPREADS = USUAL_SPREAD * np.tan(np.pi / 2 * (np.arange(24) + 0.5) / 24)
"""Points of that distribution that are equally likely."""


@dataclass(frozen=True)
class _Moved:
    """One provider's numbers of one workload in every draw: deviations of its columns (columns × draws, logarithms of worths) and of its
    gates (gates × draws, in their units), and the standard deviation of its score."""

    columns: Array
    gates: Array
    spread: Array


def probabilities(
    preference: Preference, columns: Sequence[Column], eligible: Sequence[Ranked], trials: Sequence[TrialNumbers], seed: int, draws: int
) -> dict[str, float]:
    """Probability of each eligible provider to be first; empty when some number of some provider has fewer than two usable repeats."""
    if len(eligible) < 2 or min(c.n for c in eligible) < 2:
        return {}
    best = [max(float(worth(c.metric, np.array([p.values[j]], dtype=float))[0]) for p in eligible) for j, c in enumerate(columns)]
    middle = np.array([[logs(c.metric, np.array([p.values[j]], dtype=float), best[j])[0] for p in eligible] for j, c in enumerate(columns)])
    found = np.empty((len(columns), len(eligible), draws))
    variances = np.zeros((len(eligible), draws))
    open_gates = np.ones((len(eligible), draws), dtype=bool)
    # A stream of its own for each provider: taking another one away must not change this one's draws.
    rngs = [np.random.default_rng([seed, *c.provider.encode()]) for c in eligible]
    for workload in preference.workloads:
        here = [j for j, c in enumerate(columns) if c.workload == workload]
        own = [[t for t in trials if t.usable and (t.provider, t.workload) == (c.provider, workload)] for c in eligible]
        shared = np.random.default_rng([seed, 0, *workload.encode()])
        moved = _move(preference, [columns[j] for j in here], [best[j] for j in here], middle[here], own, rngs, shared, draws)
        for i, (candidate, of) in enumerate(zip(eligible, moved, strict=True)):
            found[here, i] = middle[here, i][:, None] + of.columns
            variances[i] += of.spread**2
            values = {(g.workload, g.text): g.value for g in candidate.gates}
            for gate, deviations in zip(preference.gates, of.gates, strict=True):
                level = (values[workload, gate.text] or 0.0) + deviations
                open_gates[i] &= level <= gate.limit if gate.op == "<=" else level >= gate.limit
    scores = _scores(preference, columns, found, best)
    central = _scores(preference, columns, middle[:, :, None], best)
    posterior, likelihoods = _together(central, scores - central, variances, np.random.default_rng([seed, 1]))
    chances = _shared_first(np.where(open_gates, posterior, -np.inf)) @ likelihoods / likelihoods.sum()
    return {c.provider: min(float(chances[i]), 1.0) for i, c in enumerate(eligible)}


def _move(
    preference: Preference,
    columns: Sequence[Column],
    best: Sequence[float],
    middle: Array,
    trials: Sequence[Sequence[TrialNumbers]],
    rngs: Sequence[np.random.Generator],
    shared: np.random.Generator,
    draws: int,
) -> list[_Moved]:
    """Draws of one workload; `middle`: columns × providers, `trials`: by provider."""
    numbers = [_deviations(np.array([logs(c.metric, _numbers(own, c), b) for c, b in zip(columns, best, strict=True)]).T) for own in trials]
    scores = [_by_trial(preference, columns, best, middle[:, i], own) for i, own in enumerate(numbers)]
    slots = [np.unique([t.slot for t in own], return_inverse=True)[1] for own in trials]
    drawn = draw([Scatter(score, slot) for score, slot in zip(scores, slots, strict=True)], rngs, shared, draws)
    gates = [
        _deviations(np.array([_numbers(own, gate) for gate in preference.gates]).reshape(len(preference.gates), len(own)).T)
        for own in trials
    ]
    return [_Moved(d.scores(n).T, d.others(g).T, d.spread) for d, n, g in zip(drawn, numbers, gates, strict=True)]


def _scores(preference: Preference, columns: Sequence[Column], found: Array, best: Sequence[float]) -> Array:
    """Log scores (providers × draws) of logarithms of worths (columns × providers × draws)."""
    values = (c.weight * log_values(c.metric, preference.values.get(c.metric), found[j], best[j]) for j, c in enumerate(columns))
    total: Array = np.sum(list(values), axis=0)
    return total


def _by_trial(preference: Preference, columns: Sequence[Column], best: Sequence[float], middle: Array, deviations: Array) -> Array:
    """Each trial's own log score (its part of one workload), its worths seen against today's best."""
    score = np.zeros(len(deviations))
    for j, column in enumerate(columns):
        beside = np.stack([middle[j] + deviations[:, j], np.zeros(len(deviations))])
        score += column.weight * log_values(column.metric, preference.values.get(column.metric), beside, best[j])[0]
    return score


def _together(central: Array, moved: Array, variances: Array, rng: np.random.Generator) -> tuple[Array, Array]:
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
    kept = spread * precision
    field = centre + rng.standard_normal(draws) / np.sqrt(total)
    return kept * central + (1 - kept) * field + np.sqrt(kept) * moved, np.exp(log - log.max())


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


def _numbers(trials: Sequence[TrialNumbers], what: Column | Criterion) -> Array:
    values = (t.value(what.metric, what.statistic, what.phase) for t in trials)
    return np.array([np.nan if v is None else v for v in values], dtype=float)
