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
