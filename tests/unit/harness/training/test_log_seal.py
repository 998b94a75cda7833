"""Only the worker's own lines of a step log count: what else is written, cut or put in its place is noticed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from plumbline.harness.training import log_seal
from plumbline.harness.training.log_seal import ForgedLog, key_of_this_process, take_over
from plumbline.harness.training.worker_protocol import LogTail, StepLog

KEY = b"k" * 32


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Of three lines, read up to the second."""
    return tmp_path / "run.steps.jsonl"


def written(log: Path) -> LogTail:
    own, tail = StepLog(log, KEY), LogTail(log, KEY)
    own.event("launched")
    own.line({"event": "step", "ns": 5, "step": 0, "text": 'ends with "}, "seal": "x"}'})
    assert [line["event"] for line in tail.new()] == ["launched", "step"]
    own.event("done")
    return tail


def test_lines_come_out_as_they_went_in(log: Path) -> None:
    tail = written(log)
    assert [line["event"] for line in tail.new()] == ["done"] and tail.new() == []
    assert all("seal" in json.loads(line) for line in log.read_text().splitlines())
    assert LogTail(log, KEY).new()[1] == {"event": "step", "ns": 5, "step": 0, "text": 'ends with "}, "seal": "x"}'}


def append(log: Path) -> None:
    with log.open("a") as file:
        file.write('{"event": "step", "ns": 1, "step": 1}\n')


def repeat(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines, lines[1]]))


def exchange(log: Path) -> None:
    one, two, three = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(one + three + two)


def alter(log: Path) -> None:
    log.write_bytes(log.read_bytes().replace(b'"done"', b'"step"'))


def cut(log: Path) -> None:
    log.write_bytes(b"")


def remove(log: Path) -> None:
    log.unlink()


@pytest.mark.parametrize("attack", [append, repeat, alter, cut, remove])
def test_each_attack_on_a_log_that_is_read(log: Path, attack: Callable[[Path], None]) -> None:
    tail = written(log)
    attack(log)
    with pytest.raises(ForgedLog, match="expected that the command leaves the files beside its folder alone"):
        tail.new()


@pytest.mark.parametrize("attack", [append, repeat, exchange, alter])
def test_each_attack_on_a_log_that_is_read_again(log: Path, attack: Callable[[Path], None]) -> None:
    written(log)
    attack(log)
    with pytest.raises(ForgedLog, match=r"line \d of run\.steps\.jsonl was not written by the harness; expected that the command leaves"):
        LogTail(log, KEY).new()


def test_lines_of_another_log_or_key_do_not_count(log: Path) -> None:
    written(log)
    other = log.with_name("run-2.steps.jsonl")
    other.write_bytes(log.read_bytes())
    for path, key in ((other, KEY), (log, b"x" * 32)):
        with pytest.raises(ForgedLog):
            LogTail(path, key).new()


def test_a_line_that_is_being_written_waits(log: Path) -> None:
    tail = written(log)
    whole = log.read_bytes()
    log.write_bytes(whole[:-5])
    assert tail.new() == []
    log.write_bytes(whole)
    assert [line["event"] for line in tail.new()] == ["done"]


def test_the_key_comes_by_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    log_seal.hand_over(writing)
    os.write(writing, b"more")
    real = os.read
    monkeypatch.setattr(os, "read", lambda fd, size: real(reading if fd == 0 else fd, size))
    assert take_over() == key_of_this_process()
    assert real(reading, 4) == b"more"
    os.close(writing)
    with pytest.raises(EOFError):
        take_over()
    os.close(reading)
