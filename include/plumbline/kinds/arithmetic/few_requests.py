"""Criteria that a trial has too few requests to answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plumbline.declarations import AnyCriterion
from plumbline.declarations.workloads.workload import insufficient_observations
from plumbline.results import MetricRow, Reason


def unanswered(criteria: Iterable[AnyCriterion], metrics: Sequence[MetricRow]) -> Reason | None:
    """Criteria that the trial was too small to answer, and the needed size. `metrics`: the whole trial's."""
    absent = [
        (c, m.n)
        for c in criteria
        for m in metrics
        if (m.metric, m.statistic, m.phase) == (c.metric, c.statistic, c.phase) and m.value is None
    ]
    missing = [f'"{criterion.text}": {reason}' for criterion, n in absent if (reason := insufficient_observations(criterion, n))]
    return Reason(code="too_few_requests", detail="; ".join(missing)) if missing else None
