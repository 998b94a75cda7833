"""The numbers that a script gives its steps, as one count that rises: repeated lines, several ranks, epochs that begin again."""

from __future__ import annotations

_LATE_REPORTS = 3
"""How far behind the newest report another rank's line may come."""


class StepOutOfOrder(ValueError):
    """A step that is neither a repetition nor the beginning of an epoch."""


class StepOrder:
    """Recognition and trial ask the same one. `every`: the script's steps from one report to the next; None: not known yet. `uneven`: reports
    are refreshes of a progress bar, which counts the steps that are done."""

    def __init__(self, every: int | None = None, *, uneven: bool = False) -> None:
        self._every, self._uneven = every, uneven
        self._offset = 0
        self._first: int | None = None
        self._last = 0
        self.repeated = self.epochs = 0
        """Reports that repeat a step; how often the count began again."""

    def place(self, step: int) -> int | None:
        """The step in the count of the whole run; None for one that was reported already. StepOutOfOrder."""
        if self._first is None:
            self._first = self._last = step
            return step
        if step > self._last:
            self._every = self._every or step - self._last
            self._last = step
            return self._offset + step
        every = self._every or 1
        if self._last - step <= (1 if self._uneven else _LATE_REPORTS) * every:
            self.repeated += 1
            return None
        if step > self._first + every:
            raise StepOutOfOrder(f"step {step} after step {self._last}")
        # The rest of the epoch after its last report is not known: a report that covers more steps than one begins at its end.
        self._offset += self._last if self._uneven else self._last + every - step
        self._first, self._last, self.epochs = min(self._first, step), step, self.epochs + 1
        return self._offset + step
