"""A component's log is bounded while the component keeps it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.embedded.supervisor import rotate_logs


@pytest.mark.fault("a component of Airflow logs for months", ends="its log moves to .log.1 at 20 MiB", keeps="the newest 20 to 40 MiB")
def test_a_log_above_the_limit_is_moved_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "scheduler.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"a" * 101)
        assert rotate_logs(tmp_path, limit=100) == ["scheduler.log"]
        writer.write(b"b")
        assert log.read_bytes() == b"b"
        assert (tmp_path / "scheduler.log.1").read_bytes() == b"a" * 101
        assert rotate_logs(tmp_path, limit=100) == []
        writer.write(b"c" * 200)
        assert rotate_logs(tmp_path, limit=100) == ["scheduler.log"]
    assert (tmp_path / "scheduler.log.1").read_bytes() == b"b" + b"c" * 200


@pytest.mark.fault("no room to move a component's log", ends="the log is emptied", keeps="the component, and room on the disk")
def test_a_log_that_cannot_be_copied_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "scheduler.log").write_bytes(b"a" * 101)
    (tmp_path / "scheduler.log.1").symlink_to("/dev/full")
    rotate_logs(tmp_path, limit=100)
    assert (tmp_path / "scheduler.log").read_bytes() == b""
    assert not (tmp_path / "scheduler.log.1").is_symlink()
