"""Why a node failed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.results import FailureClass


@dataclass(frozen=True)
class FailureCause:
    """Why a run aborted. `certain`: the cause lies here; otherwise it may be another rank's end as seen here.

    `passing`: a restart of the run may succeed."""

    failure_class: FailureClass
    detail: str
    certain: bool
    passing: bool = False


class CauseResolver:
    """Finds the first cause: a failing rank makes the others lose it, and any of them may be seen first."""

    def __init__(self, patience_s: float = 5.0) -> None:
        self._patience_s = patience_s
        self._since_s: float | None = None

    def of(self, causes: Sequence[FailureCause]) -> FailureCause | None:
        """The cause: at once if it is certain, else after some seconds without a better one."""
        certain = next((cause for cause in causes if cause.certain), None)
        if certain is not None or not causes:
            return certain
        now = time.monotonic()
        self._since_s = self._since_s or now
        return causes[0] if now - self._since_s > self._patience_s else None
