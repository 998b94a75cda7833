"""One probe of a search while its load runs and once it has ended: whether it may end early, and what it shows."""

from __future__ import annotations

import math

import numpy as np

from plumbline.declarations.workloads.inference import Slo
from plumbline.harness.inference.analysis.metrics import used_of_slo, within_slo
from plumbline.harness.inference.phases.growth import dependence, flow_of, wait_growth
from plumbline.harness.inference.phases.saturation import Planned, RateProbe, Saturation, cannot_hold
from plumbline.loadclient.request_log import RequestLog

_TOGETHER = 4
"""Requests that share a queue miss together: a confirming run is given up only where a quarter as many independent ones would show the same."""


def count_missed(log: RequestLog, slo: Slo, now_s: float) -> int:
    """Requests that miss the SLO by `now_s` seconds of the phase: failed, ended outside it, or unanswered past a limit."""
    ended = np.isfinite(log.ended)
    lost = ended & ~within_slo(log, slo)
    waited = now_s - log.scheduled
    if slo.time_to_first_token is not None:
        first = np.where(np.isnan(log.first_token), waited, log.first_token - log.scheduled)
        lost |= ~ended & (first > slo.time_to_first_token)
    if slo.request_scheduled_latency is not None:
        lost |= ~ended & (waited > slo.request_scheduled_latency)
    return int((lost & log.due).sum())


class RunningProbe:
    """A probe of `state`'s search. `ended_s`: the second at which it was ended early; None: it was not, or not yet. `hopeless`: because it cannot
    hold any more; otherwise because its rate was decided."""

    def __init__(self, state: Saturation, planned: Planned, slo: Slo) -> None:
        self.ended_s: float | None = None
        self.hopeless = False
        self._state, self._planned, self._slo = state, planned, slo
        self._next_s = planned.at_least_s

    def ends(self, log: RequestLog, now_s: float) -> bool:
        """Whether it may end at second `now_s` of its load, by the log as it is then; NaN: the load has not begun."""
        if self.ended_s is not None or not math.isfinite(now_s):
            return self.ended_s is not None
        if self._hopeless(log, now_s):
            self.ended_s, self.hopeless = now_s, True
        elif self._next_s <= now_s < self._planned.seconds:  # later only answers come, and all of them are waited for
            self._next_s += self._state.search.probe
            if self._state.decides(self._seen(log, now_s, None)):
                self.ended_s = now_s
        return self.ended_s is not None

    def result(self, log: RequestLog, client_limited: str | None) -> RateProbe:
        """What it showed, once its load is over. `client_limited`: why the client was the limit."""
        return self._seen(log, math.inf if self.ended_s is None else self.ended_s, client_limited)

    def _hopeless(self, log: RequestLog, now_s: float) -> bool:
        least_s = self._planned.at_least_s
        if self._planned.overload and now_s < least_s:
            return False
        part = _TOGETHER if self._planned.confirming else 1
        counted = int(np.count_nonzero(log.scheduled < max(now_s, least_s)))
        return cannot_hold(count_missed(log, self._slo, now_s) // part, counted // part, self._state.search.goodput)

    def _seen(self, log: RequestLog, until_s: float, client_limited: str | None) -> RateProbe:
        """`until_s`: what came later does not count; infinite: all that was sent."""
        planned = self._planned
        lasted_s = min(planned.seconds, until_s)
        # A server that still fills shows a better share than the one that it ends at: a confirming run counts from its middle on.
        counted = log.due & (log.scheduled < lasted_s) & (log.scheduled >= (lasted_s / 2 if planned.confirming else 0.0))
        counted &= np.isfinite(log.ended) & (log.ended <= until_s)
        in_order = np.flatnonzero(counted)[np.argsort(log.scheduled[counted], kind="stable")]
        latency = (log.last_token - log.scheduled)[counted & log.ok]
        return RateProbe(
            planned.rate,
            max(1, len(in_order)),
            int(np.count_nonzero(within_slo(log, self._slo) & counted)),
            lasted_s,
            planned.confirming,
            hopeless=self.hopeless,
            client_limited=client_limited,
            residence_s=float(np.median(latency)) if len(latency) else 0.0,
            growth=wait_growth(log, lasted_s, until_s),
            flow=flow_of(log, lasted_s),
            dependence=dependence(used_of_slo(log, self._slo)[in_order], self._state.search.goodput),
        )
