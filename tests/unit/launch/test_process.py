"""The pieces of supervision that need no trial: output, process trees, pidfiles that are not ours."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from plumbline.launch import orphans, tree
from plumbline.launch.keeper import descendants
from plumbline.launch.outcome import last_lines
from plumbline.launch.process import Output

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


def output(file: IO[bytes], told: list[str]) -> Output:
    def tell(line: str) -> bool:
        told.append(line)
        return line.startswith("progress")

    return Output(file, tell)


def test_lines_are_told_whole_however_they_arrive() -> None:
    told: list[str] = []
    file = io.BytesIO()
    printed = output(file, told)
    for piece in (b"on", b"e\ntw", b"o\nthree \xc3", b"\xa9"):
        printed.feed(piece)
    printed.close()
    assert told == ["one", "two", "three é"]
    assert file.getvalue().decode() == printed.tail == "one\ntwo\nthree é"


def test_the_tail_is_short_and_of_whole_lines_for_people() -> None:
    printed = output(io.BytesIO(), [])
    printed.feed(("é" * 5000 + "\n").encode())
    for i in range(2000):
        printed.feed(f"line {i}\n".encode())
    assert len(printed.tail.encode()) <= 4096
    assert printed.tail.startswith("line ")
    for i in range(2000):
        printed.feed(f"progress {i}\n".encode())
    assert printed.tail.endswith("line 1999"), "progress does not push the last words out"


def test_a_flood_without_line_ends_does_not_fill_the_memory() -> None:
    told: list[str] = []
    file = io.BytesIO()
    printed = output(file, told)
    for _ in range(64):
        printed.feed(b"x" * 65536)
    printed.feed(b"\nafter\n")
    assert told[-1] == "after"
    assert max(map(len, told)) <= 2 * 65536
    assert len(printed.tail.encode()) <= 4096
    assert len(file.getvalue()) == 64 * 65536 + 7


def test_last_lines_of_a_tail() -> None:
    assert last_lines("one\n\n two\n") == "one | two"
    assert last_lines("\n".join("abcdefgh")) == "d | e | f | g | h"
    assert last_lines("\n") == "it printed nothing"


def test_descendants_at_any_depth() -> None:
    parent_of = {2: 1, 3: 2, 4: 3, 5: 1, 6: 99}
    assert descendants({2}, parent_of) == {3, 4}
    assert descendants({1}, parent_of) == {2, 3, 4, 5}
    assert descendants({6}, parent_of) == set()


def test_a_process_is_known_by_its_start() -> None:
    start = tree.start_of(os.getpid())
    assert start is not None
    assert tree.is_alive(os.getpid(), start)
    assert not tree.is_alive(os.getpid(), "another boot/1")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert tree.start_of(ended.pid) is None, "a zombie runs no more"
    ended.wait()


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
        assert orphans.sweep(tmp_path) == []
        assert bystander.poll() is None
        assert not path.exists()
        assert not scratch.exists()
    finally:
        bystander.kill()
        bystander.wait()


def test_a_living_launchers_pidfile_stays(tmp_path: Path) -> None:
    launcher, start = orphans.me()
    path = pidfile(tmp_path, launcher=launcher, launcher_start=start)
    assert orphans.sweep(tmp_path) == []
    assert path.exists()


def test_a_carrier_of_the_token_is_ended_wherever_it_went(tmp_path: Path) -> None:
    left = subprocess.Popen(SLEEPER, env={**os.environ, "PLUMBLINE_TRIAL_TOKEN": "token-of-this-test"}, start_new_session=True)
    pidfile(tmp_path, token="token-of-this-test")
    assert orphans.sweep(tmp_path) == [left.pid]
    assert left.wait() < 0


def test_a_folder_that_is_not_there_and_files_that_are_not_pidfiles(tmp_path: Path) -> None:
    assert orphans.sweep(tmp_path / "nowhere") == []
    for content in ("", "[]", '{"pid": 1}', "not json"):
        (tmp_path / "x.pid").write_text(content)
        assert orphans.sweep(tmp_path) == []
