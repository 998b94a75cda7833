"""The worker's append-only record."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from plumbline.harness.training.worker_protocol import LogTail, RunRecord, StepLog


def test_lines_are_read_as_they_come_and_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LogTail(path)
    assert tail.new() == []
    log = StepLog(path)
    log.event("ready", facts={})
    assert [line["event"] for line in tail.new()] == ["ready"]
    log.line({"event": "a", "ns": 1})
    log.line({"event": "b", "ns": 2})
    assert [line["event"] for line in tail.new()] == ["a", "b"]
    assert tail.new() == []


@pytest.mark.fault("killed while a step is logged", ends="the step is left out", keeps="every step before it")
def test_a_line_that_was_cut_by_a_kill_is_left(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"event": "a", "ns": 1}\n{"event": "b", "n')
    tail = LogTail(path)
    assert [line["event"] for line in tail.new()] == ["a"]
    path.write_bytes(path.read_bytes() + b's": 2}\n')
    assert [line["event"] for line in tail.new()] == ["b"]


def test_a_log_is_appended_to(tmp_path: Path) -> None:
    for name in ("a", "b"):
        StepLog(tmp_path / "log").event(name)
    assert [line["event"] for line in LogTail(tmp_path / "log").new()] == ["a", "b"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.fault("the disk fills while steps are logged", ends="an error", keeps="the steps before it")
def test_a_full_disk_is_an_error() -> None:
    with pytest.raises(OSError) as caught:
        StepLog(Path("/dev/full")).event("a")
    assert caught.value.errno == errno.ENOSPC


def test_a_record_takes_in_every_kind_of_line() -> None:
    record = RunRecord(launched_s=1.0)
    for line in (
        {"event": "ready", "ns": 2e9, "facts": {"torch.threads": 1}},
        {"event": "load_begin", "ns": 3e9},
        {"event": "load_end", "ns": 4e9, "step": 4, "rejected": ["x"], "checksum_s": 0.25},
        {
            "event": "step",
            "ns": 6e9,
            "step": 4,
            "start": 5e9,
            "stages": {"data_wait": 1e8, "forward": 3e8, "backward": 3e8, "gradient_sync": 1e8, "optimizer": 2e8},
            "loss": 2.5,
        },
        {
            "event": "checkpoint",
            "ns": 7e9,
            "step": 5,
            "save_s": 0.5,
            "checksum_s": 0.2,
            "blocking": 6e8,
            "summing": 1e8,
            "bytes": 10,
            "closing": False,
        },
        {"event": "verified_load", "ns": 8e9, "seconds": 0.25, "equal": True, "cold": True},
        {"event": "matmul", "ns": 9e9, "flops": 1e9},
        {"event": "weights", "ns": 9e9, "sha256": "ab"},
    ):
        record.add(line)
    (step,) = record.steps
    assert (step.step, step.start_s, step.end_s, step.step_s, step.loss) == (4, 5.0, 6.0, 1.0, 2.5)
    assert sum(step.stages.values()) == pytest.approx(step.step_s)
    (save,) = record.saves
    assert (save.step, save.save_s, save.blocking_s, save.bytes, save.end_s, save.checksum_s) == (5, 0.5, 0.6, 10, 6.8, 0.1)
    assert record.load_checksum_s == 0.25
    assert (
        record.at["load_begin"] == 3.0
        and record.rejected == ["x"]
        and record.facts == {"torch.threads": 1, "checkpoint.page_cache": "dropped"}
    )
    assert record.verified_loads_s == [0.25] and record.matmul_flops == 1e9 and record.weights_sha256 == "ab"


@pytest.mark.parametrize(("loads", "exactly"), [([], None), ([True, True], True), ([True, False, True], False), ([False, True], False)])
def test_one_load_that_differs_is_enough(loads: list[bool], exactly: bool | None) -> None:
    record = RunRecord(launched_s=0.0)
    for equal in loads:
        record.add({"event": "verified_load", "ns": 1, "seconds": 0.1, "equal": equal, "cold": True})
    assert record.restored_exactly is exactly


@pytest.mark.parametrize(("cold", "fact"), [([True, True], "dropped"), ([True, False, True], "kept"), ([False], "kept")])
def test_one_load_from_memory_is_enough(cold: list[bool], fact: str) -> None:
    record = RunRecord(launched_s=0.0)
    for one in cold:
        record.add({"event": "verified_load", "ns": 1, "seconds": 0.1, "equal": True, "cold": one})
    assert record.facts == {"checkpoint.page_cache": fact}


def test_compile_time_and_skipped_steps_are_kept() -> None:
    record = RunRecord(0.0)
    step = {"event": "step", "ns": 2, "step": 3, "start": 1, "stages": {}, "loss": 1.0}
    for line in (step, {**step, "step": 4, "skipped": True}, {"event": "compiled", "ns": 3, "step": 0, "seconds": 1.5}):
        record.add(line)
    assert [done.step for done in record.steps] == [3, 4]
    assert (record.skipped, record.compiled_s) == ([4], [1.5])
