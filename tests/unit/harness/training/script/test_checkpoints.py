"""Checkpoints as their files show them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from plumbline.harness.training.script.checkpoints import CheckpointWatcher

S = 10**9


def watcher(folder: Path) -> tuple[CheckpointWatcher, int]:
    """And the moment on the monotonic clock that is 0 of the tests' clock, on which files are dated."""
    now = time.monotonic_ns()
    return CheckpointWatcher(folder, now, time.time_ns()), now


def write(path: Path, size: int, at_ns: int) -> None:
    """A file as if it was written at a moment of the monotonic clock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    wall = at_ns + time.time_ns() - time.monotonic_ns()
    os.utime(path, ns=(wall, wall))
    os.utime(path.parent, ns=(wall, wall))


def test_a_checkpoint_is_complete_once_its_files_stay_as_they_are(tmp_path: Path) -> None:
    watch, t = watcher(tmp_path / "out")
    assert watch.look(t + 1 * S) is None
    write(tmp_path / "out" / "step-10" / "model.pt", 1000, t + 1 * S + S // 10)
    assert watch.look(t + 1 * S + S // 5) is None
    write(tmp_path / "out" / "step-10" / "optimizer.pt", 500, t + 1 * S + S // 2)
    assert watch.look(t + 1 * S + S * 3 // 5) is None
    seen = watch.look(t + 3 * S)
    assert seen is not None and seen.bytes == 1500
    assert abs(seen.began_ns - (t + 1.1 * S)) < S / 20
    assert abs(seen.ended_ns - (t + 1.5 * S)) < S / 20
    assert watch.look(t + 4 * S) is None, "it is reported once"


def test_one_that_is_written_over_is_another_and_what_was_there_before_is_none(tmp_path: Path) -> None:
    write(tmp_path / "ckpt.pt", 10, time.monotonic_ns())
    watch, t = watcher(tmp_path)
    assert watch.look(t + 1 * S) is None and watch.look(t + 2 * S) is None
    write(tmp_path / "ckpt.pt", 20, t + 2 * S + S // 20)
    assert watch.look(t + 2 * S + S // 10) is None
    seen = watch.look(t + 3 * S)
    assert seen is not None and seen.bytes == 20
    assert t + 2 * S <= seen.began_ns <= seen.ended_ns <= t + 2 * S + S // 10


def test_a_deleted_one_is_no_news(tmp_path: Path) -> None:
    write(tmp_path / "old" / "model.pt", 10, time.monotonic_ns())
    watch, t = watcher(tmp_path)
    (tmp_path / "old" / "model.pt").unlink()
    assert watch.look(t + 1 * S) is None and watch.look(t + 2 * S) is None


def test_at_the_end_nothing_is_waited_for(tmp_path: Path) -> None:
    watch, t = watcher(tmp_path)
    write(tmp_path / "last.pt", 7, t + S // 2)
    seen = watch.look(t + S // 2 + 1000, ended=True)
    assert seen is not None and seen.bytes == 7
