"""Measured numbers by the catalogue's names: a row, a curve, and the reason why there is none.

Base and plain types of every part of a result document are here too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator

from plumbline.metrics import METRICS, STATISTICS, Direction, Metric, Phase, Unit
from plumbline.metrics.proportions import wilson_interval

Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""A number that the archive's columns hold on each database."""


def without_nul(text: str) -> str:
    return text.replace("\0", "\ufffd")


Text = Annotated[str, AfterValidator(without_nul)]
"""Words of a program's output, which may hold NUL characters. PostgreSQL stores none."""
Scalar = Text | int | float | bool | None


T = TypeVar("T")
Many = Annotated[tuple[T, ...], FailFast()]
"""Rows whose first invalid one ends the check, so that a long list does not cost as many errors."""


class Part(BaseModel):
    """Base of the document's parts: closed, frozen, no NaN or infinity anywhere."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Reason(Part):
    """Why a trial is not simply valid: a stable code for machines and a sentence for people."""

    code: str = Field(pattern=r"^[a-z][a-z0-9_]*$", examples=["step_time_unsteady"])
    detail: Text


MAX_REASON_LENGTH = 300


class MetricRow(Part):
    """One number. `value` is None when it could not be measured: absent is never zero.

    Unit and direction are the catalogue's. Of a name that it lacks, whoever holds the row checks that a workload declares it (`check_names`)."""

    phase: Phase
    metric: str
    statistic: str
    value: float | None
    unit: Unit
    n: Count = Field(description="observations behind the value")
    direction: Direction
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str | None = Field(None, max_length=MAX_REASON_LENGTH, description="why the value is absent; only where it is")
    method: str | None = Field(
        None,
        max_length=MAX_REASON_LENGTH,
        description="how it was measured, where that differs between places: streams, direct I/O, transport",
    )

    @model_validator(mode="after")
    def _in_catalogue(self) -> MetricRow:
        known = METRICS.get(self.metric)
        if self.statistic not in STATISTICS:
            raise ValueError(f'unknown statistic "{self.statistic}"; expected one of {", ".join(STATISTICS)}')
        if self.statistic != "cv" and known is not None:
            _check_unit(self, known)
        if self.reason is not None and self.value is not None:
            raise ValueError(f"{self.metric} has both the value {self.value} and a reason why it has none; expected one of them")
        return self


def _check_unit(row: MetricRow, known: Metric) -> None:
    if (row.unit, row.direction) != (known.unit, known.direction):
        raise ValueError(f"{row.metric} is in {known.unit}, {known.direction}; got {row.unit}, {row.direction}")


def check_names(rows: tuple[MetricRow, ...], catalogue: Mapping[str, Metric] = METRICS) -> tuple[MetricRow, ...]:
    """The rows; ValueError for one that the catalogue lacks, or that has another unit or direction. `catalogue`: with a workload's own metrics."""
    for row in rows:
        if row.metric not in METRICS:
            if row.metric not in catalogue:
                raise ValueError(f'unknown metric "{row.metric}"; expected one of the catalogue in plumbline.metrics')
            _check_unit(row, catalogue[row.metric])
    return rows


CatalogueRows = Annotated[Many[MetricRow], AfterValidator(lambda rows: check_names(rows))]
"""Rows of what no workload of ours declares."""


class Point(Part):
    """One value of a curve, at `at`. `value` is None when it could not be measured there."""

    at: float
    value: float | None
    n: Count = Field(description="observations behind the value")
    ci_low: float | None = None
    ci_high: float | None = None


class Curve(Part):
    """A metric over the quantity that a phase varies, at rising places."""

    phase: Phase
    along: Literal["input_tokens", "offered_rate", "step", "run_time", "rank", "message_bytes"] = Field(
        description="run_time: seconds since the first step began"
    )
    metric: str
    statistic: str
    unit: Unit
    points: Annotated[Many[Point], Field(min_length=1)]

    @model_validator(mode="after")
    def _in_catalogue(self) -> Curve:
        known = METRICS.get(self.metric)
        if known is None or known.unit != self.unit or self.statistic not in STATISTICS:
            raise ValueError(f"{self.statistic} {self.metric} in {self.unit}: not in the catalogue")
        if any(after.at <= before.at for before, after in pairwise(self.points)):
            raise ValueError(f"the points of {self.metric} along {self.along} do not rise: {[point.at for point in self.points]}")
        return self


def metric_row(
    metric: str | Metric,
    value: float | None,
    n: int,
    *,
    phase: Phase = "steady",
    statistic: str | None = None,
    ci: tuple[float, float] | None = None,
    reason: str | None = None,
    method: str | None = None,
) -> MetricRow:
    """A metric row with unit and direction from the catalogue, or of a workload's own metric; NaN and infinity become absent.

    `reason` is kept only if the value is absent; it and `method` are cut to MAX_REASON_LENGTH characters."""
    known = METRICS[metric] if isinstance(metric, str) else metric
    chosen = statistic or known.statistic
    absent = value is None or not math.isfinite(value)
    return MetricRow(
        phase=phase,
        metric=known.name,
        statistic=chosen,
        value=None if absent else value,
        unit="ratio" if chosen == "cv" else known.unit,
        n=n,
        direction="informative" if chosen == "cv" else known.direction,
        ci_low=ci[0] if ci and not absent else None,
        ci_high=ci[1] if ci and not absent else None,
        reason=_truncate(reason) if absent else None,
        method=_truncate(method),
    )


def share_row(metric: str, counted: int, n: int, *, phase: Phase = "steady") -> MetricRow:
    """A share of `n` observations with Wilson's interval; absent without any."""
    share = wilson_interval(counted, n)
    ci = None if share.low is None or share.high is None else (share.low, share.high)
    return metric_row(metric, share.ratio, n, phase=phase, ci=ci)


def metric_curve(metric: str, along: str, points: Iterable[Point], *, phase: Phase = "steady") -> Curve:
    """A curve of the metric's usual statistic, in the catalogue's unit."""
    known = METRICS[metric]
    fields = {"phase": phase, "along": along, "metric": metric, "statistic": known.statistic, "unit": known.unit, "points": tuple(points)}
    return Curve.model_validate(fields)


def _truncate(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_REASON_LENGTH else f"{text[: MAX_REASON_LENGTH - 1]}…"
