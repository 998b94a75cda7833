"""Timers: stages add up to the step; a GPU, simulated by its events, is never waited for longer than it must be."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
import torch

from plumbline.harness.training.worker.device import CpuStepTimer, GpuStepTimer, step_timer

MS = 1_000_000


class Stream:
    """A device that works through what it is given: each event stands after so much work, and `done` of it is done."""

    def __init__(self) -> None:
        self.given_ms = 0.0
        self.done_ms = 0.0
        self.waits = 0

    def work(self, ms: float) -> None:
        self.given_ms += ms

    def synchronize(self) -> None:
        self.done_ms = self.given_ms


class Event:
    """As much of `torch.cuda.Event` as the timer calls."""

    stream: Stream

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at_ms = self.stream.given_ms

    def query(self) -> bool:
        return self.at_ms <= self.stream.done_ms

    def synchronize(self) -> None:
        if not self.query():
            self.stream.waits += 1
            self.stream.done_ms = self.at_ms

    def elapsed_time(self, other: Event) -> float:
        assert other.query(), "asked for before the device was there"
        return other.at_ms - self.at_ms


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    device = Stream()
    monkeypatch.setattr(Event, "stream", device, raising=False)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", device.synchronize)
    return device


def a_step(timer: CpuStepTimer | GpuStepTimer, number: int, stream: Stream) -> list[dict[str, object]]:
    timer.begin(number)
    stream.work(1)
    timer.mark("data_wait")
    for _ in range(2):
        stream.work(3)
        timer.mark("forward")
        stream.work(5)
        timer.mark("backward")
    timer.move("backward", "gradient_sync", lambda: 2 * MS)
    stream.work(4)
    return timer.end(torch.tensor(float(number)), torch.tensor(number == 1))


def test_the_device_may_be_two_steps_behind_and_no_more(stream: Stream) -> None:
    timer = GpuStepTimer()
    came = [[line["step"] for line in a_step(timer, number, stream)] for number in range(4)]
    assert came == [[], [], [0], [1]] and stream.waits == 2
    assert [line["step"] for line in timer.drain()] == [2, 3]
    assert timer.drain() == []


def test_lines_come_at_once_from_a_device_that_keeps_up_and_nobody_waits(stream: Stream) -> None:
    timer = GpuStepTimer()
    for number in range(3):
        stream.synchronize()
        a_step(timer, number, stream)
    stream.synchronize()
    assert [line["step"] for line in timer.drain()] == [2] and stream.waits == 0


def test_a_step_begins_where_the_one_before_ended_and_its_stages_add_up(stream: Stream) -> None:
    timer = GpuStepTimer()
    lines = [line for number in range(3) for line in a_step(timer, number, stream)] + timer.drain()
    for line in lines:
        assert line["ns"] - line["start"] == 21 * MS
        assert line["stages"] == {"data_wait": MS, "forward": 6 * MS, "backward": 8 * MS, "gradient_sync": 2 * MS, "optimizer": 4 * MS}
        assert line["loss"] == line["step"]
    assert [line.get("skipped") for line in lines] == [None, True, None]
    assert all(after["start"] == before["ns"] for before, after in pairwise(lines))


def test_what_happens_after_a_drain_is_no_part_of_a_step(stream: Stream) -> None:
    timer = GpuStepTimer()
    a_step(timer, 0, stream)
    (first,) = timer.drain()
    stream.work(1000)  # a checkpoint
    a_step(timer, 1, stream)
    (second,) = timer.drain()
    assert second["ns"] - second["start"] == 21 * MS and second["start"] >= first["start"]


def test_on_a_cpu_stages_are_told_apart_by_the_clock() -> None:
    timer = step_timer(torch.device("cpu"))
    assert isinstance(timer, CpuStepTimer)
    timer.begin(7)
    time.sleep(0.02)
    timer.mark("data_wait")
    timer.mark("forward")
    timer.mark("backward")
    timer.move("backward", "gradient_sync", lambda: 10)
    (line,) = timer.end(torch.tensor(2.0))
    assert (line["step"], line["loss"], line.get("skipped")) == (7, 2.0, None)
    assert line["stages"]["data_wait"] >= 20 * MS and line["stages"]["gradient_sync"] == 10
    assert sum(line["stages"].values()) == line["ns"] - line["start"]
    before = line["ns"]
    timer.begin(8)
    (line,) = timer.end(torch.tensor(2.0), torch.tensor(True))
    assert line["skipped"] is True
    assert line["start"] == before and sum(line["stages"].values()) < line["ns"] - before, "what lay between them is no stage"
    before = line["ns"]
    assert timer.drain() == []
    timer.begin(9)
    (line,) = timer.end(torch.tensor(2.0))
    assert line["start"] > before, "a checkpoint is no part of a step"
