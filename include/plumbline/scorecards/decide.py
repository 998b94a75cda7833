"""A decision: providers ranked by one team's weights, with the probability that each is really first.

Value function. Each metric is valued by its ratio to the best eligible provider (best/value where lower is better, value/best where
higher is better; a share of failures, such as error_rate, by the share that did not fail), never below `FLOOR`. The score is the
weighted geometric mean of these ratios over the team's metrics and workloads: 1 is best at everything. A geometric mean has no unit
and no zero point to choose: scaling all prices changes nothing, and taking a provider away never reorders the others.

Gates come first. A gate is judged on the median over usable repeats; a provider whose median fails one, or that nobody measured, is
not eligible whatever its score, and takes no part in finding the best. So is a provider that lacks a number for a weighted metric:
what is missing is neither a zero nor skipped.

Probability. The campaign is redrawn `draws` times from its trials by a wild bootstrap with Student's correction: each draw moves a
provider's numbers by the deviations of its own trials under random normal weights, divided by a chi draw with n - 1 degrees of
freedom. Whole trials are weighted, so that metrics measured together move together; the correction keeps two or three repeats from
looking surer than they are, which resampling them with replacement does. Gates are judged again in each draw. The draws are seeded:
the same trials give the same probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations import METRICS, Criterion, Preference
from plumbline.scorecards.inputs import Kind, TrialNumbers, home_phase
from plumbline.scorecards.scorecard import last_attempts

FLOOR = 1e-3
"""A thousandfold worse than the best counts as a thousandfold: one dreadful number must not turn the score into 0."""

DRAWS = 4000
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One weighted number: a metric on a workload, in the phase and statistic that stand for the metric."""

    workload: str
    metric: str
    statistic: str
    phase: str
    unit: str
    weight: float


@dataclass(frozen=True)
class Gate:
    """One hard gate of one provider on one workload. `value` None: not measured, which is not a pass."""

    workload: str
    text: str
    unit: str
    value: float | None
    limit: float
    passed: bool


@dataclass(frozen=True)
class Ranked:
    """One provider. `score` and `ratios` (one per column, to the best eligible) are None when it is not eligible, `why_not` says why.

    `probability_first` is None when it cannot be computed (a single repeat somewhere, or nobody to be first of). `n`: usable repeats
    behind the number that has the fewest.
    """

    provider: str
    eligible: bool
    score: float | None
    probability_first: float | None
    values: tuple[float | None, ...]
    ratios: tuple[float, ...] | None
    gates: tuple[Gate, ...]
    why_not: tuple[str, ...]
    n: int
    trials: tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    """The ranking, best first; providers that are not eligible come last, by name. `note` says what the ranking cannot say."""

    team: str
    kind: Kind
    columns: tuple[Column, ...]
    ranking: tuple[Ranked, ...]
    note: str
    seed: int
    draws: int

    @property
    def winner(self) -> Ranked | None:
        """The first of at least two eligible providers; None when there was no choice to make."""
        eligible = [r for r in self.ranking if r.eligible]
        return eligible[0] if len(eligible) > 1 else None


def decide(
    team: str, kind: Kind, preference: Preference, trials: Sequence[TrialNumbers], *, seed: int = 20260801, draws: int = DRAWS
) -> Decision:
    """Rank the providers that ran the preference's workloads.

    `trials`: priced trials (see `inputs.priced`) of any provider, kind and workload; others than asked for are left out.
    """
    own = [t for t in last_attempts(trials) if t.kind == kind and t.workload in preference.workloads]
    columns = _columns(preference, own)
    candidates = [_candidate(p, preference, columns, [t for t in own if t.provider == p]) for p in sorted({t.provider for t in own})]
    eligible = [c for c in candidates if c.eligible]
    ratios = _ratios(columns, {c.provider: [v for v in c.values if v is not None] for c in eligible})
    weights = np.array([c.weight for c in columns])
    scores = {p: float(np.exp(weights @ np.log(r))) for p, r in ratios.items()}
    chances = _chances(preference, columns, eligible, own, ratios, weights, seed, draws) if len(eligible) > 1 else {}
    ranked = [
        Ranked(
            **{
                **vars(c),
                "score": scores[c.provider],
                "ratios": tuple(float(v) for v in ratios[c.provider]),
                "probability_first": chances.get(c.provider),
            }
        )
        for c in sorted(eligible, key=lambda c: (-scores[c.provider], c.provider))
    ]
    rest = [c for c in candidates if not c.eligible]
    return Decision(team, kind, columns, (*ranked, *rest), _note(candidates, eligible, chances), seed, draws)


def _columns(preference: Preference, trials: Sequence[TrialNumbers]) -> tuple[Column, ...]:
    columns = []
    for workload in preference.workloads:
        of_workload = [t for t in trials if t.workload == workload]
        for name, weight in preference.weights.items():
            known = METRICS[name]
            phase = home_phase(of_workload, name, known.statistic) or "steady"
            columns.append(Column(workload, name, known.statistic, phase, known.unit, weight / len(preference.workloads)))
    return tuple(columns)


def _candidate(provider: str, preference: Preference, columns: Sequence[Column], trials: Sequence[TrialNumbers]) -> Ranked:
    values = tuple(_middle(trials, c.workload, c.metric, c.statistic, c.phase) for c in columns)
    gates = tuple(_gate(gate, w, trials) for w in preference.workloads for gate in preference.gates)
    why_not = [f"{c.metric} on {c.workload} was not measured" for c, value in zip(columns, values, strict=True) if value is None] + [
        f'gate "{g.text}" on {g.workload} ' + ("was not measured" if g.value is None else "is not met") for g in gates if not g.passed
    ]
    usable = [t for t in trials if t.usable]
    asked = {(c.workload, c.metric, c.statistic, c.phase) for c in columns}
    asked |= {(w, g.metric, g.statistic, g.phase) for w in preference.workloads for g in preference.gates}
    n = min(int(np.isfinite(_numbers([t for t in usable if t.workload == w], *rest)).sum()) for w, *rest in asked)
    return Ranked(provider, not why_not, None, None, values, None, gates, tuple(why_not), n, tuple(t.trial_id for t in usable))


def _middle(trials: Sequence[TrialNumbers], workload: str, metric: str, statistic: str, phase: str) -> float | None:
    values = [v for t in trials if t.usable and t.workload == workload and (v := t.value(metric, statistic, phase)) is not None]
    return median(values) if values else None


def _gate(gate: Criterion, workload: str, trials: Sequence[TrialNumbers]) -> Gate:
    value = _middle(trials, workload, gate.metric, gate.statistic, gate.phase)
    return Gate(workload, gate.text, METRICS[gate.metric].unit, value, gate.limit, value is not None and gate.met_by(value))


def worth(metric: str, values: Array) -> Array:
    """Values of one metric turned so that more is better and ratios mean something: shape and order kept, unit gone."""
    known = METRICS[metric]
    if known.direction == "higher_is_better":
        return np.maximum(values, 0.0)
    if known.unit == "ratio" and known.group == "reliability":
        return np.clip(1.0 - values, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.where(values > 0, 1.0 / np.maximum(values, 1e-300), np.inf)


def _ratios(columns: Sequence[Column], values: Mapping[str, Sequence[float]]) -> dict[str, Array]:
    if not values:
        return {}
    table = np.array([values[p] for p in values], dtype=float)
    for j, column in enumerate(columns):
        table[:, j] = _to_best(worth(column.metric, table[:, j]), None)
    return dict(zip(values, table, strict=True))


def _to_best(worths: Array, best: float | None) -> Array:
    reference = float(worths.max()) if best is None else best
    if np.isinf(reference):  # something costs or takes nothing: only another nothing compares with it
        return np.where(np.isinf(worths), 1.0, FLOOR)
    if reference == 0:
        return np.ones_like(worths)
    return np.clip(worths / reference, FLOOR, 1 / FLOOR)


def _chances(
    preference: Preference,
    columns: Sequence[Column],
    eligible: Sequence[Ranked],
    trials: Sequence[TrialNumbers],
    ratios: Mapping[str, Array],
    weights: Array,
    seed: int,
    draws: int,
) -> dict[str, float]:
    """Share of draws in which each provider is first; empty when some number of some provider has fewer than two usable repeats."""
    if min(c.n for c in eligible) < 2:
        return {}
    best = [max(float(worth(c.metric, np.array([p.values[j]], dtype=float))[0]) for p in eligible) for j, c in enumerate(columns)]
    scores = np.empty((len(eligible), draws))
    for i, candidate in enumerate(eligible):
        # A stream of its own for each provider: taking another one away must not change this one's draws.
        rng = np.random.default_rng([seed, *candidate.provider.encode()])
        total = np.zeros(draws)
        open_gate = np.ones(draws, dtype=bool)
        for workload in preference.workloads:
            own = [t for t in trials if t.usable and t.provider == candidate.provider and t.workload == workload]
            multipliers = rng.standard_normal((draws, len(own))) / np.sqrt(len(own) * rng.chisquare(len(own) - 1, size=(draws, 1)))
            for j, column in enumerate(columns):
                if column.workload != workload:
                    continue
                found = _numbers(own, column.metric, column.statistic, column.phase)
                logs = np.log(_to_best(worth(column.metric, found), best[j]))
                deviations = _deviations(logs)
                total += weights[j] * (np.log(ratios[candidate.provider][j]) + multipliers @ deviations)
            for gate in preference.gates:
                found = _numbers(own, gate.metric, gate.statistic, gate.phase)
                drawn = float(np.nanmedian(found)) + multipliers @ _deviations(found)
                open_gate &= drawn <= gate.limit if gate.op == "<=" else drawn >= gate.limit
        scores[i] = np.where(open_gate, total, -np.inf)
    top = scores.max(axis=0)
    first = (scores == top) & np.isfinite(top)
    shared = first / np.maximum(first.sum(axis=0), 1)  # equal scores share the draw
    return {c.provider: float(shared[i].mean()) for i, c in enumerate(eligible)}


def _deviations(values: Array) -> Array:
    """Deviations from the mean; a trial without the number deviates by 0, and the others by more to make up for it."""
    known = int(np.isfinite(values).sum())
    n = len(values)
    spread: Array = np.where(np.isnan(values), 0.0, values - np.nanmean(values)) * np.sqrt(n * (n - 1) / (known * (known - 1)))
    return spread


def _numbers(trials: Sequence[TrialNumbers], metric: str, statistic: str, phase: str) -> Array:
    values = (t.value(metric, statistic, phase) for t in trials)
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def _note(candidates: Sequence[Ranked], eligible: Sequence[Ranked], chances: Mapping[str, float]) -> str:
    if not candidates:
        return "No provider ran this team's workloads."
    if not eligible:
        return "No provider is eligible; the reasons stand beside each one."
    if len(eligible) == 1:
        return f"Only {eligible[0].provider} is eligible: there is nothing to choose between."
    few = min(eligible, key=lambda c: c.n)
    if not chances:
        return f"{few.provider} has {few.n} usable repeat of some number; a probability needs at least two."
    if few.n < 6:
        return f"Probabilities rest on as few as {few.n} repeats and are indicative; more repeats sharpen them."
    return ""
