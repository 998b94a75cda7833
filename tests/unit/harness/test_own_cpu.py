"""Real processes burn CPU time in every way in which a child can leave its parent's books."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from plumbline.harness.contention_monitor import ProcessTreeCpu

pytestmark = pytest.mark.integration  # real processes and the real clock

BURN = "import sys, time\nwhile time.process_time() < {seconds}: pass\n"


def burn(seconds: float) -> list[str]:
    return [sys.executable, "-c", BURN.format(seconds=seconds)]


def psutil_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def test_a_child_that_lived_and_died_between_two_looks_is_counted():
    tree = ProcessTreeCpu()
    before = tree.seconds()
    subprocess.run(burn(0.4), check=True)
    assert tree.seconds() - before >= 0.38


def test_a_living_child_is_counted_and_its_end_is_no_step():
    tree = ProcessTreeCpu()
    before = tree.seconds()
    child = subprocess.Popen(burn(0.4))
    seen = [tree.seconds()]
    while child.poll() is None:
        time.sleep(0.02)
        seen.append(tree.seconds())
    seen.append(tree.seconds())
    assert seen == sorted(seen)
    assert 0.38 <= seen[-1] - before <= 0.4 + 0.5 + time.process_time()


def test_an_orphan_stays_in_the_tree():
    script = (
        f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {BURN.format(seconds=60)!r}]).pid, flush=True); input()"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    orphan = psutil.Process(int(parent.stdout.readline()))
    try:
        tree = ProcessTreeCpu()
        tree.seconds()  # sees both while they are related
        parent.kill()
        parent.wait()
        before, own_before = tree.seconds(), time.process_time()
        used = psutil_seconds(orphan)
        while psutil_seconds(orphan) < used + 0.2:  # however long that takes it on a busy machine
            time.sleep(0.02)
        with_orphan, own = tree.seconds(), time.process_time() - own_before
        assert with_orphan - before - own > 0.05
    finally:
        orphan.kill()
    # Nobody of the tree waits for it, so its time is in nobody's books; the sum must not fall, nor lose what comes after.
    psutil.wait_procs([orphan], timeout=10)
    without_orphan = tree.seconds()
    assert without_orphan >= with_orphan
    subprocess.run(burn(0.3), check=True)
    assert tree.seconds() >= without_orphan + 0.28


def test_a_strangers_time_is_not_counted():
    script = "import sys; print('up', flush=True); sys.stdin.read()"
    quiet = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert quiet.stdout is not None
        quiet.stdout.readline()
        tree = ProcessTreeCpu(quiet.pid)
        before = tree.seconds()
        subprocess.run(burn(0.3), check=True)
        assert tree.seconds() - before < 0.1
    finally:
        quiet.communicate(b"")


def test_a_process_that_is_not_there_is_an_error():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(ProcessLookupError, match=str(gone.pid)):
        ProcessTreeCpu(gone.pid)
