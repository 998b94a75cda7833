from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from plumbline.harness.child_process import ChildProcess
from plumbline.harness.process_tree import ProcessId

SLEEPER = "import time; time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); {SLEEPER}"
POLITE = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print(1, flush=True); time.sleep(60)"
LEAVER = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], env={{}}).pid, flush=True)"
PARENT = f"{LEAVER}; {SLEEPER}"
STARTER = f"""
import os, subprocess, sys
from plumbline.harness.child_process import ChildProcess
child = ChildProcess([sys.executable, "-c", {SLEEPER!r}], os.environ, output=subprocess.DEVNULL, own_group=True, guarded=True)
print(child.pid, flush=True)
{SLEEPER}
"""


def start(program: str, **options: bool) -> ChildProcess:
    return ChildProcess([sys.executable, "-c", program], os.environ, output=subprocess.PIPE, **options)


def printed(process: ChildProcess) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


@pytest.mark.parametrize("options", [{}, {"own_group": True}, {"own_group": True, "guarded": True}])
def test_it_and_what_it_started_are_gone_after_the_block(options: dict[str, bool]) -> None:
    with start(PARENT, **options) as process:
        child = ProcessId.of(printed(process))
        assert child is not None and child.alive
    assert not child.alive and process.returncode == -signal.SIGKILL
    assert process.stdin is not None and process.stdin.closed


@pytest.mark.parametrize(
    ("program", "grace_s", "code"), [(POLITE, 60.0, 7), (STUBBORN, 0.3, -signal.SIGKILL), (POLITE, 0.0, -signal.SIGKILL)]
)
def test_it_may_end_itself_within_its_grace(program: str, grace_s: float, code: int) -> None:
    process = start(program)
    assert printed(process) == 1
    process.stop(grace_s)
    assert process.returncode == code
    process.stop(grace_s)


def test_the_group_of_one_that_ended_ends_too() -> None:
    with start(LEAVER, own_group=True) as process:
        child = ProcessId.of(printed(process))
        assert process.wait(60) == 0
        assert child is not None and child.alive
    while child.alive:
        os.sched_yield()


def test_a_guarded_one_dies_with_its_starter() -> None:
    with start(STARTER) as starter:
        child = ProcessId.of(printed(starter))
        assert child is not None and child.alive
        starter.send_signal(signal.SIGKILL)
        starter.wait()
        while child.alive:
            os.sched_yield()


def test_output_goes_to_a_new_file_and_cores_are_kept(tmp_path: Path) -> None:
    cpus, file = os.sched_getaffinity(0), tmp_path / "out"
    file.write_text("of an earlier run")
    program = "import os, sys; sys.stderr.write(str(os.sched_getaffinity(0)))"
    with ChildProcess([sys.executable, "-c", program], os.environ, output=file, cpus={min(cpus)}) as process:
        assert process.wait(60) == 0
    assert file.read_text() == f"{{{min(cpus)}}}"
    assert os.sched_getaffinity(0) == cpus
