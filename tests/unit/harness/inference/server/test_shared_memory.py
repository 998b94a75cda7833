from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from plumbline.harness.inference.server import shared_memory

NAME = "from plumbline.harness.inference.server import shared_memory; print(shared_memory.shared_memory_prefix(), flush=True); input()"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY_FOLDER", tmp_path)
    return tmp_path


@pytest.mark.fault("a killed trial leaves shared memory", ends="swept by the next", keeps="memory of living processes")
def test_what_a_killed_process_left_is_swept_and_what_lives_stays(folder: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    theirs = folder / f"{other.stdout.readline().strip()}abc"
    ours = folder / f"{shared_memory.shared_memory_prefix()}abc"
    foreign = folder / "somebody-elses"
    for file in (theirs, ours, foreign):
        file.write_bytes(b"x")
    assert shared_memory.sweep_shared_memory() == [], "both processes live"
    other.kill()
    other.communicate()
    assert shared_memory.sweep_shared_memory() == [theirs.name]
    assert sorted(folder.iterdir()) == sorted([ours, foreign])


def test_a_killed_process_that_nobody_took_note_of_has_ended(folder: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    theirs = folder / f"{other.stdout.readline().strip()}abc"
    theirs.write_bytes(b"x")
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # ended, and still in the table of processes
    assert psutil.Process(other.pid).status() == psutil.STATUS_ZOMBIE
    assert shared_memory.sweep_shared_memory() == [theirs.name]
    other.communicate()


def test_a_model_that_waits_for_its_killed_server_is_ended(folder: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    theirs = f"{other.stdout.readline().strip()}abc"
    (folder / theirs).write_bytes(b"x")
    waits = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen([*waits, theirs]) as model, subprocess.Popen([*waits, "another"]) as neighbour:
        try:
            shared_memory.sweep_shared_memory()
            assert model.poll() is None, "its harness lives"
            other.kill()
            other.communicate()
            shared_memory.sweep_shared_memory()
            assert model.wait(60) == -signal.SIGKILL
            assert neighbour.poll() is None
        finally:
            model.kill()
            neighbour.kill()


def test_a_process_id_that_was_given_again_is_not_its_owner(folder: Path) -> None:
    namespace, pid, started = shared_memory.shared_memory_prefix().split("-")[1:4]
    older = folder / f"plumbline-{namespace}-{pid}-{int(started) - 500}-abc"
    elsewhere = folder / f"plumbline-{int(namespace) + 1}-{pid}-{int(started) - 500}-abc"
    for file in (older, elsewhere):
        file.write_bytes(b"x")
    assert shared_memory.sweep_shared_memory() == [older.name]
    assert list(folder.iterdir()) == [elsewhere], "another container's process ids mean nothing here"


def test_remove_takes_one_servers_segments(folder: Path) -> None:
    ours, other = folder / f"{shared_memory.shared_memory_prefix()}abc", folder / "plumbline-1-2-3-abc"
    for file in (ours, other):
        file.write_bytes(b"x")
    shared_memory.remove_shared_memory(shared_memory.shared_memory_prefix())
    assert list(folder.iterdir()) == [other]
