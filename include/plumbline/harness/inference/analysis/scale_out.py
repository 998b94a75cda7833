"""How long the SLO was broken after each step up of the load, and what missed it meanwhile, from the request log alone.

The rule. A window is `ScaleOutPhaseSpec.window` requests that were scheduled one after the other within a step; it holds if at most one of them
missed the SLO. The service is back at the scheduled time of the first good request after the last window that does not hold: from there on the
SLO holds until the end of the step. Without such a window it never broke, which takes 0 s. If the last window does not hold, or what followed it is no
more than luck of a service that goes on missing (`analysis.recovery`), the service was not back within the step. The resolution is the gap between two arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.workloads.load import ScaleOutPhaseSpec
from plumbline.harness.inference.analysis.recovery import is_shown
from plumbline.harness.measurement import Judgement, degraded
from plumbline.loadclient.request_log import RequestLog
from plumbline.results import Curve, MetricRow, Point, metric_curve, metric_row, share_row


@dataclass(frozen=True)
class Step:
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


def find_steps(log: RequestLog, good: NDArray[np.bool_], spec: ScaleOutPhaseSpec) -> list[Step]:
    """A step for each of the rates, the first included; `good` bool [n of the load] by the SLO."""
    return [_step(log, good, spec.window, rate, i * spec.hold, (i + 1) * spec.hold) for i, rate in enumerate(spec.rates)]


def _step(log: RequestLog, good: NDArray[np.bool_], window: int, rate: float, begin: float, end: float) -> Step:
    chosen = np.flatnonzero(log.due & (log.scheduled >= begin) & (log.scheduled < end))
    chosen = chosen[np.argsort(log.scheduled[chosen], kind="stable")]
    at, missed = log.scheduled[chosen] - begin, ~good[chosen]
    counts = len(chosen), int(missed.sum()), int((log.error[chosen] > 0).sum())
    if len(chosen) < window:
        return Step(rate, *counts, None)
    up_to = np.concatenate([[0], np.cumsum(missed)])
    broken = np.flatnonzero(up_to[window:] - up_to[:-window] > 1)
    if not len(broken):
        return Step(rate, *counts, 0.0)
    if broken[-1] == len(chosen) - window:
        return Step(rate, *counts, None)
    back = broken[-1] + int(np.argmin(missed[broken[-1] :]))
    if not is_shown(int(up_to[back]), int(back), int(up_to[-1] - up_to[back]), len(chosen) - int(back), len(chosen) // window):
        return Step(rate, *counts, None)
    return Step(rate, *counts, float(at[back]), float(at[back - 1]))


@dataclass(frozen=True)
class ScaleOut:
    """The rows, curves along the offered rate, and judgement of a phase whose `steps` begin with the first rate."""

    steps: Sequence[Step]
    spec: ScaleOutPhaseSpec

    @property
    def metrics(self) -> list[MetricRow]:
        steps, why = self.steps[1:], self.judgement
        slowest = max(map(_time, steps), key=lambda row: row.value or 0.0)
        missed, due = (sum(getattr(step, name) for step in steps) for name in ("missed", "requests"))
        return [
            slowest if why is None else metric_row("time_to_scale_out", None, 0, phase="scale_out", reason=why.reason.detail),
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
    def judgement(self) -> Judgement | None:
        """Why there is no time to scale out; None if there is one."""
        first, *steps = self.steps
        if first.took_s is None:
            return degraded(
                "no_start_capacity", f"the SLO did not hold at the first rate, {_format(first)}; expected one that the start capacity holds"
            )
        late = [_format(step) for step in steps if step.took_s is None]
        return degraded("no_scale_out", f"the SLO did not hold again within {self.spec.hold:g}s at {', '.join(late)}") if late else None


def _format(step: Step) -> str:
    return f"{step.rate:g}/s ({step.missed} of {step.requests} requests missed it)"


def _time(step: Step) -> MetricRow:
    bounds = None if step.took_s is None or step.after_s is None else (step.after_s, step.took_s)
    never = "the SLO did not break" if step.took_s == 0 else None
    return metric_row("time_to_scale_out", step.took_s, step.requests, phase="scale_out", ci=bounds, method=never)


def _share(metric: str, counted: int, step: Step) -> MetricRow:
    return share_row(metric, counted, step.requests, phase="scale_out")
