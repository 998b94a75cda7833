"""Which processes belong together, which one is still the same, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest

from plumbline.harness.process_tree import ProcessId, describe_exit, end_processes, tagged_processes

SLEEPER = "import time; time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); {SLEEPER}"
PARENT = f"import os, subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {SLEEPER!r}], env={{}}).pid, flush=True); {SLEEPER}"


def test_a_process_is_known_by_its_start() -> None:
    own = ProcessId.of(os.getpid())
    assert own is not None and own.alive
    assert not ProcessId(os.getpid(), "another boot/1").alive
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert ProcessId.of(ended.pid) is None, "a zombie runs no more"
    ended.wait()


def test_what_carries_a_mark_is_found_with_all_below_it() -> None:
    tag = {**os.environ, "PLUMBLINE_TEST_TAG": "process-tree"}
    with subprocess.Popen([sys.executable, "-c", PARENT], env=tag, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())  # it has no mark itself

        def tagged() -> list[psutil.Process]:
            return tagged_processes("PLUMBLINE_TEST_TAG", "process-tree")

        assert {process.pid for process in tagged()} == {parent.pid, child}
        assert end_processes(tagged, grace_s=30) == {parent.pid, child}
        assert parent.wait() == -signal.SIGTERM


@pytest.mark.parametrize("grace_s", [0.0, 0.3])
def test_one_that_ignores_sigterm_is_killed(grace_s: float) -> None:
    with subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        end_processes(lambda: [psutil.Process(process.pid)] if process.poll() is None else [], grace_s)
        assert process.returncode == -signal.SIGKILL


def test_one_that_cannot_be_ended_is_named() -> None:
    left = psutil.Process()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(RuntimeError, match=str(left.pid)):
        patch.setattr(psutil.Process, "send_signal", lambda *_: None)
        end_processes(lambda: [left], 0.0, kill_s=0.1)


def test_how_a_process_ended() -> None:
    assert describe_exit(-9).endswith("signal 9")
    assert describe_exit(3, "first\nlast\n").endswith("code 3: last")
