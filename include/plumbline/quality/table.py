"""Result documents as tables: one row an attempt.

`attempts` has every attempt and says whether it is what it claims to be; `measured` has those that may be believed, with a column
for each number, named phase.metric.statistic. Trials that failed have no numbers and stand in the first table only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import pandas as pd

from plumbline.declarations import InferenceWorkload, TrainingWorkload, Trial
from plumbline.quality.ranges import interval_holds, range_of
from plumbline.results import ResultDocument

Kind = Literal["training", "inference"]
BELIEVED = ("valid", "degraded")
NATURAL_KEY = ("series_key", "campaign_id", "slot", "repeat", "attempt")
ENVIRONMENT_FACTS = ("cpu.model", "cpu.usable", "memory.total_bytes", "os.kernel", "python.version")
"""Facts without which an environment explains no change; the probe of every platform gives them."""

_ATTEMPT_COLUMNS = (
    "key", "trial_id", *NATURAL_KEY, "status", "schema_version", "checksum_holds", "spec_hash", "planned_spec_hash", "criteria_hash",
    "planned_criteria_hash", "repeated_metrics", "seconds_ahead_of_clock", "seconds_before_plan",
)  # fmt: skip


def key_of(document: ResultDocument) -> str:
    """What names an attempt in verdicts: trial_id#attempt."""
    return f"{document.trial.trial_id}#{document.trial.attempt}"


def attempts(documents: Sequence[ResultDocument], planned: Sequence[Trial], now: datetime) -> pd.DataFrame:
    """One row for each document: identity, hashes against what was planned, clocks. Times are in seconds."""
    asked = {trial.trial_id: trial for trial in planned}
    return pd.DataFrame([_attempt(document, asked.get(document.trial.trial_id), now) for document in documents], columns=_ATTEMPT_COLUMNS)


def _attempt(document: ResultDocument, asked: Trial | None, now: datetime) -> dict[str, Any]:
    trial = document.trial
    moments = [event.utc for event in document.timeline]
    seen = Counter((row.phase, row.metric, row.statistic) for row in document.metrics)
    return {
        "key": key_of(document),
        "trial_id": trial.trial_id,
        **{name: getattr(trial, name) for name in NATURAL_KEY},
        "status": document.validity.status,
        "schema_version": document.schema_version,
        "checksum_holds": document.checksum == document.content_hash(),
        "spec_hash": trial.spec_hash,
        "planned_spec_hash": asked.spec_hash if asked else None,
        "criteria_hash": trial.criteria_hash,
        "planned_criteria_hash": asked.criteria_hash if asked else None,
        "repeated_metrics": _listed(" ".join(name) for name, count in seen.items() if count > 1),
        "seconds_ahead_of_clock": max(((at - now).total_seconds() for at in moments), default=None),
        "seconds_before_plan": max(((trial.planned_at - at).total_seconds() for at in moments), default=None),
    }


def measured(documents: Sequence[ResultDocument], kind: Kind) -> pd.DataFrame:
    """One row for each document of the kind that may be believed; a number that a trial does not have is absent (NaN)."""
    rows = [_measured(d) for d in documents if d.trial.workload.kind == kind and d.validity.status in BELIEVED]
    table = pd.DataFrame(rows)
    for column in (name for name in table.columns if is_metric(name)):
        table[column] = pd.to_numeric(table[column])  # a column that is absent everywhere is one of numbers all the same
    return table


def _measured(document: ResultDocument) -> dict[str, Any]:
    environment = document.environment
    facts = environment.facts if environment else {}
    # A number that stands twice has no column: the attempt is rejected for it, and neither of the two is to be believed.
    seen = Counter((row.phase, row.metric, row.statistic) for row in document.metrics)
    numbers = {
        f"{row.phase}.{row.metric}.{row.statistic}": row.value
        for row in document.metrics
        if seen[row.phase, row.metric, row.statistic] == 1
    }
    counted = [row.n for row in document.metrics if row.value is not None]
    return {
        "key": key_of(document),
        "environment_hash": environment.environment_hash if environment else None,
        # Of a hosted model only the client's machine is known.
        **{f"fact {name}": facts.get(name, facts.get(f"client.{name}")) for name in ENVIRONMENT_FACTS},
        # A simulated trial has no raw files behind it.
        "evidence_files": None if document.simulated else len(document.evidence),
        "smallest_n": min(counted, default=None),
        "impossible_points": _listed(
            f"{point.value:.6g} at {point.at:g} of {curve.phase} {curve.metric} {curve.statistic}"
            for curve in document.curves
            for point in curve.points
            if point.value is not None and point.value not in range_of(curve.metric, curve.statistic)
        ),
        "broken_intervals": _listed(f"{r.phase} {r.metric} {r.statistic}" for r in document.metrics if not interval_holds(r)),
        "missing_numbers": _listed(name for name in required(document.trial) if numbers.get(name) is None),
        "unmeasured_criteria": _listed(
            c.text for c in document.trial.workload.acceptance if numbers.get(f"{c.phase}.{c.metric}.{c.statistic}") is None
        ),
        **_steps(document),
        **numbers,
    }


def _listed(names: Iterable[str]) -> str | None:
    """Names as one text; None if there are none, which is what is expected."""
    return ", ".join(names) or None


def _steps(document: ResultDocument) -> dict[str, Any]:
    workload = document.trial.workload
    if isinstance(workload, InferenceWorkload):
        return {}
    # From where on they are steady is found, so it is all of them together that were declared.
    whole = ("effective_tokens_per_second", "effective_samples_per_second")
    steps = next((r.n for r in document.metrics if r.phase == "steady" and r.metric in whole), None)
    return {"steps_done": steps, "steps_declared": workload.steps.total}


def is_metric(column: str) -> bool:
    """Whether a column of `measured` holds a metric."""
    return column.count(".") == 2 and " " not in column


def required(trial: Trial) -> tuple[str, ...]:
    """Numbers (phase.metric.statistic) without which a trial that may be believed has measured nothing."""
    workload = trial.workload
    if isinstance(workload, TrainingWorkload):
        recovered = ("recovery.restart_penalty.value",) if workload.fault else ()
        # Images are no tokens.
        rate = "samples" if workload.task.kind == "classification" else "tokens"
        return ("steady.step_time.median", f"steady.{rate}_per_second.median", "steady.final_loss.value", *recovered)
    # A hosted model was ready before anybody looked.
    hosted = workload.server.backend == "external"
    return (
        f"cold_start.{'first_inference_latency' if hosted else 'time_to_ready'}.value",
        "steady.time_to_first_token.p50",
        "steady.request_scheduled_latency.p50",
        "steady.request_throughput.value",
        "steady.output_token_throughput.value",
        "steady.goodput.value",
        "steady.error_rate.value",
    )
