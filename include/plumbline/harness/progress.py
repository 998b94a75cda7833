"""Progress of a running trial: one JSON object a line on standard output, for launchers, logs and progress bars."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Protocol

MARK = "plumbline-progress"
_ASK = "plumbline-delete-pod"


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


def ask_for_deletion(number: int) -> None:
    """Ask whoever launched this pod to delete it and to start another, for the `number`-th time (from 1). Said again until it happens."""
    sys.stdout.write(json.dumps({"event": _ASK, "number": number}) + "\n")
    sys.stdout.flush()


def asked_deletion(line: str) -> int | None:
    """Which deletion a line of a trial's output asks for; None for any other line."""
    if _ASK not in line:
        return None
    try:
        number = json.loads(line)["number"]
    except (ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) else None


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
