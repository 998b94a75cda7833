"""Acceptance criteria, quoted as they were declared, against a campaign's repeats.

The rule. A criterion is a promise about every run, so it is judged over the repeats one by one, not over an average:

- insufficient: no usable repeat measured the number, or fewer than half of the planned trials did (what is missing could decide it); a
  repeat whose requests are too few for the tail in question did not measure it, and the explanation says how many it takes; NaN and a
  latency of 0 are no measurement either. This is
  never a pass and never a fail, and neither is a relative criterion ("within 10% of baseline") whose reference is not known yet
- fail: the median of the repeats does not meet the limit
- mixed: the median does, some repeat does not; not a pass, since one run in so many would break the promise
- pass: every usable repeat meets the limit

A percentile that so many failed requests reach that it has no value is infinite, and fails. The confidence that each repeat's sample
allows stands in the explanation: a limit inside a repeat's 95 % interval, and a percentile that has none yet.

The margin is the distance of the median from the limit, as a fraction of the limit, positive on the good side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from plumbline.analysis.trial_sample import TrialSample
from plumbline.declarations import Criterion, RelativeCriterion
from plumbline.declarations.workloads.workload import PER_REQUEST_LATENCIES, REQUEST_SHARES, insufficient_observations
from plumbline.judgement import Judgement, broken, is_measured, judges, met, not_shown
from plumbline.metrics import LENGTH_DEPENDENT, NATURAL_LENGTHS, metric_of
from plumbline.metrics.formatting import format_quantity
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
    explanation: str

    @property
    def judgement(self) -> Judgement:
        """Met by each repeat, broken by one or by their median, else not shown."""
        if self.outcome == "insufficient":
            missing = "no limit to compare with" if self.limit is None else "too few measurements"
            decides = (
                "a result of its reference"
                if self.limit is None
                else f"usable trials that measure {self.metric}, more than half of those planned"
            )
            return not_shown(self.explanation, missing, decides)
        return met(self.explanation) if self.outcome == "pass" else broken(self.explanation)


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
    source = f"comparable result of {criterion.provider}" if criterion.provider else "baseline"
    return replace(unlimited, outcome="insufficient", met=0, explanation=f"no {source} yet that measured it as more than 0")


@judges("acceptance criterion")
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
    outcome, explanation = _outcome(criterion, middle, held, len(values), planned, any(t.usable for t in trials))
    notes = [max(small)[1]] if small else []
    notes += caveats(criterion, [m for _, m in rows])
    if criterion.metric in LENGTH_DEPENDENT and any(t.conditions and ("requests.output", "natural") in t.conditions.asked for t in trials):
        notes.append(NATURAL_LENGTHS)
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
        explanation="; ".join([explanation, *notes]),
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


def _outcome(criterion: Criterion, middle: float | None, met: int, n: int, planned: int, usable: bool) -> tuple[Outcome, str]:
    if middle is None and planned == 1:
        return "insufficient", "the trial did not measure it" if usable else "the trial is not usable"
    if middle is None:
        return "insufficient", f"no usable trial measured it ({planned} planned)"
    if 2 * n < planned:
        return "insufficient", f"only {n} of {planned} planned trials measured it"
    if planned == 1:
        return ("pass", "the one repeat meets it") if met else ("fail", "the one repeat does not meet it")
    if not criterion.met_by(middle):
        return "fail", f"the median of {n} does not meet it; {met} of {n} repeats do"
    if met < n:
        return "mixed", f"the median meets it, {n - met} of {n} repeats do not"
    return "pass", f"all {n} repeats meet it"


def margin(criterion: Criterion, value: float) -> float | None:
    """How far inside the limit, as a fraction of it; None for a limit of zero, where no fraction exists."""
    if criterion.limit == 0:
        return None
    inside = criterion.limit - value if criterion.op == "<=" else value - criterion.limit
    return inside / abs(criterion.limit)


_PERCENT = f"{100 * CONFIDENCE:g} %"


def never_reached(number: MetricRow) -> bool:
    """Whether a percentile over all requests has no value although they were enough: so many of them failed that it is infinite."""
    q = QUANTILES.get(number.statistic)
    return (
        number.value is None and q is not None and number.metric in PER_REQUEST_LATENCIES and number.n >= min_observations_for_quantile(q)
    )


def caveats(criterion: Criterion, numbers: Sequence[MetricRow]) -> list[str]:
    """Caveats of the verdict on a criterion, from the rows of the repeats that measured it; one sentence each."""
    sentences: list[str] = []
    n = len(numbers)
    if failed := sum(map(never_reached, numbers)):
        where = "" if n == 1 else f"in {failed} of {n} "
        sentences.append(f"{where}so many requests failed that {criterion.statistic} was never reached")
    unsure = [m for m in numbers if _contains_the_limit(criterion, m)]
    if unsure:
        widest = max(unsure, key=lambda m: (m.ci_high or 0.0) - (m.ci_low or 0.0))
        where = f"within its {_PERCENT} interval (" if n == 1 else f"within the {_PERCENT} interval of {len(unsure)} of {n} (the widest: "
        sentences.append(f"the limit lies {where}{_format_bounds(widest)}){_would_tell(criterion, widest)}")
    q = QUANTILES.get(criterion.statistic)
    if q is not None and (few := [m.n for m in numbers if m.n < min_observations_for_interval(q)]):
        text = f"{criterion.statistic} has no {_PERCENT} interval below {min_observations_for_interval(q)} observations"
        sentences.append(
            f"{text}; here were {few[0]}" if n == 1 else f"{text}, which {len(few)} of {n} did not have (the smallest {min(few)})"
        )
    return sentences


def _contains_the_limit(criterion: Criterion, number: MetricRow) -> bool:
    if number.ci_low is None or number.ci_high is None:
        return False
    return criterion.met_by(number.ci_low) != criterion.met_by(number.ci_high)


def _format_bounds(number: MetricRow) -> str:
    unit = metric_of(number).unit
    return f"{format_quantity(number.ci_low, unit)} … {format_quantity(number.ci_high, unit)}"


def _would_tell(criterion: Criterion, number: MetricRow) -> str:
    """How many requests would settle a share that stays what it is; nothing for other metrics, whose spread is not known from the row."""
    if criterion.metric not in REQUEST_SHARES or number.value is None or not 0 < criterion.limit < 1 or number.value == criterion.limit:
        return ""
    if number.value in (0.0, 1.0):
        needed = min_successes_to_prove(criterion.limit if number.value else 1 - criterion.limit)
    else:
        needed = sample_size_for_margin(number.value, abs(number.value - criterion.limit), CONFIDENCE)
    return f"; about {needed} requests would settle it at this share"
