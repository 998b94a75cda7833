"""The load client in several processes: one schedule, one beginning, one log, and nothing is lost when one of them dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.fakes.golden_triton import Golden
from tests.fakes.quick_python import search_path
from tests.integration.test_inference_golden import drive, load_of

from plumbline.loadclient.transport import Settings

TWO = Settings(processes=2)


def crew(parent: int | None = None) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(parent).children():
        with suppress(psutil.NoSuchProcess):  # one that has ended, of this test or of an earlier one
            if "plumbline.loadclient.worker" in child.cmdline():
                found.append(child)
    return found


def test_two_processes_send_one_schedule() -> None:
    load = load_of(200, rate=200, tokens=2)
    with Golden(first_s=0.002, faults={5: "abort", 6: "error"}) as golden:
        log = drive(golden, load, settings=TWO)
    assert sorted(golden.records) == list(range(200))
    assert log.finished == 198
    assert log.errors() == {"server_error": 2}
    assert set(log.details) == {5, 6} and log.details[5].startswith("INTERNAL")
    assert len(log.cpu_s) == 2
    assert min(log.cpu_s) > 0
    for i, record in golden.records.items():
        assert log.scheduled[i] <= log.dispatched[i] <= record.received - log.began
    assert not crew()


@pytest.mark.full
def test_a_closed_loop_keeps_each_user_in_one_process() -> None:
    n, users = 40, 4
    after = np.arange(n, dtype=np.int32) - users
    after[:users] = -1
    load = load_of(n, rate=50, tokens=1, arrivals_s=np.zeros(n), after=after, duration_s=10.0, closed=True)
    with Golden(first_s=0.01) as golden:
        log = drive(golden, load, settings=TWO)
    assert log.finished == n
    assert np.array_equal(log.scheduled[users:], log.ended[:-users])


def test_a_process_that_dies_takes_only_its_own_requests_along() -> None:
    load = load_of(300, rate=100, tokens=1)
    killed: list[int] = []

    def kill_one(ended: int, due: int) -> None:
        if not killed:
            victim = crew()[0]
            killed.append(victim.pid)
            victim.kill()

    with Golden(first_s=0.001) as golden:
        log = drive(golden, load, settings=TWO, tick=kill_one)
    assert killed
    failed = np.flatnonzero(log.error)
    assert set(log.errors()) <= {"not_sent", "cancelled"}
    assert 0 < log.errors()["not_sent"] <= 150
    assert set(failed % 2) == {failed[0] % 2}, "the requests were dealt out in turn"
    assert log.finished == 300 - len(failed)
    assert str(killed[0]) in log.details[int(failed[-1])] and "signal 9" in log.details[int(failed[-1])]


@pytest.mark.full
def test_stopping_and_a_dead_server_reach_every_process() -> None:
    load = load_of(1000, rate=100, tokens=1)
    with Golden() as golden:
        log = drive(golden, load, settings=TWO, stop=lambda log: int(np.isfinite(log.ended).sum()) >= 20)
    assert 20 <= log.n == log.finished < 500
    with Golden(die_after=20) as golden:
        log = drive(golden, load, settings=TWO)
    assert log.n == 1000
    assert log.finished <= 20
    assert log.errors()["not_sent"] > 500


PARENT = """
import sys
from tests.integration.test_inference_golden import drive, load_of
from tests.integration.test_inference_multi_process import TWO
from tests.fakes.golden_triton import Golden
with Golden() as golden:
    drive(golden, load_of(12000, rate=200), settings=TWO, tick=lambda ended, due: print(ended, flush=True))
"""


def test_the_processes_end_with_a_parent_that_is_killed() -> None:
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=root, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": search_path(root)}
    ) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()  # under load
        workers = crew(parent.pid)
        parent.kill()
    assert len(workers) == 2
    assert psutil.wait_procs(workers, timeout=30)[1] == []


@pytest.mark.full
def test_an_interrupt_ends_every_process() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with Golden() as golden, ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGINT, before)

        def interrupt() -> None:
            if golden_has_answered.wait(60):
                os.kill(os.getpid(), signal.SIGINT)

        golden_has_answered = threading.Event()
        timer = threading.Thread(target=interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            drive(golden, load_of(4000, rate=200), settings=TWO, tick=lambda ended, due: golden_has_answered.set() if ended else None)
        timer.join()
    assert not crew()
    assert 0 < len(golden.records) < 4000


@pytest.mark.full
def test_a_server_that_is_not_there() -> None:
    with Golden() as golden:
        pass
    log = drive(golden, load_of(4, 10), running=lambda: True, timeout_s=0.5, settings=TWO)
    assert log.errors() == {"not_sent": 4}
    assert all(golden.address in detail for detail in log.details.values())
