from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest
from tests.fakes.processes import lives

from plumbline.harness import parent_guard

PARENT = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", {parent_guard.__file__!r}, str(os.getpid()), "/bin/sleep", "60"])
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.fault("the harness is killed while its server runs", ends="the server ends too", keeps="no process is left")
def test_the_program_dies_with_its_parent_even_when_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while lives(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not lives(child)


def test_the_program_replaces_the_guard_and_keeps_its_arguments() -> None:
    command = [sys.executable, "-I", "-S", parent_guard.__file__, str(os.getpid()), "/bin/echo", "a b", "--c"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "a b --c\n"


def test_a_parent_that_is_gone_already() -> None:
    command = [sys.executable, "-I", "-S", parent_guard.__file__, "1", "/bin/echo", "never"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert "parent 1 " in result.stderr
