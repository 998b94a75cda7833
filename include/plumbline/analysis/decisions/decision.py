"""A decision: its weighed columns, gates, ranking and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from plumbline.analysis.decisions.contradiction import Contradiction
from plumbline.analysis.scorecards.comparison_class import ComparisonClass
from plumbline.analysis.trial_sample import WorkloadKind
from plumbline.declarations.teams import CERTAINTY

Choice = tuple[str, WorkloadKind, tuple[str, ...]]
"""Team, kind and workloads: what is chosen for."""
ChoiceEvidence = Literal[
    "every_provider_refused", "no_sweep", "nothing_measured", "number_missing", "no_rival", "no_probability", "below_bar", "clear"
]
"""The evidence for a first choice. Of them `clear` shows that it is the best, and `every_provider_refused` that none can be chosen."""


@dataclass(frozen=True)
class Column:
    """One weighted number: a metric on a workload, in the phase and statistic that stand for the metric.

    `valued`: the value function in words, as declared.
    """

    workload: str
    metric: str
    statistic: str
    phase: str
    unit: str
    weight: float
    valued: str = "ratio to the best"


@dataclass(frozen=True)
class Gate:
    """One hard gate of one provider on one workload. `value` None: not measured, which is not a pass. `shown`: not passed by what was measured;
    False where what is unknown of the number could still pass it."""

    workload: str
    text: str
    unit: str
    value: float | None
    limit: float
    passed: bool
    shown: bool = True


@dataclass(frozen=True)
class ClosedGate:
    """A gate that keeps a provider out: not met, not measured, or `not_known` for the reason `unknown`. `unproven`: what is certain of the
    number, `at_least`, does not meet it, and what may be, `at_most`, would."""

    text: str
    workload: str
    why: Literal["not_met", "not_measured", "not_known", "unproven"]
    unknown: str = ""
    at_least: float | None = None
    at_most: float | None = None


Note = str | tuple[str | Contradiction, ...]
"""What a ranking cannot say, part by part; of a stored one in words."""


@dataclass(frozen=True)
class Ranked:
    """One provider. `score` and `ratios` are None when it is not eligible, `why_not` says why; of a stored one in words.

    `ratios`: the value from 0 to 1 of each column's number, its ratio to the best eligible provider's where nothing else is declared.
    `probability_first` (among those that are eligible) is None when it cannot be computed: the decision's note says why. `n`: usable
    repeats behind the number that has the fewest.
    """

    provider: str
    eligible: bool
    score: float | None = None
    probability_first: float | None = None
    values: tuple[float | None, ...] = ()
    ratios: tuple[float, ...] | None = None
    gates: tuple[Gate, ...] = ()
    why_not: tuple[str | ClosedGate, ...] = ()
    n: int = 0
    trials: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether evidence keeps it out: a measured number that breaks a gate, or a declared fact. One without a number is not refused."""
        measured = any(g.value is not None and g.shown and not g.passed for g in self.gates)
        declared = bool(self.why_not) and None not in self.values and all(g.passed for g in self.gates)
        return not self.eligible and (measured or (declared and bool(self.values)))


@dataclass(frozen=True)
class Decision:
    """The ranking, best first; providers that are not eligible come last, by name. `note` says what the ranking cannot say.

    `workloads`: those that were weighed; with team and kind they name the choice. Defaults are those of records of older versions.
    `comparison`: of those that are eligible, in which class they are compared and what limits it.
    `cannot_tell`: no_sweep where a cost is weighed that only a sweep shows and no trial of its workload has one: no provider is ranked.
    `bar`: from which P(first) on the team calls its first choice a clear winner.
    """

    team: str
    kind: WorkloadKind
    workloads: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    ranking: tuple[Ranked, ...] = ()
    note: Note = ""
    seed: int = 0
    draws: int = 0
    comparison: ComparisonClass = field(default_factory=ComparisonClass)
    cannot_tell: Literal["no_sweep"] | None = None
    bar: float = CERTAINTY

    @property
    def choice(self) -> Choice:
        """The question that it answers."""
        return self.team, self.kind, self.workloads

    @property
    def eligible(self) -> tuple[Ranked, ...]:
        """Providers that can be first, best first."""
        return tuple(r for r in self.ranking if r.eligible)

    @property
    def first(self) -> Ranked | None:
        """The provider that ranks first, also where it is the only eligible one; None when nobody is eligible."""
        return next((r for r in self.ranking if r.eligible), None)

    @property
    def first_name(self) -> str | None:
        """Name of the provider that ranks first."""
        return self.first.provider if self.first else None

    @property
    def winner(self) -> Ranked | None:
        """The first of at least two eligible providers; None when there was no choice to make."""
        return self.eligible[0] if len(self.eligible) > 1 else None

    @property
    def evidence(self) -> ChoiceEvidence:
        """What shows that its first choice is the best, or what it lacks."""
        first = self.first
        if first is None:
            waiting = any(not r.refused for r in self.ranking)
            if self.ranking and not waiting:
                return "every_provider_refused"
            if self.cannot_tell is not None:
                return self.cannot_tell
            return "number_missing" if waiting else "nothing_measured"
        if len(self.eligible) == 1:
            return "no_rival"
        if first.probability_first is None or not 0 < first.probability_first <= 1:
            return "no_probability"
        return "below_bar" if first.probability_first < self.bar else "clear"
