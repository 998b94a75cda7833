"""Newest progress of each running trial, one small file each on the machine that launched it."""

from __future__ import annotations

import json
from pathlib import Path

from plumbline.declarations import installation_paths
from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.whole_file import write_whole


def progress_file(trial_id: str) -> Path:
    """The file with a running trial's newest progress."""
    return installation_paths().work / f"{trial_id}.progress"


def write_progress(line: ProgressLine) -> None:
    """Store the line as its trial's newest, atomically."""
    write_whole(progress_file(line.trial_id), json.dumps(line.__dict__))


def read_progress(trial_id: str) -> ProgressLine | None:
    """The newest progress; None if the trial does not run here."""
    try:
        return ProgressLine(**json.loads(progress_file(trial_id).read_text()))
    except FileNotFoundError:
        return None


def remove_progress(trial_id: str) -> None:
    progress_file(trial_id).unlink(missing_ok=True)


def remove_provider_progress(provider: str) -> None:
    """Remove the progress of all trials of the provider, also that of killed tasks."""
    for file in installation_paths().work.glob(f"*.{provider.lower()}.*.progress"):
        file.unlink(missing_ok=True)
