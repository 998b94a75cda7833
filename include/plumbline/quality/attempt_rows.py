"""Result documents as tables: one row an attempt.

`attempts` has every attempt and says whether it is what it claims to be; `facts` has those that may be believed, and `numbers` a row for
each bound of each of their numbers. Trials that failed have no numbers and stand in the first table only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import pandas as pd

from plumbline.declarations import Trial
from plumbline.kinds import kind_of
from plumbline.metrics import METRICS, Metric
from plumbline.results import MetricRow, ResultDocument

Kind = Literal["training", "inference"]
USABLE_STATUSES = ("valid", "degraded")
NATURAL_KEY = ("series_key", "campaign_id", "slot", "repeat", "attempt")
ENVIRONMENT_FACTS = ("cpu.model", "cpu.usable", "memory.total_bytes", "os.kernel", "python.version")
"""Facts without which an environment explains no change; the probe of every platform gives them."""

NUMBER_CHECKS = {
    "out_of_range": "expected every number to be possible",
    "percentile_order": "expected the statistics of a metric to rise from its minimum to its maximum",
    "latency_order": "expected a request to end no sooner than its first token arrived, and its latency from its schedule to be the longer",
}
"""Code of a check of numbers → the expected value."""
# Statistics that must not fall; a training reports its p50 as `median`.
_ORDERED = ("min", "p50", "median", "p90", "p95", "p99", "max")
_CONTAINED_IN = {"time_to_first_token": ("request_scheduled_latency",), "request_latency": ("request_scheduled_latency",)}

_ATTEMPT_COLUMNS = (
    "key", "trial_id", *NATURAL_KEY, "status", "schema_version", "checksum_holds", "spec_hash", "planned_spec_hash", "criteria_hash",
    "planned_criteria_hash", "repeated_metrics", "seconds_ahead_of_clock", "seconds_before_plan",
)  # fmt: skip


def attempt_key(document: ResultDocument) -> str:
    """An attempt's name in verdicts: trial_id#attempt."""
    return f"{document.trial.trial_id}#{document.trial.attempt}"


def attempts_table(documents: Sequence[ResultDocument], planned: Sequence[Trial], now: datetime) -> pd.DataFrame:
    """One row for each document: identity, hashes against what was planned, clocks. Times are in seconds."""
    planned_trials = {trial.trial_id: trial for trial in planned}
    return pd.DataFrame(
        [_attempt_row(document, planned_trials.get(document.trial.trial_id), now) for document in documents], columns=_ATTEMPT_COLUMNS
    )


def _attempt_row(document: ResultDocument, planned: Trial | None, now: datetime) -> dict[str, Any]:
    trial = document.trial
    moments = [event.utc for event in document.timeline]
    rows = Counter((row.phase, row.metric, row.statistic) for row in document.metrics)
    return {
        "key": attempt_key(document),
        "trial_id": trial.trial_id,
        **{name: getattr(trial, name) for name in NATURAL_KEY},
        "status": document.validity.status,
        "schema_version": document.schema_version,
        "checksum_holds": document.checksum == document.content_hash(),
        "spec_hash": trial.spec_hash,
        "planned_spec_hash": planned.spec_hash if planned else None,
        "criteria_hash": trial.criteria_hash,
        "planned_criteria_hash": planned.criteria_hash if planned else None,
        "repeated_metrics": _join_names(" ".join(name) for name, count in rows.items() if count > 1),
        "seconds_ahead_of_clock": max(((at - now).total_seconds() for at in moments), default=None),
        "seconds_before_plan": max(((trial.planned_at - at).total_seconds() for at in moments), default=None),
    }


def facts_table(documents: Sequence[ResultDocument], kind: Kind) -> pd.DataFrame:
    """One row for each document of the kind that may be believed."""
    return pd.DataFrame([_facts_row(document) for document in _believed(documents, kind)])


def numbers_table(documents: Sequence[ResultDocument], kind: Kind) -> pd.DataFrame:
    """One row for each bound of a number of those documents: the check's code, the number's name (phase.metric.statistic), its value, what it
    must at least and at most be (absent: no upper end), and this in words."""
    rows = [
        {"key": attempt_key(d), **bound} for d in _believed(documents, kind) for bound in _bounds(numbers_of(d), d.trial.workload.catalogue)
    ]
    return pd.DataFrame(rows, columns=["key", "code", "number", "value", "at_least", "at_most", "expected"])


def _believed(documents: Sequence[ResultDocument], kind: Kind) -> list[ResultDocument]:
    return [d for d in documents if d.trial.workload.kind == kind and d.validity.status in USABLE_STATUSES]


def interval_is_valid(row: MetricRow) -> bool:
    """Whether a row's confidence interval is one: both ends or none, in order, around the value."""
    if row.ci_low is None and row.ci_high is None:
        return True
    if row.ci_low is None or row.ci_high is None or row.value is None:
        return False
    return row.ci_low <= row.value <= row.ci_high


def numbers_of(document: ResultDocument) -> dict[str, float]:
    """Numbers by phase.metric.statistic, without those that appear twice: the attempt is rejected for it, and neither value can be trusted."""
    rows = Counter((row.phase, row.metric, row.statistic) for row in document.metrics)
    return {
        f"{row.phase}.{row.metric}.{row.statistic}": row.value
        for row in document.metrics
        if row.value is not None and rows[row.phase, row.metric, row.statistic] == 1
    }


def _bounds(numbers: Mapping[str, float], catalogue: Mapping[str, Metric]) -> Iterator[dict[str, Any]]:
    """Range of each number; order of statistics that must not fall and of latencies that contain others."""
    for name, value in numbers.items():
        phase, metric, statistic = name.split(".")
        possible = catalogue[metric].possible(statistic)
        lowest = math.nextafter(possible.low, math.inf) if possible.above else possible.low
        yield _bound("out_of_range", name, value, f"expected {possible}", lowest, possible.high)
        above = (
            next((n for s in _ORDERED[_ORDERED.index(statistic) + 1 :] if (n := f"{phase}.{metric}.{s}") in numbers), None)
            if statistic in _ORDERED
            else None
        )
        if above is not None:
            yield _in_order("percentile_order", above, name, numbers)
        for outer in _CONTAINED_IN.get(metric, ()):
            if (longer := f"{phase}.{outer}.{statistic}") in numbers:
                yield _in_order("latency_order", longer, name, numbers)


def _in_order(code: str, higher: str, lower: str, numbers: Mapping[str, float]) -> dict[str, Any]:
    least = numbers[lower]
    return _bound(code, higher, numbers[higher], f"expected at least {lower}, which is {least:.6g}", least)


def _bound(code: str, number: str, value: float, expected: str, at_least: float, at_most: float | None = None) -> dict[str, Any]:
    return {"code": code, "number": number, "value": value, "at_least": at_least, "at_most": at_most, "expected": expected}


def _facts_row(document: ResultDocument) -> dict[str, Any]:
    environment = document.environment
    facts = environment.facts if environment else {}
    numbers = numbers_of(document)
    counted = [row.n for row in document.metrics if row.value is not None]
    return {
        "key": attempt_key(document),
        "environment_hash": environment.environment_hash if environment else None,
        # Of a hosted model only the client's machine is known.
        **{f"fact {name}": facts.get(name, facts.get(f"client.{name}")) for name in ENVIRONMENT_FACTS},
        # A simulated trial has no raw files behind it.
        "evidence_files": None if document.simulated else len(document.evidence),
        "smallest_n": min(counted, default=None),
        "impossible_points": _join_names(
            f"{point.value:.6g} at {point.at:g} of {curve.phase} {curve.metric} {curve.statistic}"
            for curve in document.curves
            for point in curve.points
            if point.value is not None and point.value not in METRICS[curve.metric].possible(curve.statistic)
        ),
        "broken_intervals": _join_names(f"{r.phase} {r.metric} {r.statistic}" for r in document.metrics if not interval_is_valid(r)),
        "missing_numbers": _join_names(name for name in required_metrics(document.trial) if name not in numbers),
        "unmeasured_criteria": _join_names(
            c.text for c in document.trial.workload.acceptance if f"{c.phase}.{c.metric}.{c.statistic}" not in numbers
        ),
        "other_places": _join_names(_other_places(document)),
        **_steps(document),
    }


def _other_places(document: ResultDocument) -> Iterator[str]:
    for pod in document.launch.pods if document.launch is not None else ():
        for fact, (declared, same) in document.trial.provider.places(pod.facts).items():
            if not same:
                yield f"{fact} {pod.facts[fact]} of {pod.node} ({document.trial.provider.name} declares {declared})"


def _join_names(names: Iterable[str]) -> str | None:
    """Names as one text; None if there are none, which is what is expected."""
    return ", ".join(names) or None


def _steps(document: ResultDocument) -> dict[str, Any]:
    workload = document.trial.workload
    if workload.serving is not None:
        return {}
    # From where on they are steady is found, so it is all of them together that were declared.
    whole = ("effective_tokens_per_second", "effective_samples_per_second")
    steps = next((r.n for r in document.metrics if r.phase == "steady" and r.statistic == "value" and r.metric in whole), None)
    return {"steps_done": steps, "steps_declared": workload.step_count}


def required_metrics(trial: Trial) -> tuple[str, ...]:
    """Numbers (phase.metric.statistic) without which a trial that may be believed has measured nothing."""
    return kind_of(trial.workload).required(trial.workload)
