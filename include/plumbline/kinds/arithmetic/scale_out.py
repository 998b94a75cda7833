"""Numbers of a scale-out phase from its steps; `harness.inference.analysis.scale_out` finds the steps in a request log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.declarations.workloads.load import ScaleOutPhaseSpec
from plumbline.results import Curve, MetricRow, Point, Reason, metric_curve, metric_row, share_row
from plumbline.results.document import NO_SCALE_OUT


@dataclass(frozen=True)
class ScaleStep:
    """One rate of the load. `missed`, `failed`: of its `requests`, those outside the SLO, and those of them without an answer.

    `took_s`: from the step until the SLO held for the rest of it, 0 if it never broke, None if it did not hold at the end; `after_s`: when the
    last request before that was due.
    """

    rate: float
    requests: int
    missed: int
    failed: int
    took_s: float | None
    after_s: float | None = None


@dataclass(frozen=True)
class ScaleOut:
    """The rows and curves along the offered rate of a phase whose `steps` begin with the first rate."""

    steps: Sequence[ScaleStep]
    spec: ScaleOutPhaseSpec

    @property
    def metrics(self) -> list[MetricRow]:
        steps, why = self.steps[1:], self.problem
        slowest = max(map(_time, steps), key=lambda row: row.value or 0.0)
        missed, due = (sum(getattr(step, name) for step in steps) for name in ("missed", "requests"))
        return [
            slowest if why is None else metric_row("time_to_scale_out", None, 0, phase="scale_out", reason=why.detail),
            share_row("slo_miss_ratio", missed, due, phase="scale_out"),
        ]

    @property
    def curves(self) -> list[Curve]:
        rows = [
            (_time(step), _share("slo_miss_ratio", step.missed, step), _share("error_rate", step.failed, step)) for step in self.steps[1:]
        ]
        return [
            metric_curve(
                own[0].metric,
                "offered_rate",
                (
                    Point(at=step.rate, value=row.value, n=row.n, ci_low=row.ci_low, ci_high=row.ci_high)
                    for step, row in zip(self.steps[1:], own, strict=True)
                ),
                phase="scale_out",
            )
            for own in zip(*rows, strict=True)
        ]

    @property
    def problem(self) -> Reason | None:
        """Why there is no time to scale out; None if there is one."""
        first, *steps = self.steps
        if first.took_s is None:
            detail = f"the SLO did not hold at the first rate, {_format(first)}; expected one that the start capacity holds"
            return Reason(code="no_start_capacity", detail=detail)
        late = [_format(step) for step in steps if step.took_s is None]
        detail = f"the SLO did not hold again within {self.spec.hold:g}s at {', '.join(late)}"
        return Reason(code=NO_SCALE_OUT, detail=detail) if late else None


def _format(step: ScaleStep) -> str:
    return f"{step.rate:g}/s ({step.missed} of {step.requests} requests missed it)"


def _time(step: ScaleStep) -> MetricRow:
    bounds = None if step.took_s is None or step.after_s is None else (step.after_s, step.took_s)
    never = "the SLO did not break" if step.took_s == 0 else None
    return metric_row("time_to_scale_out", step.took_s, step.requests, phase="scale_out", ci=bounds, method=never)


def _share(metric: str, counted: int, step: ScaleStep) -> MetricRow:
    return share_row(metric, counted, step.requests, phase="scale_out")
