"""A decision: providers ranked by one team's weights, with the probability that each is really first.

Each metric is valued from 0 to 1: by its ratio to the best eligible provider (best/value where lower is better, value/best where higher
is better; a share of failures, such as error_rate, by the share that did not fail), or linearly between a declared worst and best. No
value is below `FLOOR`. The score is the weighted geometric mean of the values over the team's metrics and workloads: 1 is best at
everything. With ratios it has no unit and no zero point to choose: scaling all prices changes nothing, and taking a provider away never
reorders the others.

Gates come first. A gate is judged on the median over usable repeats; a provider whose median fails one, or that nobody measured, is
not eligible whatever its score, and takes no part in finding the best. So is a provider that lacks a number for a weighted metric:
what is missing is neither a zero nor skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from plumbline.analysis.cost.unit_costs import phase_of, sustained
from plumbline.analysis.decisions.contradiction import contradictions
from plumbline.analysis.decisions.decision import ClosedGate, Column, Decision, Gate, Note, Ranked
from plumbline.analysis.decisions.probability import probabilities
from plumbline.analysis.decisions.value_functions import Array, describe_value_function, log_values, log_worths, worth
from plumbline.analysis.scorecards.comparison_class import ComparedTrial, ComparisonClass, classify_comparison
from plumbline.analysis.scorecards.scorecard import last_attempts
from plumbline.analysis.service_record import NOT_KNOWN
from plumbline.analysis.trial_sample import SUSTAINED, TrialSample, WorkloadKind, leading_phase
from plumbline.declarations import Criterion, Preference
from plumbline.declarations.teams import CERTAINTY
from plumbline.metrics import METRICS, is_of_provider

DRAWS = 4000
SEED = 20260801


def rank(team: str, kind: WorkloadKind, preference: Preference, trials: Sequence[TrialSample]) -> Decision:
    """The ranking alone, without its probabilities (`draws` is 0): what asks "and if" hundreds of times needs no more."""
    return decide(team, kind, preference, trials, draws=0)


class Repricing:
    """Who ranks first at other prices of one provider. A price moves each of a provider's numbers along a line: two prices of each show it."""

    def __init__(self, kind: WorkloadKind, preference: Preference, today: Sequence[TrialSample], doubled: Sequence[TrialSample]) -> None:
        """`today` and `doubled`: the trials of all providers at today's and at twice today's prices."""
        own, twice = (
            [t for t in last_attempts(several) if t.kind == kind and t.workload in preference.workloads and not t.apart]
            for several in (today, doubled)
        )
        self._preference, self._columns = preference, _columns(preference, own)
        candidates = [
            [_candidate(p, preference, self._columns, [t for t in of if t.provider == p]) for p in sorted({t.provider for t in own})]
            for of in (own, twice)
        ]
        whole = [pair for pair in zip(*candidates, strict=True) if None not in pair[0].values]
        self.providers = tuple(now.provider for now, _ in whole)
        """Those with a number in every column, by name: no price makes the others eligible."""
        self._numbers, self._per_factor = _line([[c.values for c in pair] for pair in whole], len(self._columns))
        gates = [(gate, w) for w in preference.workloads for gate in preference.gates]
        self._gates = [gate for gate, _ in gates]
        self._levels, self._levels_per_factor = _line([[[g.value for g in c.gates] for c in pair] for pair in whole], len(gates))

    def firsts(self, whose: NDArray[np.intp], factors: Array) -> list[str | None]:
        """The first provider for each price: that of `providers[whose[i]]` times `factors[i]`; None where no provider is eligible."""
        at = np.arange(len(whose))
        eligible = np.repeat(self._open(self._levels)[:, None], len(whose), axis=1)
        eligible[whose, at] = self._open(self._levels[whose] + (factors - 1)[:, None] * self._levels_per_factor[whose])
        there = np.asarray(eligible.any(axis=0))
        # A number that is there already moves no best: those that are not eligible take an eligible one's.
        stand_in = eligible.argmax(axis=0)
        scores = np.zeros(eligible.shape)
        for j, column in enumerate(self._columns):
            numbers = np.repeat(self._numbers[:, j, None], len(whose), axis=1)
            numbers[whose, at] += (factors - 1) * self._per_factor[whose, j]
            numbers = np.where(eligible, numbers, numbers[stand_in, at])
            known = self._preference.metric(column.metric)
            best = worth(known, numbers).max(axis=0)
            worths = log_worths(known, numbers, best)
            scores += column.weight * log_values(known, self._preference.values.get(column.metric), worths, best)
        first = np.where(eligible, scores, -np.inf).argmax(axis=0)
        return [self.providers[i] if known else None for i, known in zip(first, there, strict=True)]

    def _open(self, levels: Array) -> NDArray[np.bool_]:
        """Whether every gate is met, of numbers in the shape (…, gates); one that is missing (NaN) is not."""
        met = np.ones(levels.shape[:-1], dtype=bool)
        for k, gate in enumerate(self._gates):
            met &= levels[..., k] <= gate.limit if gate.op == "<=" else levels[..., k] >= gate.limit
        return met


def _line(pairs: Sequence[Sequence[Sequence[float | None]]], width: int) -> tuple[Array, Array]:
    """Numbers at today's price, and what each gains with a price factor of 1; both providers × `width`. `pairs`: at today's and twice it."""
    coefficients = np.array(pairs, dtype=float).reshape(len(pairs), 2, width)
    return coefficients[:, 0], coefficients[:, 1] - coefficients[:, 0]


def decide(team: str, kind: WorkloadKind, preference: Preference, trials: Sequence[TrialSample], *, draws: int = DRAWS) -> Decision:
    """Rank the providers that ran the preference's workloads.

    `trials`: priced trials (see `with_costs`) of any provider, kind and workload; others than asked for are left out. A provider whose trials
    are set apart is not eligible, for their reason.
    """
    own = [t for t in last_attempts(trials) if t.kind == kind and t.workload in preference.workloads]
    counted = [t for t in own if not t.apart]
    columns = _columns(preference, counted)
    candidates = [_candidate(p, preference, columns, [t for t in own if t.provider == p]) for p in sorted({t.provider for t in own})]
    eligible = [c for c in candidates if c.eligible]
    values = _values(preference, columns, eligible)
    scores = {p: float(np.exp(np.array([c.weight for c in columns]) @ np.log(v))) for p, v in values.items()}
    against = contradictions((c.provider for c in eligible), counted) if draws else ()
    chances = probabilities(preference, columns, eligible, counted, SEED, draws) if draws and not against else {}
    ranked = [
        replace(
            c,
            score=scores[c.provider],
            ratios=tuple(float(v) for v in values[c.provider]),
            probability_first=chances.get(c.provider),
        )
        for c in sorted(eligible, key=lambda c: (-scores[c.provider], c.provider))
    ]
    rest = [c for c in candidates if not c.eligible]
    blind = [c for c in columns if no_sweep(c.metric, [t for t in counted if t.workload == c.workload])]
    note: Note = _cannot_tell(blind) if blind else (*against, *_note(candidates, eligible, own))
    compared = ComparisonClass()
    if draws:
        names, costs = {c.provider for c in eligible}, any(c.unit == "USD" for c in columns)
        measured = (
            ComparedTrial(t.provider, t.conditions, t.share, t.restarts, t.includes, t.without)
            for t in own
            if t.usable and t.provider in names
        )
        compared = classify_comparison(measured, costs=costs)
    return Decision(
        team,
        kind,
        tuple(dict.fromkeys(preference.workloads)),
        columns,
        (*ranked, *rest),
        note,
        SEED,
        draws,
        compared,
        "no_sweep" if blind else None,
        preference.certainty or CERTAINTY,
    )


def _columns(preference: Preference, trials: Sequence[TrialSample]) -> tuple[Column, ...]:
    columns = []
    for workload in preference.workloads:
        of_workload = [t for t in trials if t.workload == workload]
        for name, weight in preference.weights.items():
            known = preference.metric(name)
            phase = leading_phase(of_workload, name, known.statistic) or phase_of(name)
            columns.append(
                Column(
                    workload,
                    name,
                    known.statistic,
                    phase,
                    known.unit,
                    weight / len(preference.workloads),
                    describe_value_function(preference, name),
                )
            )
    return tuple(columns)


def _candidate(provider: str, preference: Preference, columns: Sequence[Column], trials: Sequence[TrialSample]) -> Ranked:
    values = tuple(_middle(trials, c.workload, c.metric, c.statistic, c.phase) for c in columns)
    gates = tuple(gate_of(gate, w, trials) for w in preference.workloads for gate in preference.gates)
    apart = [t.apart for t in trials if t.apart][:1]
    gaps = dict.fromkeys(_gap(c, trials) for c, value in zip(columns, values, strict=True) if value is None)
    criteria = [gate for _ in preference.workloads for gate in preference.gates]
    closed = [None if g.passed else _closed(g, c, trials) for g, c in zip(gates, criteria, strict=True)]
    why_not: list[str | ClosedGate] = [*apart] or [*gaps, *(why for why in closed if why is not None)]
    gates = tuple(replace(g, shown=why is None or why.why == "not_met") for g, why in zip(gates, closed, strict=True))
    usable = [t for t in trials if t.usable]
    wanted = {(c.workload, c.metric, c.statistic, c.phase) for c in columns}
    wanted |= {(w, g.metric, g.statistic, g.phase) for w in preference.workloads for g in preference.gates}
    n = min(sum(t.workload == w and t.value(*rest) is not None for t in usable) for w, *rest in wanted)
    return Ranked(provider, not why_not, None, None, values, None, gates, tuple(why_not), n, tuple(t.trial_id for t in usable))


def _closed(gate: Gate, criterion: Criterion, trials: Sequence[TrialSample]) -> ClosedGate:
    """Why a gate is not passed. A number of the provider is judged on what is certain; where what may be would pass, that is said."""
    if gate.value is None:
        unknown = NOT_KNOWN.get(criterion.metric, "")
        return ClosedGate(gate.text, gate.workload, "not_known" if unknown else "not_measured", unknown)
    number = trials[0].number(criterion.metric, criterion.statistic, criterion.phase) if is_of_provider(criterion.metric) else None
    if number is not None and number.ci_high is not None and criterion.op == ">=" and criterion.met_by(number.ci_high):
        return ClosedGate(gate.text, gate.workload, "unproven", at_least=gate.value, at_most=number.ci_high)
    return ClosedGate(gate.text, gate.workload, "not_met")


def _gap(column: Column, trials: Sequence[TrialSample]) -> str:
    """Why one provider lacks a weighted number."""
    if (not_known := NOT_KNOWN.get(column.metric)) is not None:
        return f"{column.metric} is not known: {not_known}"
    why = cost_gap(column.metric, [t for t in trials if t.workload == column.workload])
    return f"{column.workload}: {why}" if why else f"{column.metric} on {column.workload} was not measured"


def _middle(trials: Sequence[TrialSample], workload: str, metric: str, statistic: str, phase: str) -> float | None:
    values = [v for t in trials if t.usable and t.workload == workload and (v := t.value(metric, statistic, phase)) is not None]
    return median(values) if values else None


def gate_of(gate: Criterion, workload: str, trials: Sequence[TrialSample]) -> Gate:
    """One provider's gate on one workload, judged on the median over its usable repeats."""
    value = _middle(trials, workload, gate.metric, gate.statistic, gate.phase)
    return Gate(workload, gate.text, gate.known.unit, value, gate.limit, value is not None and gate.met_by(value))


def _values(preference: Preference, columns: Sequence[Column], eligible: Sequence[Ranked]) -> dict[str, Array]:
    """Values from `FLOOR` to 1, one per column, by provider."""
    if not eligible:
        return {}
    table = np.empty((len(eligible), len(columns)))
    for j, column in enumerate(columns):
        numbers = np.array([c.values[j] for c in eligible], dtype=float)
        known = preference.metric(column.metric)
        best = float(worth(known, numbers).max())
        worths = log_worths(known, numbers, best)
        table[:, j] = np.exp(log_values(known, preference.values.get(column.metric), worths, best))
    return dict(zip((c.provider for c in eligible), table, strict=True))


def _cannot_tell(blind: Sequence[Column]) -> str:
    """No ranking by what every provider costs at an offered rate: its price."""
    workloads = " and ".join(dict.fromkeys(c.workload for c in blind))
    metrics = " and ".join(dict.fromkeys(c.metric for c in blind))
    return (
        f"Cannot tell: {workloads} has no sweep, so {metrics} at the highest rate that keeps the SLO is not known. "
        "Add a phase sweep to the workload, or remove the weights of request and token costs."
    )


def _note(candidates: Sequence[Ranked], eligible: Sequence[Ranked], trials: Sequence[TrialSample]) -> list[str]:
    if not candidates:
        return ["No provider ran this team's workloads."]
    if not eligible:
        return ["No provider is eligible; each one shows its reasons."]
    if len(eligible) == 1:
        return [f"Only {eligible[0].provider} is eligible: there is nothing to choose between."]
    few = min(eligible, key=lambda c: c.n)
    if few.n < 2:
        return [f"{few.provider} has only {few.n} usable repeat of some number; a probability needs two."]
    notes = []
    if few.n < 6:
        notes.append(f"Probabilities rest on as few as {few.n} repeats and are indicative.")
    names = [c.provider for c in eligible]
    pairs = {(t.provider, t.workload): set[str]() for t in trials if t.usable and t.provider in names}
    for t in trials:
        if (t.provider, t.workload) in pairs and t.usable:
            pairs[t.provider, t.workload].add(t.slot)
    if single := sorted({provider for (provider, _), slots in pairs.items() if len(slots) == 1}):
        who = "All repeats" if len(single) == len(names) else f"The repeats of {', '.join(single)}"
        notes.append(f"{who} ran at one time of day; variation over the day is assumed, not measured.")
    return notes


def no_sweep(metric: str, trials: Sequence[TrialSample]) -> bool:
    """Whether a cost at the highest rate that keeps the SLO cannot be known, since no usable trial of this workload searched that rate."""
    usable = [t for t in trials if t.usable]
    # What a hosted model bills for a request is known without a sweep.
    known = any(t.number(SUSTAINED, "value", "sweep") or t.value(metric, "value", "sweep") is not None for t in usable)
    return bool(usable) and sustained(metric) and not known


def cost_gap(metric: str, trials: Sequence[TrialSample]) -> str:
    """Why usable trials of one workload and provider lack a cost, of an endpoint that scales to zero or at the highest rate that keeps the SLO;
    empty where that is not the reason."""
    if metric in METRICS and METRICS[metric].unit == "USD" and (uncosted := next((t.uncosted for t in trials if t.uncosted), "")):
        return f"{metric} is not known: {uncosted}"
    if not sustained(metric):
        return ""
    if no_sweep(metric, trials):
        return f"{metric} cannot be known: its trials have no sweep"
    searched = [n for t in trials if t.usable and (n := t.number(SUSTAINED, "value", "sweep")) is not None]
    limits = dict.fromkeys(limit for t in trials if t.usable for limit in t.limits if limit.phase == "sweep" and limit.missing)
    if searched and limits and all(n.value is None for n in searched):
        return f"{metric} is not known: {next(iter(limits)).judgement.text}"
    if searched and all(n.value is None for n in searched):
        return f"{metric} is not known: the sweep found no highest rate that keeps the SLO"
    return ""
