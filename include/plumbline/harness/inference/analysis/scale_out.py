"""How long the SLO was broken after each step up of the load, and what missed it meanwhile, from the request log alone.

The rule. A window is `ScaleOutPhaseSpec.window` requests that were scheduled one after the other within a step; it holds if at most one of them
missed the SLO. The service is back at the scheduled time of the first good request after the last window that does not hold: from there on the
SLO holds until the end of the step. Without such a window it never broke, which takes 0 s. If the last window does not hold, or what followed it is no
more than luck of a service that goes on missing (`analysis.recovery`), the service was not back within the step. The resolution is the gap between two arrivals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from plumbline.declarations.workloads.load import ScaleOutPhaseSpec
from plumbline.harness.inference.analysis.recovery import is_shown
from plumbline.kinds.arithmetic.scale_out import ScaleStep
from plumbline.loadclient.request_log import RequestLog


def find_steps(log: RequestLog, good: NDArray[np.bool_], spec: ScaleOutPhaseSpec) -> list[ScaleStep]:
    """A step for each of the rates, the first included; `good` bool [n of the load] by the SLO."""
    return [_step(log, good, spec.window, rate, i * spec.hold, (i + 1) * spec.hold) for i, rate in enumerate(spec.rates)]


def _step(log: RequestLog, good: NDArray[np.bool_], window: int, rate: float, begin: float, end: float) -> ScaleStep:
    chosen = np.flatnonzero(log.due & (log.scheduled >= begin) & (log.scheduled < end))
    chosen = chosen[np.argsort(log.scheduled[chosen], kind="stable")]
    at, missed = log.scheduled[chosen] - begin, ~good[chosen]
    counts = len(chosen), int(missed.sum()), int((log.error[chosen] > 0).sum())
    if len(chosen) < window:
        return ScaleStep(rate, *counts, None)
    up_to = np.concatenate([[0], np.cumsum(missed)])
    broken = np.flatnonzero(up_to[window:] - up_to[:-window] > 1)
    if not len(broken):
        return ScaleStep(rate, *counts, 0.0)
    if broken[-1] == len(chosen) - window:
        return ScaleStep(rate, *counts, None)
    back = broken[-1] + int(np.argmin(missed[broken[-1] :]))
    if not is_shown(int(up_to[back]), int(back), int(up_to[-1] - up_to[back]), len(chosen) - int(back), len(chosen) // window):
        return ScaleStep(rate, *counts, None)
    return ScaleStep(rate, *counts, float(at[back]), float(at[back - 1]))
