"""The request log: what the client observed of each request of a phase, in columns that several processes can share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from plumbline.loadclient.phase_load import PhaseLoad

ErrorClass = Literal["timeout", "cancelled", "server_error", "unreachable", "wrong_output", "not_sent", "rate_limited", "invalid_response"]
ERROR_CLASSES: tuple[str, ...] = get_args(ErrorClass)
STAGES = ("tokenization", "queue", "prefill", "decode", "post_processing")
"""Stages that a server reports, in their order."""
RETRIEVAL = ("embedding", "search", "reranking")
"""Stages before the model in a retrieval pipeline."""
PIPELINE = ("tokenization", *RETRIEVAL, "queue", "prefill", "decode", "post_processing", "orchestration")
"""Stages of a retrieval pipeline; orchestration is the rest of its time."""
USAGE = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
"""Token counts that a hosted model reports and bills for a request; thoughts are completion tokens too."""
PROMPT, CACHED, COMPLETION, REASONING = range(len(USAGE))
WAITED = "sent again after a wait: "
"""Begins the detail of a request that the server refused at first."""
FASTEST_S = 20e-6
"""A token that follows in less time was held back and came with others."""
Values = NDArray[np.float64]
Zeros = Callable[[tuple[int, ...], DTypeLike], NDArray[Any]]
"""Makes an array of zeros: numpy's own, or one in shared memory."""


@dataclass(frozen=True)
class Remark:
    """What most good answers do not have. `reasoned`: thoughts came before its content, or were counted; `content_at`: its first content token,
    in monotonic seconds, None: none came. `unsent`: tokens that were counted and did not come. `note`: what is unusual in words, or empty."""

    reasoned: bool
    content_at: float | None
    unsent: int
    note: str


@dataclass
class RequestLog:
    """One phase of n requests. Times are float64 seconds from `began`, the phase's start in monotonic seconds; NaN: did not happen.

    scheduled, dispatched, ended  [n]; `scheduled` of a request that follows another one is known only once that has ended
    due       bool [n]: False for a request of a closed loop or a conversation whose turn did not come before the phase was over
    error     int8 [n]: 0 is none, k is ERROR_CLASSES[k - 1]; the first thing that went wrong
    received  int32 [n]: responses (tokens) that came
    token_at  [sum of output_tokens]: arrival of each; those of request i begin at first_token_of[i]
    server_s  [n, len(stages)]: the server's own account in seconds
    usage     int32 [n, len(USAGE)]: tokens of the request by the server's own count; -1: it reported none
    reasoned  bool [n]: the answer has thoughts, seen or only counted
    content_at  [n]: of those, arrival of the first token that is no thought
    unsent    int32 [n]: tokens that the server counted and did not send, such as hidden thoughts
    details   what went wrong, in words, by request number; of a request that succeeded, what is unusual: that it was sent again, or a Remark
    cpu_s     CPU seconds of the client's processes in the phase, by process
    response_bytes  that came over the client's connections, without TLS's and TCP's own
    capped    how many requests waited because as many as the client may have in flight were
    stages    what `server_s` tells of
    replica   int32 [n]: the server that each request goes to, where several share the load; None: there is one
    """

    load: PhaseLoad
    scheduled: Values
    dispatched: Values
    ended: Values
    due: NDArray[np.bool_]
    error: NDArray[np.int8]
    received: NDArray[np.int32]
    token_at: Values
    server_s: Values
    usage: NDArray[np.int32]
    reasoned: NDArray[np.bool_]
    content_at: Values
    unsent: NDArray[np.int32]
    began: float = float("nan")
    details: dict[int, str] = field(default_factory=dict)
    cpu_s: tuple[float, ...] = ()
    response_bytes: int = 0
    capped: int = 0
    stages: tuple[str, ...] = STAGES
    replica: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, load: PhaseLoad, zeros: Zeros = np.zeros, stages: tuple[str, ...] = STAGES) -> RequestLog:
        """An empty log: nothing was sent yet, and only what the schedule itself times is due."""
        n = load.n
        log = cls(
            load=load,
            scheduled=zeros((n,), np.float64),
            dispatched=zeros((n,), np.float64),
            ended=zeros((n,), np.float64),
            due=zeros((n,), np.bool_),
            error=zeros((n,), np.int8),
            received=zeros((n,), np.int32),
            token_at=zeros((int(load.output_tokens.sum()),), np.float64),
            server_s=zeros((n, len(stages)), np.float64),
            usage=zeros((n, len(USAGE)), np.int32),
            reasoned=zeros((n,), np.bool_),
            content_at=zeros((n,), np.float64),
            unsent=zeros((n,), np.int32),
            stages=stages,
        )
        log.usage.fill(-1)
        for times in (log.scheduled, log.dispatched, log.ended, log.token_at, log.server_s, log.content_at):
            times.fill(np.nan)
        log.due[:] = load.after < 0
        log.scheduled[log.due] = load.arrivals_s[log.due]
        return log

    def fail(self, i: int, error: ErrorClass, detail: str) -> None:
        if not self.error[i]:
            self.error[i] = ERROR_CLASSES.index(error) + 1
            self.details[i] = detail

    def error_of(self, i: int) -> str:
        """The class of what went wrong with request i; empty if nothing did."""
        return ERROR_CLASSES[self.error[i] - 1] if self.error[i] else ""

    @cached_property
    def first_token_of(self) -> NDArray[np.int64]:
        """int64 [n + 1]: where each request's tokens begin in `token_at`."""
        return np.concatenate([[0], np.cumsum(self.load.output_tokens, dtype=np.int64)])

    def tokens(self, i: int) -> Values:
        """Arrivals of request i's tokens, [received]."""
        start = self.first_token_of[i]
        return self.token_at[start : start + min(self.received[i], self.load.output_tokens[i])]

    @property
    def n(self) -> int:
        return int(self.due.sum())

    @property
    def ok(self) -> NDArray[np.bool_]:
        """bool [n of the load]: due, and ended without an error."""
        return np.asarray(self.due & (self.error == 0))

    @property
    def finished(self) -> int:
        return int(self.ok.sum())

    @property
    def first_token(self) -> Values:
        return self._token(np.zeros(self.load.n, np.int64))

    @property
    def first_content(self) -> Values:
        """Arrival of the first token that is no thought, [n of the load]; NaN: none came."""
        return np.where(self.reasoned, self.content_at, self.first_token)

    @property
    def read_tokens(self) -> NDArray[np.int32]:
        """int32 [n of the load]: tokens of each prompt by the server's own count; without one as they were sent."""
        counted = self.usage[:, PROMPT]
        return np.asarray(np.where(counted > 0, counted, self.load.input_tokens), np.int32)

    @property
    def written(self) -> NDArray[np.int32]:
        """int32 [n of the load]: tokens of each answer, those that were only counted included, at most those that were asked for."""
        return np.asarray(np.minimum(self.received + self.unsent, self.load.output_tokens))

    @property
    def delivered_tokens(self) -> int:
        """Output tokens of the finished requests: what failed requests brought was of no use."""
        return int(self.written[self.ok].sum())

    @property
    def last_token(self) -> Values:
        return self._token(np.minimum(self.received, self.load.output_tokens) - 1)

    def _token(self, which: NDArray[Any]) -> Values:
        times = np.full(self.load.n, np.nan)
        some = self.received > 0
        times[some] = self.token_at[(self.first_token_of[:-1] + which)[some]]
        return times

    @property
    def elapsed_s(self) -> float:
        """From the start of the phase to its declared end, or to the end of its last request if that was later; a closed loop that
        worked off all its requests ends with the last one."""
        last = float(np.nanmax(self.ended)) if np.isfinite(self.ended).any() else 0.0
        return last if self.load.closed and self.due.all() and last > 0 else max(self.load.duration_s, last)

    def errors(self) -> dict[str, int]:
        return {c: n for k, c in enumerate(ERROR_CLASSES, start=1) if (n := int(((self.error == k) & self.due).sum()))}

    def first_of(self, error: ErrorClass) -> str:
        """The detail of the first failure of a class; empty without one."""
        failed = np.flatnonzero(self.due & (self.error == ERROR_CLASSES.index(error) + 1))
        return self.details.get(int(failed[0]), "") if len(failed) else ""

    def first_error(self) -> str:
        failed = np.flatnonzero(self.due & (self.error > 0))
        return f"{self.error_of(int(failed[0]))}: {self.details.get(int(failed[0]), '')}" if len(failed) else ""

    def latencies(self, start: Literal["scheduled", "dispatched"], end: Literal["first_token", "first_content", "last_token"]) -> Values:
        """Seconds from `start` to `end` of all that were due, [n]; infinite for a request that failed or has no such token: it was slower than
        any limit."""
        took = getattr(self, end) - getattr(self, start)
        return np.asarray(np.where(self.ok & ~np.isnan(took), took, np.inf)[self.due])

    @property
    def time_per_output_token(self) -> Values:
        """From first to last token over the tokens after the first, of each request, [n of the load].

        NaN without a pace: below two tokens, where all came at once (FASTEST_S), and where most were only counted."""
        gaps = np.minimum(self.received, self.load.output_tokens) - 1
        mean = (self.last_token - self.first_token) / np.maximum(gaps, 1)
        return np.where((gaps > 0) & (mean >= FASTEST_S) & (self.unsent <= self.received), mean, np.nan)

    def gaps(self) -> Values:
        """All inter-token latencies of the finished requests with a pace, [gaps]."""
        owner = np.repeat(np.arange(self.load.n), self.load.output_tokens)
        arrived = self.arrived & (self.ok & ~np.isnan(self.time_per_output_token))[owner]
        # A pair of neighbours is a gap if both arrived and belong to the same request.
        pairs = arrived[1:] & arrived[:-1] & (owner[1:] == owner[:-1])
        return np.asarray(np.diff(self.token_at)[pairs])

    @property
    def arrived(self) -> NDArray[np.bool_]:
        """bool [sum of output_tokens]: which entries of `token_at` hold an arrival."""
        place = np.arange(len(self.token_at)) - np.repeat(self.first_token_of[:-1], self.load.output_tokens)
        return place < np.repeat(self.received, self.load.output_tokens)

    def dispatch_delays(self) -> Values:
        """How late each request that was due was sent, [n]; infinite for one that never was."""
        delays = (self.dispatched - self.scheduled)[self.due]
        return np.asarray(np.where(np.isnan(delays), np.inf, delays))


def scalar_view(column: NDArray[Any]) -> Any:
    """A column to read and write one plain number at a time."""
    return memoryview(column)  # type: ignore[arg-type]  # arrays are buffers


class Recorder:
    """One phase's log as its connections and its engine write it; moments are monotonic seconds. `log.began` must be set by then."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self.began = log.began
        self._first, self._tokens = scalar_view(log.first_token_of), scalar_view(log.load.output_tokens)
        self.scheduled, self._dispatched, self._ended = (scalar_view(column) for column in (log.scheduled, log.dispatched, log.ended))
        self._received, self._token_at = scalar_view(log.received), scalar_view(log.token_at)

    def token(self, number: int, at: float) -> None:
        position = self._received[number]
        self._received[number] = position + 1
        if position < self._tokens[number]:
            self._token_at[self._first[number] + position] = at - self.began

    def server_times(self, number: int, seconds: tuple[float, ...]) -> None:
        self._log.server_s[number] = seconds

    def usage(self, number: int, counts: tuple[int, ...]) -> None:
        self._log.usage[number] = counts

    def remark(self, number: int, remark: Remark) -> None:
        self._log.reasoned[number], self._log.unsent[number] = remark.reasoned, remark.unsent
        if remark.content_at is not None:
            self._log.content_at[number] = remark.content_at - self.began
        if remark.note:
            self._log.details[number] = "; ".join(filter(None, (self._log.details.get(number), remark.note)))

    def fail(self, number: int, error: ErrorClass, detail: str) -> None:
        self._log.fail(number, error, detail)

    def note_dispatched(self, number: int, at: float) -> None:
        self._dispatched[number] = at - self.began

    def note_ended(self, number: int, at: float) -> float:
        """Returns the moment in seconds of the phase."""
        self._ended[number] = moment = at - self.began
        return moment

    def note_due(self, number: int, scheduled_s: float) -> None:
        """A request that follows another one is due at a moment that is known only now."""
        self.scheduled[number] = scheduled_s
        self._log.due[number] = True

    def note_capped(self) -> None:
        self._log.capped += 1

    def not_due(self, number: int) -> None:
        self._log.due[number] = False
