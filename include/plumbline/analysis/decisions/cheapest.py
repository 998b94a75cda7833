"""The cheapest setup that meets the requirement: who keeps every promise, at what cost of an outcome, and what the others miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.analysis.cost.unit_costs import phase_of
from plumbline.analysis.decisions.decide import cost_gap, decide, gate_of
from plumbline.analysis.decisions.decision import Note
from plumbline.analysis.scorecards.criteria import CriterionBasis, Outcome, judge_all, margin
from plumbline.analysis.scorecards.scorecard import last_attempts
from plumbline.analysis.trial_sample import TrialSample, WorkloadKind
from plumbline.declarations import AnyCriterion, Criterion, Preference
from plumbline.metrics.pooling import pooled_fields
from plumbline.metrics.units import Amount


@dataclass(frozen=True)
class Requirements:
    """Requirements of one workload: a team's gates (judged on the median) and the workload's own acceptance criteria (on every repeat)."""

    kind: WorkloadKind
    workload: str
    gates: tuple[Criterion, ...] = ()
    acceptance: tuple[AnyCriterion, ...] = ()


@dataclass(frozen=True)
class Missed:
    """One requirement that is not met. `value` (the median) and `limit`, if known, in `unit`; `margin` as a fraction of the limit, negative: outside.
    `explanation`: of a criterion what its verdict rests on; of a stored one in words.

    `outcome`: fail, mixed (some repeats break what every one must keep) or insufficient (not measured, or too little to say).
    """

    text: str
    metric: str
    unit: str
    limit: float | None
    value: float | None
    margin: float | None
    outcome: Outcome
    explanation: str | CriterionBasis


@dataclass(frozen=True)
class Setup:
    """One provider. `cost` in USD per outcome, the median over usable repeats in an interval whose true confidence is `coverage`.

    `missed`: requirements that it does not meet, each with its value, limit and margin; empty: it meets all. `why_not`: the same and
    what else keeps it out; of a stored one in words. `probability_cheapest`: among those that meet the requirement; None: see the answer's note.
    """

    provider: str
    meets: bool
    cost: Amount | None
    low: float | None
    high: float | None
    coverage: float | None
    n: int
    probability_cheapest: float | None
    missed: tuple[Missed, ...]
    why_not: tuple[str | Missed, ...]
    trials: tuple[str, ...]


@dataclass(frozen=True)
class Cheapest:
    """The answer: `setups` that meet the requirement first, cheapest first; then the others by name. `metric` is what they cost per."""

    kind: WorkloadKind
    workload: str
    metric: str
    requirements: tuple[str, ...]
    setups: tuple[Setup, ...]
    note: Note

    @property
    def answer(self) -> Setup | None:
        """The cheapest that meets the requirement; None if nobody does."""
        return self.setups[0] if self.setups and self.setups[0].meets else None


def cheapest(requirements: Requirements, cost_metric: str, trials: Sequence[TrialSample]) -> Cheapest:
    """Who meets the requirement, ranked by one cost metric. `trials`: priced trials; others than of the workload are left out."""
    own = [t for t in last_attempts(trials) if t.kind == requirements.kind and t.workload == requirements.workload]
    by_provider = {p: [t for t in own if t.provider == p] for p in sorted({t.provider for t in own})}
    setups = [_setup(name, requirements, cost_metric, of) for name, of in by_provider.items()]
    able = [s for s in setups if s.meets]
    chances, note = _chances(requirements, cost_metric, [t for s in able for t in by_provider[s.provider]])
    ranked = sorted(
        (Setup(**{**vars(s), "probability_cheapest": chances.get(s.provider)}) for s in able), key=lambda s: (s.cost or 0.0, s.provider)
    )
    texts = tuple(dict.fromkeys(c.text for c in (*requirements.gates, *requirements.acceptance)))
    return Cheapest(
        requirements.kind, requirements.workload, cost_metric, texts, (*ranked, *(s for s in setups if not s.meets)), _note(setups, note)
    )


def _setup(provider: str, requirements: Requirements, cost_metric: str, trials: Sequence[TrialSample]) -> Setup:
    missed = _missed_requirements(requirements, trials)
    costs = [(t.trial_id, v) for t in trials if t.usable and (v := t.value(cost_metric, "value", phase_of(cost_metric))) is not None]
    pooled = pooled_fields([v for _, v in costs])
    apart = [t.apart for t in trials if t.apart][:1]
    gaps = [] if costs else [cost_gap(cost_metric, trials) or f"{cost_metric} is not known"]
    why_not: tuple[str | Missed, ...] = (*apart, *missed, *gaps)
    return Setup(
        provider=provider,
        meets=not why_not,
        cost=pooled["value"],
        **{name: pooled[name] for name in ("low", "high", "coverage", "n")},
        probability_cheapest=None,
        missed=missed,
        why_not=why_not,
        trials=tuple(trial_id for trial_id, _ in costs) or tuple(t.trial_id for t in trials if t.usable),
    )


def _missed_requirements(requirements: Requirements, trials: Sequence[TrialSample]) -> tuple[Missed, ...]:
    """A gate is judged on the median, as in every decision; a promise about every run is broken by one of them."""
    reasons = []
    for criterion in requirements.gates:
        gate = gate_of(criterion, requirements.workload, trials)
        if not gate.passed:
            outcome: Outcome = "insufficient" if gate.value is None else "fail"
            why = "no usable trial measured it" if gate.value is None else "the median does not meet it"
            inside = None if gate.value is None else margin(criterion, gate.value)
            reasons.append(Missed(criterion.text, criterion.metric, gate.unit, gate.limit, gate.value, inside, outcome, why))
    for judged in judge_all(requirements.acceptance, trials):
        if judged.outcome != "pass" and judged.text not in {m.text for m in reasons}:
            number = (judged.metric, judged.unit, judged.limit, judged.value, judged.margin)
            reasons.append(Missed(judged.text, *number, judged.outcome, judged.basis))
    return tuple(reasons)


def _chances(requirements: Requirements, cost_metric: str, trials: Sequence[TrialSample]) -> tuple[dict[str, float | None], Note]:
    """Probability of each to be the cheapest: a decision by cost alone, in which the gates may close by chance."""
    if not trials:
        return {}, ""
    alone = Preference.model_construct(
        workloads=(requirements.workload,), groups={}, weights={cost_metric: 1.0}, values={}, gates=requirements.gates
    )
    decision = decide("", requirements.kind, alone, trials)
    return {r.provider: r.probability_first for r in decision.ranking}, decision.note


def _note(setups: Sequence[Setup], note: Note) -> Note:
    if not setups:
        return "No provider ran this workload."
    able = [s for s in setups if s.meets]
    if not able:
        refused = any(j.outcome == "fail" for s in setups for j in s.missed)
        return (
            "No provider meets the requirement; each one shows what it misses." if refused else "Each provider shows what is not measured."
        )
    if len(able) == 1:
        return f"Only {able[0].provider} meets the requirement."
    return note
