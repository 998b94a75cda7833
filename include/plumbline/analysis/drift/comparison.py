"""The result of comparing one series with its baseline: one row a metric, and how reliably the campaign ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from plumbline.analysis.drift.creep import Creep
from plumbline.analysis.drift.effect import Scale
from plumbline.analysis.drift.environment import EnvironmentChange
from plumbline.declarations.workloads.workload import DriftLimits
from plumbline.judgement import Judgement, broken, met, not_shown
from plumbline.metrics import Direction, Metric
from plumbline.results.sample import CampaignSample, TrialOutcome

_LARGER = 0.05
_GPU_ERRORS = "gpu_"
"""Prefix of the reason codes of new GPU errors: see `harness.gpu_errors`."""


@dataclass(frozen=True)
class Reliability:
    """Counts over attempts. `failed` is (failure class, attempts), most frequent first; `missing` are planned trials without any record.

    `gpu_errors` is (reason code, attempts) of the attempts in which GPUs made new errors, `gpu_error_trials` their trials.
    """

    attempts: int
    failed: tuple[tuple[str, int], ...]
    failed_trials: tuple[str, ...]
    invalid: int
    planned: int | None
    missing: int
    baseline_attempts: int
    baseline_failed: int
    gpu_errors: tuple[tuple[str, int], ...] = ()
    gpu_error_trials: tuple[str, ...] = ()
    baseline_gpu_errors: int = 0

    @property
    def failures(self) -> int:
        return sum(n for _, n in self.failed)

    @property
    def as_usual(self) -> bool:
        """Whether the baseline explains the failures: Fisher's exact test sees no larger share than there. False without a baseline."""
        return self._is_usual(self.failures, self.baseline_failed)

    @property
    def gpu_errors_as_usual(self) -> bool:
        """Whether no more attempts than usual had new errors of a GPU."""
        return self._is_usual(len(self.gpu_error_trials), self.baseline_gpu_errors)

    def _is_usual(self, now: int, before: int) -> bool:
        if not self.baseline_attempts:
            return False
        from scipy import stats  # takes two seconds to import

        table = np.array([[now, self.attempts - now], [before, self.baseline_attempts - before]])
        return float(stats.fisher_exact(table, alternative="greater").pvalue) > _LARGER


def reliability_of(baseline: Sequence[CampaignSample], candidate: CampaignSample) -> Reliability:
    """Reliability of the candidate's attempts, and the baseline's counts to compare them with."""
    ran = [o for o in candidate.outcomes if o.status != "missing"]
    failed = [o for o in ran if o.status == "failed"]
    before = [o for sample in baseline for o in sample.outcomes if o.status != "missing"]
    recorded = {(o.slot, o.repeat) for o in ran}
    gone = {(o.slot, o.repeat) for o in candidate.outcomes if o.status == "missing"} - recorded
    missing = max(len(gone), candidate.planned - len(recorded)) if candidate.planned is not None else len(gone)
    return Reliability(
        attempts=len(ran),
        failed=tuple(Counter(o.failure_class or "unknown" for o in failed).most_common()),
        failed_trials=tuple(dict.fromkeys(o.trial_id for o in failed)),
        invalid=sum(o.status == "invalid" for o in ran),
        planned=candidate.planned,
        missing=max(0, missing),
        baseline_attempts=len(before),
        baseline_failed=sum(o.status == "failed" for o in before),
        gpu_errors=tuple(Counter(code for o in ran for code in _gpu_errors(o)).most_common()),
        gpu_error_trials=tuple(o.trial_id for o in ran if _gpu_errors(o)),
        baseline_gpu_errors=sum(bool(_gpu_errors(o)) for o in before),
    )


def _gpu_errors(outcome: TrialOutcome) -> tuple[str, ...]:
    return tuple(dict.fromkeys(code for code in outcome.reasons if code.startswith(_GPU_ERRORS)))


Verdict = Literal["regressed", "improved", "suspected", "moved", "insufficient_data", "unchanged"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The most severe first."""
Family = Literal["lead", "tail", "informative"]
RepeatsWhere = Literal["candidate", "both"]
Limits = Callable[[Metric], DriftLimits | None]


@dataclass(frozen=True)
class LastingChange:
    """A step or a ramp in a long series, which is there since the campaign `since`."""

    kind: Literal["step", "ramp"]
    since: str


@dataclass(frozen=True)
class MetricComparison:
    """One statistic of one metric in one phase.

    `baseline` is the median over repeats in the metric's unit, `candidate` the same moved by the effect. `effect` and its interval are fractions
    (`candidate / baseline - 1`; see plumbline.analysis.drift.effect for the other scales), None where one side has no value. `mde` is the
    smallest change that these repeats would find, as a fraction. `past_threshold` counts the candidate's repeats beyond warn.
    `repeats_needed` further repeats would settle a doubt: of the candidate, or of candidate and baseline each (`repeats_where`);
    None in doubt means that not even 200 on each side would. `past` is what a long series said where that gave the verdict; `crept`: the
    effect is that against the oldest accepted baseline.
    """

    metric: str
    statistic: str
    phase: str
    unit: str
    direction: Direction
    family: Family
    n_baseline: int
    n_candidate: int
    scale: Scale = "ratio"
    baseline: float | None = None
    candidate: float | None = None
    effect: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None
    q: float | None = None
    mde: float | None = None
    warn: float | None = None
    page: float | None = None
    verdict: Verdict | None = None
    blocked: bool = True
    past_threshold: int = 0
    repeats_needed: int | None = None
    repeats_where: RepeatsWhere | None = None
    smallest_p: float | None = None
    notes: tuple[str, ...] = ()
    past: LastingChange | Creep | None = None
    crept: bool = False

    @property
    def worse(self) -> bool | None:
        """Whether the candidate is worse (True) or better (False); None if the metric has no good side or did not move."""
        if not self.effect or self.direction == "informative":
            return None
        return (self.effect > 0) == (self.direction == "lower_is_better")

    @property
    def judgement(self) -> Judgement:
        """Whether the performance held: broken by a regression, met where the repeats would have shown one."""
        seen = f"{self.n_baseline} + {self.n_candidate} repeats"
        if self.verdict == "regressed":
            return broken(seen)
        if self.verdict in (None, "suspected", "insufficient_data"):
            decides = f"{self.repeats_needed} more repeats" if self.repeats_needed else "repeats on both sides that measure it"
            return not_shown(seen, "not enough to tell a change from noise" if self.verdict else "not compared", decides)
        return met(seen)


@dataclass(frozen=True)
class Comparison:
    """The comparison of a series: rows by metric, of trials on other nodes than the `slow_nodes`, changed environment, reliability, and the reason of a refusal."""

    series_key: str
    baseline_campaigns: tuple[str, ...]
    candidate_campaign: str
    simulated: bool
    confidence: float
    rows: tuple[MetricComparison, ...]
    environment_changes: tuple[EnvironmentChange, ...]
    reliability: Reliability
    problems: tuple[str, ...] = ()
    imported: bool = False
    slow_nodes: tuple[str, ...] = ()

    @property
    def drifted(self) -> tuple[MetricComparison, ...]:
        """The rows that regressed or improved."""
        return tuple(row for row in self.rows if row.verdict in ("regressed", "improved"))

    @property
    def verdict(self) -> Verdict | None:
        """The series' verdict: the most severe of its rows'; None if nothing was judged."""
        verdicts = {row.verdict for row in self.rows}
        return next((v for v in VERDICTS if v in verdicts), None)
