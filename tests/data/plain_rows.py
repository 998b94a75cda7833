"""Metric rows that no document could hold: without a unit, or not finite, for what analysis must not trip over."""

from __future__ import annotations

from plumbline.metrics.rows import MetricRow


def plain_row(
    phase: str,
    metric: str,
    statistic: str,
    value: float | None,
    unit: str,
    direction: str,
    n: int,
    ci_low: float | None = None,
    ci_high: float | None = None,
) -> MetricRow:
    """A row as it is, unchecked."""
    numbers = {"value": value, "n": n, "ci_low": ci_low, "ci_high": ci_high}
    return MetricRow.model_construct(phase=phase, metric=metric, statistic=statistic, unit=unit, direction=direction, **numbers)
