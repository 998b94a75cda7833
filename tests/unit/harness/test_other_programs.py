"""Which programs computed beside a trial, by name."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.other_programs import ProcessCpu, busiest_programs

PROC = Path("/proc")
START = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=2).pid)"


@contextmanager
def neighbour(*command: str) -> Iterator[int]:
    """A process that is no descendant of this one."""
    started = subprocess.run([sys.executable, "-c", START, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    pid = int(started.stdout)
    try:
        yield pid
    finally:
        subprocess.run(["kill", "-9", str(pid)], check=False)


@pytest.mark.integration
def test_a_neighbour_is_named_by_its_script_without_its_arguments_and_own_children_are_not(tmp_path: Path) -> None:
    script = tmp_path / "burn_a_core.py"
    script.write_text("while True: pass")
    with neighbour(sys.executable, str(script), "--password", "hidden"), ContentionMonitor([0, 1]) as monitor:
        own = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            with monitor.phase("warmup"):
                time.sleep(0.2)
            assert monitor.other_programs() == [], "only judged phases"
            with monitor.phase("sweep"):
                time.sleep(1.5)
        finally:
            own.kill()
            own.wait()
    named = {program.name: program.cores for program in monitor.other_programs()}
    assert named["burn_a_core.py"] > 0.05
    assert "hidden" not in str(named)


def test_time_is_a_programs_own_between_the_snapshots(tmp_path: Path) -> None:
    for pid, words in (
        (1, "init"),
        (10, "make\0all"),
        (30, "/a b/bin/python3\0-m\0pytest.main\0-x"),
        (40, "airflow scheduler\0\0"),
        (50, "[worker: 1"),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text(words)
    before = {1: ProcessCpu(0, 1, 9.0, 1.0), 10: ProcessCpu(1, 5, 1.0, 1.0), 30: ProcessCpu(1, 7, 50.0, 50.0)}
    # The first process waited for an orphan that had computed for an hour. 30 is another process by now.
    after = {
        1: ProcessCpu(0, 1, 3609.0, 1.0),
        10: ProcessCpu(1, 5, 8.0, 4.0),
        30: ProcessCpu(1, 9, 2.0, 2.0),
        40: ProcessCpu(1, 1, 9.0, 9.0),
        50: ProcessCpu(1, 1, 1.0, 1.0),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
        found = busiest_programs(before, after, 10.0, [0], tmp_path)
        assert [(p.name, p.cores) for p in found] == [("make", 0.3), ("pytest", 0.2), ("worker", 0.1)]
        patch.setattr("os.sched_getaffinity", lambda pid: {1})
        assert busiest_programs(before, after, 10.0, [0], tmp_path) == [], "they cannot run on the trial's core"
