"""When the service was back after a fault, and what the fault cost. Pure: a log in, figures out.

The rule. A window is a request and all those scheduled within the second after it, or the nine next ones if those reach further. The service
is back at the scheduled time of the first request, scheduled at or after the end of the fault, that is good and whose window holds as
large a share of good requests as there was before the fault (all of them, if all were good before). The end of a fault is the moment of the
kill, or the last moment of an overload: what lasts is only recovered from once it is over.

No recovery: the phase ends before such a window is whole, or less than half of the requests were good before the fault, so that there was no
service to come back to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog
from plumbline.metrics import LoadPhase

WINDOW_S, WINDOW_REQUESTS = 1.0, 10
_SERVED = 0.5


@dataclass(frozen=True)
class Recovery:
    """The cost of a fault. Times are seconds from the start of the phase.

    began, ended   of the fault itself
    back           the moment from which the service was back; None: it did not come back, and `why` says so
    lost           requests that failed because of it: scheduled before the service was back, and not over before the fault began
    """

    began: float
    ended: float
    back: float | None
    lost: int
    why: str = ""

    @property
    def took_s(self) -> float | None:
        return None if self.back is None else self.back - self.ended


def find_recovery(log: RequestLog, good: NDArray[np.bool_], began: float, ended: float) -> Recovery:
    """The recovery in one phase's log; `good` bool [n of the load] by the SLO, `began` and `ended` of the fault in the phase's seconds."""
    back, why = _recovery_time(log, good, began, ended)
    over_before = log.ended < began  # NaN, a request that never ended, is not
    lost = log.due & (log.error > 0) & ~over_before & (log.scheduled < (np.inf if back is None else back))
    return Recovery(began, ended, back, int(lost.sum()), why)


def _recovery_time(log: RequestLog, good: NDArray[np.bool_], began: float, ended: float) -> tuple[float | None, str]:
    before = log.due & (log.ended < began)
    share = float(good[before].mean()) if before.any() else 1.0
    if share < _SERVED:
        return None, f"only {share:.0%} of the requests before the fault were good: no service to recover"
    order = np.flatnonzero(log.due & (log.scheduled >= ended))
    order = order[np.argsort(log.scheduled[order], kind="stable")]
    at, fine = log.scheduled[order], good[order]
    n = len(order)
    up_to = np.concatenate([[0], np.cumsum(fine)])
    for i in np.flatnonzero(fine).tolist():
        end = max(int(np.searchsorted(at, at[i] + WINDOW_S, side="right")), i + WINDOW_REQUESTS)
        if end > n or at[i] + WINDOW_S > log.load.duration_s:
            break
        if up_to[end] - up_to[i] >= share * (end - i) - 1e-9:
            # The first request after the fault was good already: then the fault was over for the clients when it ended.
            return (float(ended) if i == 0 else float(at[i])), ""
    return None, f"no window of {WINDOW_S:g}s and {WINDOW_REQUESTS} requests after the fault was as good as before it ({share:.0%} good)"


def slice_log(log: RequestLog, name: LoadPhase, start_s: float, end_s: float) -> RequestLog:
    """The requests of a log that were scheduled in [start_s, end_s), as a log of their own whose time begins at `start_s`."""
    load = log.load
    chosen = np.flatnonzero(log.due & (log.scheduled >= start_s) & (log.scheduled < end_s))
    tokens = np.repeat(np.arange(load.n), load.output_tokens)
    scheduled = log.scheduled[chosen] - start_s
    columns = {name: getattr(log, name)[chosen] for name in ("due", "error", "received", "usage", "reasoned", "unsent", "server_s")}
    columns |= {name: getattr(log, name)[chosen] - start_s for name in ("dispatched", "ended", "content_at")}
    return replace(
        log,
        load=PhaseLoad(
            name,
            end_s - start_s,
            scheduled,
            load.input_tokens[chosen],
            load.output_tokens[chosen],
            # Who waited for whom is told by the times by now.
            np.full(len(chosen), -1, np.int32),
        ),
        scheduled=scheduled,
        **columns,
        token_at=log.token_at[np.isin(tokens, chosen)] - start_s,
        began=log.began + start_s,
        details={new: log.details[old] for new, old in enumerate(chosen.tolist()) if old in log.details},
        replica=None if log.replica is None else log.replica[chosen],
        # CPU time is known of the whole phase only.
        cpu_s=(),
    )
