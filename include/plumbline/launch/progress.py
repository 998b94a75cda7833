"""Newest progress of each running trial, one small file each on the machine that launched it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from plumbline.declarations import installation_paths
from plumbline.harness.launcher_protocol import ProgressLine


def progress_file(trial_id: str) -> Path:
    """Where a running trial's newest progress stands."""
    return installation_paths().work / f"{trial_id}.progress"


def write_progress(line: ProgressLine) -> None:
    """Keep the line as its trial's newest. A reader sees the old line or the new one, never half of one."""
    file = progress_file(line.trial_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(f".progress.{os.getpid()}")
    draft.write_text(json.dumps(line.__dict__))
    draft.replace(file)


def read_progress(trial_id: str) -> ProgressLine | None:
    """The newest progress of a running trial; None if it does not run here."""
    try:
        return ProgressLine(**json.loads(progress_file(trial_id).read_text()))
    except FileNotFoundError:
        return None


def remove_progress(trial_id: str) -> None:
    """The trial does not run any more."""
    progress_file(trial_id).unlink(missing_ok=True)


def remove_provider_progress(provider: str) -> None:
    """No trial of the provider runs any more. Removes also what killed tasks left, of whatever campaign."""
    for file in installation_paths().work.glob(f"*.{provider.lower()}.*.progress"):
        file.unlink(missing_ok=True)
