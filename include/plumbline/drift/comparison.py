"""What a comparison says: a row per metric, and what changed around the series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from plumbline.declarations.metrics import Direction
from plumbline.declarations.workload import DriftLimits
from plumbline.drift.effect import Scale
from plumbline.drift.environment import Change
from plumbline.drift.reliability import Reliability

Verdict = Literal["regressed", "improved", "unchanged", "suspected", "insufficient_data"]
Family = Literal["lead", "tail", "informative"]
RepeatsWhere = Literal["candidate", "both"]
Limits = Callable[[str], DriftLimits | None]


@dataclass(frozen=True)
class MetricComparison:
    """One statistic of one metric in one phase.

    `baseline` and `candidate` are medians over repeats in the metric's unit. `effect` and its interval are fractions
    (`candidate / baseline - 1`; see plumbline.drift.effect for the other scales), None where one side has no value. `mde` is the
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
    past: str | None = None
    crept: bool = False

    @property
    def worse(self) -> bool | None:
        """Whether the candidate is worse (True) or better (False); None if the metric has no good side or did not move."""
        if not self.effect or self.direction == "informative":
            return None
        return (self.effect > 0) == (self.direction == "lower_is_better")


@dataclass(frozen=True)
class Comparison:
    """What became of a series: rows by metric, what changed around it, how reliably it ran, and why it was refused, if it was."""

    series_key: str
    baseline_campaigns: tuple[str, ...]
    candidate_campaign: str
    simulated: bool
    confidence: float
    rows: tuple[MetricComparison, ...]
    environment_changes: tuple[Change, ...]
    reliability: Reliability
    problems: tuple[str, ...] = ()
    imported: bool = False

    @property
    def moved(self) -> tuple[MetricComparison, ...]:
        """The rows that regressed or improved."""
        return tuple(row for row in self.rows if row.verdict in ("regressed", "improved"))

    @property
    def verdict(self) -> Verdict | None:
        """The series' verdict: the gravest of its rows'; None if nothing was judged."""
        found = {row.verdict for row in self.rows}
        order: tuple[Verdict, ...] = ("regressed", "improved", "suspected", "insufficient_data", "unchanged")
        return next((v for v in order if v in found), None)
