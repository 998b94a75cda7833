"""Consecutive failures of requests to a cluster: when they end a launch, and when to try again. No clock, no network."""

from __future__ import annotations

import random

from plumbline.launch.cluster.api import RequestFailed
from plumbline.launch.cluster.observe.observation import StopCause

_FIRST_S, _LONGEST_S, _LONGEST_RETRY_AFTER_S = 1.0, 30.0, 300.0


class Outage:
    """Consecutive failures. Times are seconds since the epoch."""

    def __init__(self, unreachable_timeout_s: float, jitter: random.Random | None = None) -> None:
        self._limit_s = unreachable_timeout_s
        self._jitter = jitter or random.Random()
        self._since: float | None = None
        self._failures = 0

    def failed(self, problem: RequestFailed, now: float) -> StopCause | None:
        """One more failure; a StopCause once they have lasted for unreachable_timeout."""
        self._failures += 1
        self._since = now if self._since is None else self._since
        if now < self._since + self._limit_s:
            return None
        duration = f"the cluster's API was unreachable for {now - self._since:.0f} s (unreachable_timeout: {self._limit_s:.0f} s)"
        return StopCause("unreachable", f"{duration}, last: {problem}", problem.status)

    def is_new(self) -> bool:
        """Whether the newest failure is the first one."""
        return self._failures == 1

    def answered(self, now: float) -> float | None:
        """A good answer: the seconds of the outage that it ends; None without one."""
        since, self._since, self._failures = self._since, None, 0
        return None if since is None else now - since

    def wait_s(self, problem: RequestFailed) -> float:
        """Seconds until the next try: exponential with jitter, and at least what the API asked for."""
        backoff = min(_LONGEST_S, _FIRST_S * 2.0 ** min(self._failures - 1, 10)) * self._jitter.uniform(0.5, 1.0)
        return max(backoff, min(problem.retry_after_s, _LONGEST_RETRY_AFTER_S))
