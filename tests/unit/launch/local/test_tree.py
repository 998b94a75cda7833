"""Which processes belong together, and which process is still the same one."""

from __future__ import annotations

import os
import subprocess
import sys

from plumbline.launch.local import process
from plumbline.launch.local.reaper import descendants


def test_descendants_at_any_depth() -> None:
    parent_of = {2: 1, 3: 2, 4: 3, 5: 1, 6: 99}
    assert descendants({2}, parent_of) == {3, 4}
    assert descendants({1}, parent_of) == {2, 3, 4, 5}
    assert descendants({6}, parent_of) == set()


def test_a_process_is_known_by_its_start() -> None:
    start = process.process_start(os.getpid())
    assert start is not None
    assert process.is_alive(os.getpid(), start)
    assert not process.is_alive(os.getpid(), "another boot/1")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert process.process_start(ended.pid) is None, "a zombie runs no more"
    ended.wait()
