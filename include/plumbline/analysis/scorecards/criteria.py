"""Acceptance criteria, quoted as they were declared, against a campaign's repeats.

The rule. A criterion is a promise about every run, so it is judged over the repeats one by one, not over an average:

- insufficient: no usable repeat measured the number, or fewer than half of the planned trials did (what is missing could decide it); a
  repeat whose requests are too few for the tail in question did not measure it, and the verdict says how many it takes; NaN and a
  latency of 0 are no measurement either. This is never a pass and never a fail, and neither is a
  relative criterion ("within 10% of baseline") whose reference is not known yet
- fail: the median of the repeats does not meet the limit
- mixed: the median does, some repeat does not; not a pass, since one run in so many would break the promise
- pass: every usable repeat meets the limit

A percentile that so many failed requests reach that it has no value is infinite, and fails. The confidence that each repeat's sample
allows is a caveat of the verdict: a limit inside a repeat's 95 % interval, and a percentile that has none yet.

The margin is the distance of the median from the limit, as a fraction of the limit, positive on the good side.

A verdict carries what it rests on as values; `words.criteria` explains it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Criterion, RelativeCriterion
from plumbline.declarations.workloads.workload import PER_REQUEST_LATENCIES, REQUEST_SHARES, insufficient_observations
from plumbline.judgement import is_measured
from plumbline.metrics import LENGTH_DEPENDENT, metric_of
from plumbline.metrics.proportions import (
    CONFIDENCE,
    QUANTILES,
    min_observations_for_interval,
    min_observations_for_quantile,
    min_successes_to_prove,
    sample_size_for_margin,
)
from plumbline.metrics.rows import MetricRow

Outcome = Literal["pass", "mixed", "fail", "insufficient"]
CriterionEvidence = Literal[
    "no_reference",
    "the_trial_is_unusable",
    "the_trial_is_silent",
    "all_are_silent",
    "most_are_silent",
    "the_repeat_meets",
    "the_repeat_breaks",
    "the_median_breaks",
    "some_break",
    "all_meet",
]
"""What the repeats show; `no_reference`: a relative criterion has no limit yet."""


@dataclass(frozen=True)
class LimitInside:
    """The limit lies inside the 95 % interval of `repeats` repeats, of which the widest is from `low` to `high`. `settled_by`: requests
    that would settle a share that stays what it is; None of other metrics."""

    repeats: int
    low: float
    high: float
    unit: str
    settled_by: int | None = None


@dataclass(frozen=True)
class NoInterval:
    """`repeats` repeats have too few observations, the smallest `fewest`, for an interval of their percentile, which takes `least`."""

    repeats: int
    fewest: int
    least: int


@dataclass(frozen=True)
class CriterionBasis:
    """What a verdict rests on. `met` of `n` repeats that measured it, of `planned` trials; `reported`: repeats that have the number,
    with or without a value. `reference`: the provider whose result is missing; empty: the baseline's. `too_small`: why a sample cannot
    answer. `never_reached`: repeats whose percentile so many failed requests reach that it is infinite. `natural`: answers had their own
    lengths."""

    shows: CriterionEvidence
    met: int
    n: int
    planned: int
    statistic: str
    reported: int = 0
    reference: str = ""
    too_small: str = ""
    never_reached: int = 0
    inside: LimitInside | None = None
    no_interval: NoInterval | None = None
    natural: bool = False


@dataclass(frozen=True)
class CriterionVerdict:
    """One criterion and what the repeats say. `value`, `worst` and the limit are in the metric's unit; no value and a fail: infinite.
    `text`: of a relative criterion with its limit and reference; as `declared`, and without a limit, as long as it has none."""

    declared: str
    text: str
    metric: str
    statistic: str
    phase: str
    unit: str
    limit: float | None
    outcome: Outcome
    value: float | None
    worst: float | None
    margin: float | None
    met: int
    n: int
    planned: int
    trials: tuple[str, ...]
    basis: CriterionBasis


def judge_all(criteria: Iterable[Criterion | RelativeCriterion], trials: Sequence[TrialSample]) -> tuple[CriterionVerdict, ...]:
    """`judge` each criterion, without those that compare the provider with itself."""
    return tuple(
        judge(each, trials) if isinstance(each, Criterion) else _judge_relative(each, trials)
        for each in criteria
        if isinstance(each, Criterion) or each.provider not in {t.provider for t in trials}
    )


def _judge_relative(criterion: RelativeCriterion, trials: Sequence[TrialSample]) -> CriterionVerdict:
    resolved = next((t.resolved[criterion.text] for t in trials if criterion.text in t.resolved), None)
    if resolved is not None:
        return replace(judge(resolved, trials), declared=criterion.text)
    unlimited = replace(judge(criterion.limited_by(0.0, ""), trials), declared=criterion.text, text=criterion.text, limit=None, margin=None)
    basis = CriterionBasis("no_reference", 0, unlimited.n, unlimited.planned, unlimited.statistic, reference=criterion.provider or "")
    return replace(unlimited, outcome="insufficient", met=0, basis=basis)


def judge(criterion: Criterion, trials: Sequence[TrialSample]) -> CriterionVerdict:
    """Judge one criterion over the trials of one provider and workload (every planned trial, whatever its status)."""
    planned = len({t.trial_id for t in trials})
    rows = [(t.trial_id, m) for t in trials if t.usable and (m := t.number(criterion.metric, criterion.statistic, criterion.phase))]
    small = [(m.n, reason) for _, m in rows if (reason := _too_small(criterion, m))]
    rows = [(trial_id, m) for trial_id, m in rows if not _too_small(criterion, m) and not _no_figure(m)]
    trial_values = [(trial_id, v) for trial_id, m in rows if (v := math.inf if never_reached(m) else m.value) is not None]
    values = [v for _, v in trial_values]
    held = sum(criterion.met_by(v) for v in values)
    middle = median(values) if values else None
    outcome, shows = _outcome(criterion, middle, held, len(values), planned, any(t.usable for t in trials))
    numbers = [m for _, m in rows]
    basis = CriterionBasis(
        shows,
        held,
        len(values),
        planned,
        criterion.statistic,
        len(numbers),
        too_small=max(small)[1] if small else "",
        never_reached=sum(map(never_reached, numbers)),
        inside=_limit_inside(criterion, numbers),
        no_interval=_no_interval(criterion, numbers),
        natural=criterion.metric in LENGTH_DEPENDENT
        and any(t.conditions is not None and ("requests.output", "natural") in t.conditions.asked for t in trials),
    )
    worst = (max(values) if criterion.op == "<=" else min(values)) if values else None
    return CriterionVerdict(
        declared=criterion.text,
        text=criterion.text,
        metric=criterion.metric,
        statistic=criterion.statistic,
        phase=criterion.phase,
        unit=criterion.known.unit,
        limit=criterion.limit,
        outcome=outcome,
        value=_finite(middle),
        worst=_finite(worst),
        margin=None if middle is None or math.isinf(middle) else margin(criterion, middle),
        met=held,
        n=len(values),
        planned=planned,
        trials=tuple(trial_id for trial_id, _ in trial_values),
        basis=basis,
    )


def _too_small(criterion: Criterion, number: MetricRow) -> str | None:
    """Why a repeat's sample cannot answer the criterion. Few requests can refute a share all the same: half of forty is no 99 %."""
    reason = insufficient_observations(criterion, number.n)
    bounds = [bound for bound in (number.ci_low, number.ci_high) if bound is not None]
    return None if bounds and not any(criterion.met_by(bound) for bound in bounds) else reason


def _no_figure(number: MetricRow) -> bool:
    """Whether the value is no measurement: nothing takes no time, and NaN is no number."""
    if number.value is None:
        return False
    return math.isnan(number.value) or (
        number.metric in PER_REQUEST_LATENCIES and not is_measured(number.value) and not math.isinf(number.value)
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value


def _outcome(criterion: Criterion, middle: float | None, met: int, n: int, planned: int, usable: bool) -> tuple[Outcome, CriterionEvidence]:
    if middle is None and planned == 1:
        return "insufficient", "the_trial_is_silent" if usable else "the_trial_is_unusable"
    if middle is None:
        return "insufficient", "all_are_silent"
    if 2 * n < planned:
        return "insufficient", "most_are_silent"
    if planned == 1:
        return ("pass", "the_repeat_meets") if met else ("fail", "the_repeat_breaks")
    if not criterion.met_by(middle):
        return "fail", "the_median_breaks"
    return ("mixed", "some_break") if met < n else ("pass", "all_meet")


def margin(criterion: Criterion, value: float) -> float | None:
    """How far inside the limit, as a fraction of it; None for a limit of zero, where no fraction exists."""
    if criterion.limit == 0:
        return None
    inside = criterion.limit - value if criterion.op == "<=" else value - criterion.limit
    return inside / abs(criterion.limit)


def never_reached(number: MetricRow) -> bool:
    """Whether a percentile over all requests has no value although they were enough: so many of them failed that it is infinite."""
    q = QUANTILES.get(number.statistic)
    return (
        number.value is None and q is not None and number.metric in PER_REQUEST_LATENCIES and number.n >= min_observations_for_quantile(q)
    )


def _limit_inside(criterion: Criterion, numbers: Sequence[MetricRow]) -> LimitInside | None:
    unsure = [(m, m.ci_low, m.ci_high) for m in numbers if m.ci_low is not None and m.ci_high is not None]
    unsure = [(m, low, high) for m, low, high in unsure if criterion.met_by(low) != criterion.met_by(high)]
    if not unsure:
        return None
    widest, low, high = max(unsure, key=lambda each: each[2] - each[1])
    return LimitInside(len(unsure), low, high, metric_of(widest).unit, _settled_by(criterion, widest))


def _no_interval(criterion: Criterion, numbers: Sequence[MetricRow]) -> NoInterval | None:
    if (q := QUANTILES.get(criterion.statistic)) is None:
        return None
    least = min_observations_for_interval(q)
    few = [m.n for m in numbers if m.n < least]
    return NoInterval(len(few), min(few), least) if few else None


def _settled_by(criterion: Criterion, number: MetricRow) -> int | None:
    """Requests that would settle a share that stays what it is; None of other metrics, whose spread is not known from the row."""
    if criterion.metric not in REQUEST_SHARES or number.value is None or not 0 < criterion.limit < 1 or number.value == criterion.limit:
        return None
    if number.value in (0.0, 1.0):
        return min_successes_to_prove(criterion.limit if number.value else 1 - criterion.limit)
    return sample_size_for_margin(number.value, abs(number.value - criterion.limit), CONFIDENCE)
