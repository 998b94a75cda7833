"""The next best experiment: which series to measure again, with how many repeats, for the most certainty per USD.

The value of a measurement is what it adds, on average over its possible outcomes, to the chance that the provider chosen after it is
really first (preposterior analysis: Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961). Each outcome is simulated from one
draw of the decision's scores, and all draws are weighed by how well they explain it (importance sampling: Menzies, Medical Decision
Making 36, 2016). With few draws near an outcome the largest of several estimates is too large; that bias is taken off as half of the
draws show it (jackknife).

The gain has a bound that needs no draw. With p = P(first) and L the provider chosen now, the gain is E[max over i of (p'(i) - p'(L))], p'
being what the numbers leave. Repeats of another provider j say nothing of how the rest rank among themselves: p'(i) - p'(L) rises above 0
by at most p'(j), whose mean is p(j). Repeats of L can at most give the choice to the others, 1 - p(L) in all. So what is first in one of
200 worlds adds at most half a point.

A measurement is a campaign of its own that replaces the series' current one, so N repeats leave the variance of N, not of both campaigns.
Slots differ as they did; more repeats do not average that out. What repeats tell of gates is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import ceil
from statistics import NormalDist

import numpy as np

from plumbline.analysis.decisions.current_results import Place, TeamDecision
from plumbline.analysis.decisions.decide import DRAWS
from plumbline.analysis.decisions.probability import DrawnScores, draw_scores
from plumbline.analysis.decisions.value_functions import Array
from plumbline.analysis.scorecards.scorecard import last_attempts
from plumbline.analysis.trial_sample import TrialSample
from plumbline.metrics.units import Amount

LEAST_GAIN = 0.005
"""An experiment that adds less to the chance of choosing right is not worth naming."""
SHOWN = 5
_TIMES = (4, 3, 2)
"""Factors of the present repeats in each slot."""
_EVENLY = (np.arange(300) + 0.5) / 300
_NORMAL = np.array([NormalDist().inv_cdf(p) for p in _EVENLY])


@dataclass(frozen=True)
class TrialCost:
    """The cost of one more trial of a series. `slots`: in which a campaign measures it; `usd` for one trial, None with the reason in
    `unpriced`; `most`: repeats that a slot may have."""

    slots: int
    usd: Amount | None
    unpriced: str | None
    most: int


@dataclass(frozen=True)
class Experiment:
    """Measure one provider's workload again. `n`: usable repeats now; `repeats` in each slot and `trials` in all are measured.

    `gain`: what it adds to the chance of choosing right, on average; `most`: its bound, whatever is measured of the provider. `usd`: what
    it costs; None with the reason in `unpriced`. `campaign`: whose results it replaces.
    """

    provider: str
    workload: str
    campaign: str
    n: int
    repeats: int
    trials: int
    gain: float
    usd: Amount | None
    unpriced: str | None = None
    most: float = 1.0

    @property
    def gain_per_usd(self) -> float | None:
        """None without a cost."""
        return self.gain / self.usd if self.usd else None


def rank_experiments(decided: TeamDecision, costs: Mapping[Place, TrialCost]) -> tuple[Experiment, ...]:
    """The experiments worth at least LEAST_GAIN, one a series, the most gain per USD first and those without a cost last; at most SHOWN.

    `costs`: the series that can be measured. Empty where no probability is known, or where the choice is certain enough.
    """
    decision = decided.decision
    eligible = [r for r in decision.ranking if r.eligible]
    own = [t for t in last_attempts(decided.current.trials) if t.kind == decision.kind and t.workload in decided.preference.workloads]
    drawn = draw_scores(decided.preference, decision.columns, eligible, own, decision.seed, DRAWS)
    if drawn is None:
        return ()
    experiments: list[Experiment] = []
    chances = drawn.first @ drawn.likelihoods / drawn.likelihoods.sum()
    for i, ranked in enumerate(eligible):
        if (most := gain_bound(chances, i)) < LEAST_GAIN:
            continue
        for workload in decided.preference.workloads:
            if (cost := costs.get((ranked.provider, workload))) is not None:
                usable = [t for t in own if t.usable and (t.provider, t.workload) == (ranked.provider, workload)]
                campaign = decided.current.campaigns.get((ranked.provider, workload), "")
                tried = (
                    Experiment(
                        *(ranked.provider, workload, campaign, len(usable), repeats, trials),
                        _gain(drawn, workload, i, trials / len(usable), decision.seed),
                        None if cost.usd is None else cost.usd * trials,
                        cost.unpriced,
                        most,
                    )
                    for repeats, trials in _options(usable, cost)
                )
                # Fewer repeats gain less: where the most are not worth it, none are.
                experiments += sorted(takewhile(lambda e: e.gain >= LEAST_GAIN, tried), key=_order)[:1]
    return tuple(sorted(experiments, key=_order)[:SHOWN])


def gain_bound(chances: Array, i: int) -> float:
    """The most that any numbers about provider `i` can add to the chance of choosing right. `chances`: P(first) by provider."""
    leader = int(chances.argmax())
    return float(chances.sum() - chances[leader] if i == leader else chances[i])


def certainty_gain(first: Array, likelihoods: Array, own: Array, variance: Array, rng: np.random.Generator, i: int) -> float:
    """The mean gain of the highest probability to be first from one more number about provider `i`.

    `first`: providers × draws, the share of the first place. By draw: its likelihood, the provider's score `own`, and the `variance` of
    the number around it. From 0 to `gain_bound`.
    """
    likely = likelihoods / likelihoods.sum()
    # Evenly over the draws and over the noise, so that few outcomes suffice.
    order = np.argsort(own)
    at = order[np.minimum(np.searchsorted(np.cumsum(likely[order]), _EVENLY), len(own) - 1)]
    outcomes = own[at] + np.sqrt(variance[at]) * rng.permutation(_NORMAL)
    log = np.log(np.maximum(likely, 1e-300)) - 0.5 * np.log(variance) - 0.5 * (outcomes[:, None] - own) ** 2 / variance
    log[np.arange(len(at)), at] = -np.inf  # a draw must not explain its own outcome
    half = rng.permutation(len(own)) % 2 == 0
    halves = (_raised(log[:, of], first[:, of]) for of in (half, ~half))
    return float(np.clip(2 * _raised(log, first) - sum(halves) / 2, 0.0, gain_bound(first @ likely, i)))


def _raised(log: Array, first: Array) -> float:
    """The mean rise of the highest P(first), from the logarithms of the weights of draws (outcomes × draws)."""
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    chances = (weights @ first.T) / weights.sum(axis=1, keepdims=True)
    return float(chances.max(axis=1).mean() - chances.mean(axis=0).max())


def _options(usable: Sequence[TrialSample], cost: TrialCost) -> list[tuple[int, int]]:
    """Repeats in each slot, and trials in all, the most first."""
    now = ceil(len(usable) / len({t.slot for t in usable}))
    return [(now * times, now * times * cost.slots) for times in _TIMES if now * times <= cost.most]


def _gain(drawn: DrawnScores, workload: str, i: int, times: float, seed: int) -> float:
    """The gain from `times` as many repeats of a workload, by one provider."""
    more = drawn.noise[workload][i]
    now = sum((weights[i].spread ** 2 for weights in drawn.noise.values()), np.zeros(len(drawn.likelihoods)))
    gone = more.spread**2 * (1 - more.left_by(times))
    if gone.min() <= 0:
        return 0.0
    # The variance of a number that, beside today's, leaves what the repeats leave.
    return certainty_gain(drawn.first, drawn.likelihoods, drawn.own[i], now * (now - gone) / gone, np.random.default_rng([seed, 2]), i)


def _order(experiment: Experiment) -> tuple[bool, float, float]:
    per_usd = experiment.gain_per_usd
    return per_usd is None, -(per_usd if per_usd is not None else experiment.gain / experiment.trials), -experiment.gain
