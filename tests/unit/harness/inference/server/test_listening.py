"""A real server that the harness did not start: found by its port, bound apart, and its CPU time counted as the trial's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from plumbline.declarations import EndpointLauncher
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.inference.server.listening import ListeningServer, bound, find_listening, own_server, split_cores
from plumbline.harness.measurement import TrialFailed

pytestmark = pytest.mark.integration

# Listens, starts a child that keeps a core busy, and says where it listens.
SERVER = """
import os, socket, subprocess, sys, threading, time
listening = socket.create_server(("127.0.0.1", 0))
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
def bound_closely():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    time.sleep(600)
if len(os.sched_getaffinity(0)) > 1:
    threading.Thread(target=bound_closely, daemon=True).start()
time.sleep(0.1)
print(listening.getsockname()[1], os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
CORES = sorted(os.sched_getaffinity(0))


@contextmanager
def serving() -> Iterator[tuple[int, int, int]]:
    """Port, pid, and the pid of its busy child. The program that starts it ends: it is no descendant of this process, whose CPU time would hold
    the server's anyway."""
    start = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
    starter = subprocess.Popen([sys.executable, "-c", start, SERVER], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    port, pid, child = map(int, starter.stdout.readline().split())
    starter.wait()
    family = [psutil.Process(each) for each in (child, pid)]
    try:
        yield port, pid, child
    finally:
        for process in family:
            process.kill()
        psutil.wait_procs(family, timeout=30)
        starter.stdout.close()


def launcher(port: int, server_process: str | None = "same_machine") -> EndpointLauncher:
    declared = {
        "kind": "endpoint",
        "url": f"http://127.0.0.1:{port}/v1",
        "protocol": "openai",
        "model": "m",
        "server_process": server_process,
    }
    return EndpointLauncher.model_validate(declared)


def cpu_s(*pids: int) -> float:
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


@pytest.mark.full
def test_the_servers_time_is_the_trials_own() -> None:
    with serving() as (port, pid, child), ContentionMonitor(CORES) as watch, own_server(launcher(port), watch) as here:
        assert here is not None and here[1].roots == (pid,)
        began, before = time.monotonic(), cpu_s(pid, child)
        with watch.phase("steady"):
            while cpu_s(pid, child) - before < 0.3 and time.monotonic() - began < 60:
                time.sleep(0.05)
        used = cpu_s(pid, child) - before
    seen = {row.signal: row.mean for row in watch.telemetry() if row.phase == "steady"}
    seconds = (time.monotonic() - began) * len(CORES)
    assert seen["server_cpu"] > 0
    assert seen["server_cpu"] * seconds >= 0.5 * used
    assert seen["own_cpu"] >= seen["server_cpu"] * 0.99
    # What is neither the trial's nor idle is foreign: the server is not in it.
    assert seen["own_cpu"] + seen["foreign_cpu"] <= 1.2


def test_an_undeclared_server_is_contention() -> None:
    with serving() as (port, _, child), ContentionMonitor(CORES) as watch, own_server(launcher(port, None), watch) as here:
        assert here is None
        before, began = cpu_s(child), time.monotonic()
        with watch.phase("steady"):
            while cpu_s(child) - before < 0.3 and time.monotonic() - began < 60:
                time.sleep(0.05)
    seen = {row.signal: row.mean for row in watch.telemetry() if row.phase == "steady"}
    assert "server_cpu" not in seen
    assert seen["foreign_cpu"] > 0


def test_a_port_without_a_server_is_a_wrong_declaration() -> None:
    with serving() as (port, *_):
        pass
    with ContentionMonitor(CORES) as watch, pytest.raises(TrialFailed) as raised, own_server(launcher(port), watch):
        pass
    assert raised.value.failure_class == "bad_declaration"
    assert str(port) in raised.value.detail
    assert find_listening(port) is None


@pytest.mark.full
@pytest.mark.skipif(len(CORES) < 2, reason="one core cannot be divided")
def test_client_and_server_are_bound_apart_and_the_server_is_left_as_it_was() -> None:
    with serving() as (_, pid, child):
        server = ListeningServer((pid,))
        assert {process.pid for process in server.processes()} == {pid, child}
        closely = [thread for thread in server.threads() if os.sched_getaffinity(thread) == {CORES[-1]}]
        assert len(closely) == 1
        with bound(server, CORES[:1]) as allowed:
            assert allowed
            assert os.sched_getaffinity(pid) == os.sched_getaffinity(child) == {CORES[0]}
            assert os.sched_getaffinity(closely[0]) == {CORES[-1]}, "bound more closely: it stays"
        assert os.sched_getaffinity(pid) == os.sched_getaffinity(child) == set(CORES)
        with bound(server, None) as allowed:
            assert allowed and os.sched_getaffinity(pid) == set(CORES)


def test_cores_of_both_sides() -> None:
    free = split_cores(range(8), 8, range(8))
    assert (free.client, free.server) == ((7,), tuple(range(7)))
    few = split_cores((0, 1), 2, (0, 1))
    assert (few.client, few.server) == (None, None)
    # The server was bound before: the client takes the others, also of two cores.
    assert (split_cores((0, 1), 2, (0,)).client, split_cores((0, 1), 2, (0,)).server) == ((1,), (0,))
