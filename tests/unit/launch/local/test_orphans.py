"""Only what a killed launcher left is ended, and never somebody else's process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from plumbline.harness.process_tree import ProcessId
from plumbline.launch.local import machine_access

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


def pidfile(work: Path, **changes: object) -> Path:
    content = {
        "trial_id": "t",
        "token": "no process carries this one",
        "launcher": 2**22 + 1,
        "launcher_start": "gone",
        "keeper": 2**22 + 2,
        "keeper_start": "gone",
        "folders": [],
        **changes,
    }
    path = work / "t.a1.pid"
    path.write_text(json.dumps(content))
    return path


def test_a_recycled_pid_is_not_signalled(tmp_path: Path) -> None:
    bystander = subprocess.Popen(SLEEPER)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    try:
        path = pidfile(tmp_path, keeper=bystander.pid, keeper_start="an earlier boot/1", folders=[str(scratch)])
        assert machine_access.end_abandoned(tmp_path) == []
        assert bystander.poll() is None
        assert not path.exists()
        assert not scratch.exists()
    finally:
        bystander.kill()
        bystander.wait()


def test_a_living_launchers_pidfile_stays(tmp_path: Path) -> None:
    own = ProcessId.of(os.getpid())
    assert own is not None
    path = pidfile(tmp_path, launcher=own.pid, launcher_start=own.start)
    assert machine_access.end_abandoned(tmp_path) == []
    assert path.exists()


def test_a_carrier_of_the_token_is_ended_wherever_it_went(tmp_path: Path) -> None:
    left = subprocess.Popen(SLEEPER, env={**os.environ, "PLUMBLINE_TRIAL_TOKEN": "token-of-this-test"}, start_new_session=True)
    while "PLUMBLINE_TRIAL_TOKEN" not in psutil.Process(left.pid).environ():
        time.sleep(0.01)  # a moment after exec the kernel shows no environment
    pidfile(tmp_path, token="token-of-this-test")
    assert machine_access.end_abandoned(tmp_path) == [left.pid]
    assert left.wait() < 0


def test_a_folder_that_is_not_there_and_files_that_are_not_pidfiles(tmp_path: Path) -> None:
    assert machine_access.end_abandoned(tmp_path / "nowhere") == []
    for content in ("", "[]", '{"pid": 1}', "not json"):
        (tmp_path / "x.pid").write_text(content)
        assert machine_access.end_abandoned(tmp_path) == []


@pytest.mark.fault("a stranger's pidfile names folders to delete", ends="refused", keeps="every folder")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_strangers_pidfile_is_left_alone(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    path = pidfile(tmp_path, folders=[str(victim)])
    os.chown(path, 12345, 12345)
    assert machine_access.end_abandoned(tmp_path) == [] and victim.is_dir() and path.exists()
