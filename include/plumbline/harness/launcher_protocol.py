"""Contract between launcher and harness process: environment variables in, JSON lines on standard output out. Standard library only."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Protocol

from pydantic_core import from_json

PROGRESS_EVENT = "plumbline-progress"
_DELETE_POD_EVENT = "plumbline-delete-pod"


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


def progress_printer(trial_id: str) -> Progress:
    def report(phase: str, fraction: float, note: str = "") -> None:
        line = {
            "event": PROGRESS_EVENT,
            "trial_id": trial_id,
            "phase": phase,
            "fraction": round(min(max(fraction, 0.0), 1.0), 4),
            "note": note,
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    return report


def request_pod_deletion(number: int) -> None:
    """Ask the launcher to delete this pod and start another, for the `number`-th time (from 1). Repeated until it happens."""
    sys.stdout.write(json.dumps({"event": _DELETE_POD_EVENT, "number": number}) + "\n")
    sys.stdout.flush()


def parse_deletion_request(line: str) -> int | None:
    """The number of the requested deletion; None for any other line."""
    if _DELETE_POD_EVENT not in line:
        return None
    try:
        number = from_json(line)["number"]
    except (ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) else None


def parse_progress(line: str) -> ProgressLine | None:
    """The progress in a line of a trial's output; None for any other line."""
    if PROGRESS_EVENT not in line:
        return None
    try:
        data = from_json(line)
        fraction = float(data["fraction"])
        if not 0.0 <= fraction <= 1.0:  # also NaN, which JSON from Python may hold
            return None
        return ProgressLine(str(data["trial_id"]), str(data["phase"]), fraction, str(data["note"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


CPU_LIMIT_VARIABLE = "PLUMBLINE_CPU_LIMIT"
VOLUME_VARIABLE = "PLUMBLINE_VOLUME"
"""Environment variable: where the provider's volume is mounted."""
DELETIONS_VARIABLE = "PLUMBLINE_DELETIONS"
"""Environment variable: the deletions of the trial's pods before this one, as JSON."""


@dataclass(frozen=True)
class Deletion:
    """One pod that the launcher deleted, by the launcher's clock (seconds since the epoch): when it asked for it, and when it saw it gone.

    `late`: another process of the launcher had to finish it, so that the time until the next pod is not the provider's alone.
    """

    asked_s: float
    gone_s: float
    late: bool = False


def format_deletions(deletions: tuple[Deletion, ...]) -> str:
    return json.dumps([asdict(deletion) for deletion in deletions])


def parse_deletions(text: str | None) -> tuple[Deletion, ...]:
    return tuple(Deletion(**row) for row in json.loads(text or "[]"))


MODELS_TOKEN_VARIABLE = "PLUMBLINE_MODELS_TOKEN"
MODELS_OPTIONS_VARIABLE = "PLUMBLINE_MODELS_OPTIONS"
"""Environment variables: the hub's token; options of fsspec's client of the checkpoints' store, as a JSON object."""


def take_models_credentials() -> tuple[str | None, dict[str, object] | None]:
    """The hub's token and the store's options, removed from the environment so that no child process inherits them."""
    token, options = os.environ.pop(MODELS_TOKEN_VARIABLE, None), os.environ.pop(MODELS_OPTIONS_VARIABLE, None)
    return token or None, json.loads(options) if options else None


SERVERS_VARIABLE = "PLUMBLINE_SERVERS"
"""The address of a trial's Deployment, such as http://pl-x:8000."""
ENDPOINT_KEY_VARIABLE = "PLUMBLINE_ENDPOINT_KEY"


def take_endpoint_key() -> str | None:
    """The key, removed from the environment so that no child process inherits it."""
    return os.environ.pop(ENDPOINT_KEY_VARIABLE, None)
