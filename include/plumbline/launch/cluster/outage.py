"""Pure: patience with an API that does not answer. An outage is an unbroken row of failures; one good answer ends it."""

from __future__ import annotations

import random

from plumbline.launch.cluster.base import Stop

_FIRST_S, _LONGEST_S, _LONGEST_RETRY_AFTER_S = 1.0, 30.0, 300.0


class NotAnswered(Exception):
    """A request failed in a way that another try may mend. `status` is the HTTP status if there was an answer; the text is for people."""

    def __init__(self, detail: str, status: int | None = None, retry_after_s: float = 0.0) -> None:
        super().__init__(detail)
        self.status, self.retry_after_s = status, retry_after_s


class Outage:
    """The failures in a row up to now. Times are seconds since the epoch."""

    def __init__(self, unreachable_timeout_s: float, jitter: random.Random | None = None) -> None:
        self._limit_s = unreachable_timeout_s
        self._jitter = jitter or random.Random()
        self._since: float | None = None
        self._failures = 0

    def failed(self, problem: NotAnswered, now: float) -> Stop | None:
        """One more failure; a Stop if they have lasted for the whole unreachable_timeout."""
        self._failures += 1
        self._since = now if self._since is None else self._since
        if now < self._since + self._limit_s:
            return None
        lasted = f"the cluster's API gave no usable answer for {now - self._since:.0f} s (unreachable_timeout: {self._limit_s:.0f} s)"
        return Stop("unreachable", f"{lasted}, last: {problem}", problem.status)

    def is_new(self) -> bool:
        """Whether the newest failure is the first in its row."""
        return self._failures == 1

    def answered(self, now: float) -> float | None:
        """A good answer: how many seconds the outage lasted that it ends; None if there was none."""
        since, self._since, self._failures = self._since, None, 0
        return None if since is None else now - since

    def wait_s(self, problem: NotAnswered) -> float:
        """How long to wait before the next try: twice as long each time and never the same for two, but what the API asked for at least."""
        backoff = min(_LONGEST_S, _FIRST_S * 2.0 ** min(self._failures - 1, 10)) * self._jitter.uniform(0.5, 1.0)
        return max(backoff, min(problem.retry_after_s, _LONGEST_RETRY_AFTER_S))
