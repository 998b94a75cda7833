"""Progress of a running trial: one JSON object a line on standard output, for launchers, logs and progress bars."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Protocol

MARK = "plumbline-progress"


@dataclass(frozen=True)
class ProgressLine:
    """`fraction` is of the whole trial, 0…1; `note` is for people."""

    trial_id: str
    phase: str
    fraction: float
    note: str = ""


class Progress(Protocol):
    """How the harness's parts report: `progress("steady", 0.4, "120 of 300 steps")`."""

    def __call__(self, phase: str, fraction: float, note: str = "") -> None: ...


def printer(trial_id: str) -> Progress:
    """A Progress that prints JSON lines."""

    def report(phase: str, fraction: float, note: str = "") -> None:
        line = {"event": MARK, "trial_id": trial_id, "phase": phase, "fraction": round(min(max(fraction, 0.0), 1.0), 4), "note": note}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    return report


def parse(line: str) -> ProgressLine | None:
    """The progress in a line of a trial's output; None for any other line."""
    if MARK not in line:
        return None
    try:
        data = json.loads(line)
        fraction = float(data["fraction"])
        if not 0.0 <= fraction <= 1.0:  # also NaN, which JSON from Python may hold
            return None
        return ProgressLine(str(data["trial_id"]), str(data["phase"]), fraction, str(data["note"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
