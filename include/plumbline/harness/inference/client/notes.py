"""Writes what happens to requests into the log's columns, from the hot path: through plain views, which cost a fraction of an array's."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from plumbline.harness.inference.requestlog import ErrorClass, RequestLog


def view(column: NDArray[Any]) -> Any:
    """A column to read and write one plain number at a time."""
    return memoryview(column)  # type: ignore[arg-type]  # arrays are buffers


class Notes:
    """One phase's log as its connections and its engine write it; moments are monotonic seconds. `log.began` must be set by then."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self.began = log.began
        self._first, self._tokens = view(log.first_token_of), view(log.load.output_tokens)
        self.scheduled, self._dispatched, self._ended = (view(column) for column in (log.scheduled, log.dispatched, log.ended))
        self._received, self._token_at = view(log.received), view(log.token_at)

    def token(self, number: int, at: float) -> None:
        position = self._received[number]
        self._received[number] = position + 1
        if position < self._tokens[number]:
            self._token_at[self._first[number] + position] = at - self.began

    def server_times(self, number: int, seconds: tuple[float, ...]) -> None:
        self._log.server_s[number] = seconds

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
