"""The lock of a machine, which names what to end and to delete, is this user's alone."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.launch.local.machine_access import LockRefused, MachineBusy, lock_file, machine_lock


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def held(work: Path) -> None:
    with machine_lock("m", "t", work, 0.0, lambda _: None):
        pass


def test_the_folder_is_made_for_this_user_and_the_lock_held_once(tmp_path: Path) -> None:
    with machine_lock("m", "gpt-tiny", tmp_path, 0.0, lambda _: None), pytest.raises(MachineBusy, match="gpt-tiny"):
        held(tmp_path)
    held(tmp_path)
    assert (tmp_path / f"plumbline-{os.getuid()}").stat().st_mode & 0o777 == 0o700


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def a_link(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


def another_users(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    if os.getuid() == 0:
        os.chown(folder, 12345, 12345)
    else:
        pytest.skip("only root can give a folder to another user")


@pytest.mark.parametrize("prepare", [open_to_all, a_link, another_users])
@pytest.mark.fault("a stranger's lock file in /tmp names folders to delete", ends="refused", keeps="every folder")
def test_a_strangers_folder_is_refused_before_its_lock_is_read(tmp_path: Path, prepare: Callable[[Path], None]) -> None:
    folder = tmp_path / f"plumbline-{os.getuid()}"
    prepare(folder)
    victim, work = tmp_path / "victim", tmp_path / "work"
    victim.mkdir()
    work.mkdir()
    gone = {"token": "none", "launcher": 2**22 + 1, "launcher_start": "gone", "keeper": 2**22 + 2, "keeper_start": "gone"}
    (work / "t.a1.pid").write_text(json.dumps({"trial_id": "t", **gone, "folders": [str(victim)]}))
    (folder / "m.lock").write_text(json.dumps({"trial_id": "t", "pid": 1, "work": str(work)}))
    with pytest.raises(LockRefused, match="mode 0700"):
        held(tmp_path)
    with pytest.raises(LockRefused):
        lock_file("m")
    assert victim.is_dir() and (work / "t.a1.pid").exists()
