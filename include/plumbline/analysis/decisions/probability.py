"""The probability that each eligible provider is really first: what the campaign's repeats leave open.

1. Slots and trials are redrawn by random normal weights on whole trials, so that metrics measured together move together, with the noise
   that `repeat_noise` finds likely: Student's, around the median, which ranks.
2. Providers do not differ without bound: among near-equals the one that leads has been lucky. Scores are drawn towards their common
   middle as in a one-way random-effects model whose spread is unknown, with a half-Cauchy prior of median `USUAL_SPREAD`.
3. A rate that a search found lies anywhere in its bracket, whatever the repeats say.
   A number of the provider, such as its availability, is drawn from its own interval, the same for all workloads.
4. Gates are judged again in each draw; where all are closed nobody is first.

The draws are seeded by provider: the same trials give the same probabilities, also when another provider is taken away that is not
eligible. How often the probabilities come true: `make perf-decisions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from plumbline.analysis.cost.unit_costs import sustained
from plumbline.analysis.decisions.decision import Column, Ranked
from plumbline.analysis.decisions.repeat_noise import Draws, RepeatScatter, draw
from plumbline.analysis.decisions.value_functions import Array, log_values, log_worths, worth
from plumbline.analysis.trial_sample import SUSTAINED, TrialSample
from plumbline.declarations import Criterion, Preference
from plumbline.metrics import is_of_provider
from plumbline.metrics.proportions import CONFIDENCE

USUAL_SPREAD = 0.1
"""Half of all fields of providers are taken to differ by less than this (standard deviation of log scores), half by more."""

_ALIKE = 1e-12
"""Log scores that differ by no more are equal: less than the rounding of a price decides nothing."""

_TWO_SIDED = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

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
    best = [
        max(float(worth(preference.metric(c.metric), np.array([p.values[j]], dtype=float))[0]) for p in eligible)
        for j, c in enumerate(columns)
    ]
    middle = np.array(
        [
            [log_worths(preference.metric(c.metric), np.array([p.values[j]], dtype=float), best[j])[0] for p in eligible]
            for j, c in enumerate(columns)
        ]
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
        service = [[_of_provider(own[i], gate, seed, draws) for gate in preference.gates] for i in range(len(eligible))]
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
            for gate, deviations, drawn in zip(preference.gates, of.gates, service[i], strict=True):
                level = (values[workload, gate.text] or 0.0) + deviations if drawn is None else drawn
                open_gates[i] &= level <= gate.limit if gate.op == "<=" else level >= gate.limit
    for i, candidate in enumerate(eligible):
        own_trials = [t for t in trials if t.usable and t.provider == candidate.provider]
        for name in {c.metric for c in columns if is_of_provider(c.metric)}:
            at = [j for j, c in enumerate(columns) if c.metric == name]
            weight, first, known = sum(columns[j].weight for j in at), at[0], preference.metric(name)
            if (drawn := _of_provider(own_trials, columns[first], seed, draws)) is not None:
                worths[at, i] = log_worths(known, drawn, best[first])
                both = np.stack([np.append(worths[first, i], middle[first, i]), np.zeros(draws + 1)])
                values_drawn = log_values(known, preference.values.get(name), both, best[first])[0]
                own_moves[i] += weight * (values_drawn[:-1] - values_drawn[-1])
                variances[i] += weight**2 * float(np.var(values_drawn[:-1]))
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


def _of_provider(trials: Sequence[TrialSample], what: Column | Criterion, seed: int, draws: int) -> Array | None:
    """A number of the provider in every draw: a normal distribution whose halves end with those of its 95 % interval; None of a trial's."""
    number = trials[0].number(what.metric, what.statistic, what.phase) if trials and is_of_provider(what.metric) else None
    if number is None or number.value is None or number.ci_low is None or number.ci_high is None:
        return None
    z = np.random.default_rng([seed, 3, *what.metric.encode(), *trials[0].provider.encode()]).standard_normal(draws) / _TWO_SIDED
    drawn: Array = number.value + np.where(z > 0, z * (number.ci_high - number.value), z * (number.value - number.ci_low))
    return drawn


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
        _deviations(np.array([log_worths(preference.metric(c.metric), _numbers(own, c), b) for c, b in zip(columns, best, strict=True)]).T)
        for own in trials
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
    values = (
        c.weight * log_values(preference.metric(c.metric), preference.values.get(c.metric), worths[j], best[j])
        for j, c in enumerate(columns)
    )
    total: Array = np.sum(list(values), axis=0)
    return total


def _by_trial(preference: Preference, columns: Sequence[Column], best: Sequence[float], middle: Array, deviations: Array) -> Array:
    """Each trial's own log score (its part of one workload), its worths seen against today's best."""
    score = np.zeros(len(deviations))
    for j, column in enumerate(columns):
        candidates = np.stack([middle[j] + deviations[:, j], np.zeros(len(deviations))])
        score += column.weight * log_values(preference.metric(column.metric), preference.values.get(column.metric), candidates, best[j])[0]
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
