"""What a step did to each trial of a lane."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaneOutcome:
    """`done`: what a step returned for each trial of a lane; `failed`: the errors of the others, which are in the log."""

    done: list[Row]
    failed: list[Exception]

    def require_all(self) -> None:
        """Raise one of the errors, if possible one that a retry may mend: none of a document's."""
        if self.failed:
            raise min(self.failed, key=lambda error: isinstance(error, ValueError | LookupError))


def each_trial(rows: Iterable[Mapping[str, Any]], step: Callable[[Mapping[str, Any]], Row], verb: str) -> LaneOutcome:
    """Apply a step to each trial; a trial that fails stops no other."""
    outcome = LaneOutcome([], [])
    for row in rows:
        try:
            outcome.done.append(step(row))
        except Exception as error:  # noqa: BLE001 - raised by `require_all`
            _log.error("%s is not %s: %s: %s", row["trial_id"], verb, type(error).__name__, error)
            outcome.failed.append(error)
    return outcome
