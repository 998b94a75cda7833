"""Leftovers of an earlier start are ended, others are not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from plumbline.embedded import server

pytestmark = pytest.mark.integration  # real processes and the real clock

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
# A leader that starts a child of its own session and one that leaves for another session, and tells when they are there.
FAMILY = (
    "import subprocess, sys, time\n"
    "for new in (False, True):\n"
    "    print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=new).pid, flush=True)\n"
    "time.sleep(60)\n"
)


def family(server_id: str) -> tuple[subprocess.Popen[str], list[int]]:
    env = {**os.environ, server.SERVER_MARK: server_id}
    leader = subprocess.Popen([sys.executable, "-c", FAMILY], env=env, start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert leader.stdout is not None
    return leader, [int(leader.stdout.readline()), int(leader.stdout.readline())]


def record_of(leader: subprocess.Popen[str], server_id: str) -> server.ServerRecord:
    return server.ServerRecord(leader.pid, psutil.Process(leader.pid).create_time(), server_id)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(SLEEP, start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.fault("a supervisor is killed", ends="its children are ended", keeps="processes of others")
def test_children_are_found_after_their_leader_was_killed(stranger: subprocess.Popen[bytes]) -> None:
    leader, children = family("ours")
    record = record_of(leader, "ours")
    leader.kill()
    leader.wait()
    assert sorted(p.pid for p in server.remaining_processes(record)) == sorted(children)
    assert sorted(server.end_leftovers(record)) == sorted(children)
    assert server.remaining_processes(record) == []
    assert stranger.poll() is None


def test_a_process_that_got_the_same_pid_later_is_left_alone(stranger: subprocess.Popen[bytes]) -> None:
    created = psutil.Process(stranger.pid).create_time()
    record = server.ServerRecord(stranger.pid, created - 100, "somebody")
    assert server.end_leftovers(record) == []
    assert stranger.poll() is None
    assert [p.pid for p in server.remaining_processes(server.ServerRecord(stranger.pid, created, "somebody"))] == [stranger.pid]


def test_one_that_ignores_sigterm_is_killed() -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    record = record_of(process, "stubborn")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server, "_PATIENCE_S", 0.5)
            assert server.end_leftovers(record) == [process.pid]
        assert process.wait(60) == -9
    finally:
        with suppress(ProcessLookupError):
            process.kill()


def test_a_record_survives_and_a_torn_one_is_none(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    assert server.read_record(file) is None
    record = server.ServerRecord(1, time.time(), "abc")
    record.write(file)
    assert server.read_record(file) == record
    file.write_text(file.read_text()[:10])
    assert server.read_record(file) is None
