"""What the client saw of every request of a phase, in order of arrival. Nothing that was scheduled is ever missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from plumbline.harness.inference.arrivals import PhaseLoad

ErrorClass = Literal["timeout", "cancelled", "server_error", "unreachable", "wrong_output", "not_sent"]
ERROR_CLASSES: tuple[str, ...] = get_args(ErrorClass)
Values = NDArray[np.float64]


@dataclass
class Request:
    """One request. Times are seconds from the start of its phase; NaN for what did not happen.

    `tokens` is the arrival of each token. `queued_s`, `prefill_s`, `decode_s` are the server's own account of it.
    """

    scheduled: float
    input_tokens: int
    output_tokens: int
    dispatched: float = float("nan")
    ended: float = float("nan")
    tokens: list[float] = field(default_factory=list)
    queued_s: float = float("nan")
    prefill_s: float = float("nan")
    decode_s: float = float("nan")
    error: ErrorClass | None = None
    detail: str = ""

    def fail(self, error: ErrorClass, detail: str) -> None:
        """Note the first thing that went wrong."""
        if self.error is None:
            self.error, self.detail = error, detail

    @property
    def ok(self) -> bool:
        """Whether all its tokens arrived."""
        return self.error is None

    @property
    def first_token(self) -> float:
        return self.tokens[0] if self.tokens else float("nan")

    @property
    def last_token(self) -> float:
        return self.tokens[-1] if self.tokens else float("nan")

    @property
    def mean_gap(self) -> float:
        """Mean inter-token latency; NaN below two tokens."""
        return (self.tokens[-1] - self.tokens[0]) / (len(self.tokens) - 1) if len(self.tokens) > 1 else float("nan")


@dataclass
class RequestLog:
    """One phase. `began` is its start in monotonic seconds."""

    load: PhaseLoad
    began: float
    requests: list[Request]

    @classmethod
    def of(cls, load: PhaseLoad) -> RequestLog:
        """An empty log: every request is there and not sent yet."""
        columns = zip(load.arrivals_s.tolist(), load.input_tokens.tolist(), load.output_tokens.tolist(), strict=True)
        return cls(load, float("nan"), [Request(*row) for row in columns])

    @property
    def finished(self) -> list[Request]:
        """The requests that ended without an error."""
        return [request for request in self.requests if request.ok]

    @property
    def elapsed_s(self) -> float:
        """From the start of the phase to its declared end, or to the end of its last request if that was later."""
        return max([self.load.duration_s, *(r.ended for r in self.requests if r.ended == r.ended)])

    def errors(self) -> dict[str, int]:
        """Failed requests by class."""
        return {c: n for c in ERROR_CLASSES if (n := sum(r.error == c for r in self.requests))}

    def first_error(self) -> str:
        """The first failure in words; empty if there is none."""
        return next((f"{r.error}: {r.detail}" for r in self.requests if not r.ok), "")

    def latencies(self, start: Literal["scheduled", "dispatched"], end: Literal["first_token", "last_token"]) -> Values:
        """Seconds from `start` to `end`, float64 [requests]; infinite for a request that failed: it was slower than any limit."""
        return np.array([getattr(r, end) - getattr(r, start) if r.ok else np.inf for r in self.requests])

    def gaps(self) -> Values:
        """All inter-token latencies of the finished requests, float64 [gaps]."""
        rows = [np.diff(r.tokens) for r in self.finished]
        return np.concatenate(rows) if rows else np.empty(0)

    def dispatch_delays(self) -> Values:
        """How late each request was sent, float64 [requests]; infinite for one that never was."""
        delays = np.array([r.dispatched - r.scheduled for r in self.requests])
        return np.where(np.isnan(delays), np.inf, delays)
