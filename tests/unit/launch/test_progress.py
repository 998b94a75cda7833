"""The newest progress of a running trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.harness.launcher_protocol import ProgressLine
from plumbline.launch import progress


def test_progress_is_seen_while_a_trial_runs_and_not_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    assert progress.read_progress("t") is None
    line = ProgressLine("t", "steady", 0.5, "halfway")
    progress.write_progress(line)
    assert progress.read_progress("t") == line
    assert [file.name for file in (tmp_path / "work").iterdir()] == ["t.progress"]
    progress.remove_progress("t")
    assert progress.read_progress("t") is None
    progress.remove_progress("t")


def test_progress_of_every_campaign_of_a_provider_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    killed, running = "old.Cloud-A.training.w.0200.r1".lower(), "new.cloud-b.training.w.0200.r1"
    for trial_id in (killed, running):
        progress.write_progress(ProgressLine(trial_id, "steady", 0.5, "halfway"))
    progress.remove_provider_progress("Cloud-A")
    assert progress.read_progress(killed) is None
    assert progress.read_progress(running) is not None
