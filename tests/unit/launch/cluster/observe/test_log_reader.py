from __future__ import annotations

import json

import pytest

from plumbline.harness.launcher_protocol import PROGRESS_EVENT
from plumbline.launch.cluster.observe.log_reader import MAX_LINE_BYTES, LogReader


def said(second: str, line: str) -> str:
    return f"2026-11-21T03:00:{second}Z {line}\n"


def step(second: str, fraction: float, note: str = "", phase: str = "steady") -> str:
    return said(second, json.dumps({"event": PROGRESS_EVENT, "trial_id": "t", "phase": phase, "fraction": fraction, "note": note}))


def test_overlapping_pieces_give_each_line_once() -> None:
    reader = LogReader(from_start=True)
    first = said("01.5", "one") + said("01.500000001", "two")
    assert reader.read(first, 0)[0] == ["one", "two"]
    assert reader.read(first + said("01.51", "three") + said("02.000000000", "four"), 1)[0] == ["three", "four"]


def test_lines_of_one_instant_are_all_given_once() -> None:
    reader = LogReader(from_start=True)
    assert reader.read(said("01", "one") + said("02", "two") + said("02", "two"), 0)[0] == ["one", "two", "two"]
    assert reader.read(said("02", "two") * 2 + said("02", "three") + said("03", "four"), 1)[0] == ["three", "four"]
    assert reader.read(said("02", "three") + said("03", "four"), 2)[0] == []


def test_progress_is_a_line_when_phase_or_percent_changed() -> None:
    reader = LogReader(from_start=True)
    note = "120 of 300 steps"
    lines, newest = reader.read(step("01", 0.4, note) + step("02", 0.401) + said("03", "loss 3.2") + step("04", 0.409), 0)
    assert lines[0].endswith(note) and lines[1:] == ["loss 3.2"]
    assert newest is not None
    assert newest.fraction == 0.409
    assert reader.read(step("05", 0.41), 1)[0] == ["steady 41 %"]
    assert reader.read(step("06", 0.41, phase="cooldown"), 2)[0] == ["cooldown 41 %"]
    assert reader.read("", 3) == ([], None)


def test_the_kubelets_own_words_are_passed_on_and_hide_nothing_after_them() -> None:
    reader = LogReader(from_start=True)
    unstamped = "unable to retrieve container logs for containerd://1"
    assert reader.read(f"{unstamped}\n", 0)[0] == [unstamped]
    assert reader.read(said("01", "one"), 1)[0] == ["one"]


def test_it_asks_for_what_came_since_and_a_little_more() -> None:
    reader = LogReader(from_start=True)
    assert "sinceSeconds" not in reader.query(100.0)
    reader.read("", 100.0)
    assert reader.query(130.5)["sinceSeconds"] == "33"


def test_one_that_takes_over_reads_back_a_minute() -> None:
    assert LogReader(from_start=False).query(100.0)["sinceSeconds"] == "60"


def test_a_pod_that_asks_to_be_deleted_is_heard_and_not_told() -> None:
    reader = LogReader(from_start=True)
    assert reader.read(said("01", "one"), 0) == (["one"], None) and reader.asked_deletion == 0
    asks = said("02", json.dumps({"event": "plumbline-delete-pod", "number": 2}))
    assert reader.read(asks + said("03", '{"event": "plumbline-delete-pod"}') + said("04", "plumbline-delete-pod 7"), 1)[1] is None
    assert reader.asked_deletion == 2, "what only looks like it asks for nothing"


def test_a_printed_result_is_not_read_out_to_people() -> None:
    reader = LogReader(from_start=True)
    assert reader.read(said("01", "plumbline-result 1/2 UEsDBA==") + said("02", "bye"), 0)[0] == ["bye"]


@pytest.mark.fault("a pod prints without end", ends="one note, then progress alone", keeps="the task's log below 6 MiB a watch")
def test_what_a_pod_prints_is_capped_in_total() -> None:
    reader, told = LogReader(from_start=True), []
    for second in range(10, 20):
        told += reader.read("".join(said(f"{second}", f"{n} {'x' * 1000}") for n in range(1000)), second)[0]
    assert sum(len(line) + 1 for line in told[:-1]) <= MAX_LINE_BYTES < 10_000_000
    assert f"{MAX_LINE_BYTES // 2**20} MiB" in told[-1]
    lines, newest = reader.read(said("21", "more") + step("22", 0.5), 22)
    assert lines == ["steady 50 %"] and newest is not None


def test_below_the_cap_every_line_is_told() -> None:
    reader = LogReader(from_start=True)
    assert len(reader.read("".join(said("01", "x" * 100) for _ in range(400)), 1)[0]) == 400
