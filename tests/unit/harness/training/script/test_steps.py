"""Reports as steps: numbers, times, and what is out of order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plumbline.declarations.workloads.script import JsonLinesReport
from plumbline.harness.training.script.reports import Reported
from plumbline.harness.training.script.steps import ReportedSteps, StepsMisreported, check_moments
from plumbline.harness.training.worker_protocol import HoldPoint, LogTail, RunRecord, ScriptSpec, StepLog

S = 10**9
SPEC = ScriptSpec(
    device="cpu", threads=1, until=100, resume=False, checkpoint_folder="", hold=None, closing=False, log="", command=("train",), folder="/",
    environment={}, report={}, base=0, checkpoint_every=None, launches_ranks=False, private=False,
)  # fmt: skip


class Script:
    """Reports at moments of a clock, in seconds, and the steps that they make."""

    def __init__(self, folder: Path, spec: ScriptSpec = SPEC, **report: Any) -> None:
        self._log = folder / "steps.jsonl"
        self.steps = ReportedSteps(spec, JsonLinesReport(format="jsonl", step="step", **report), StepLog(self._log))

    def reports(self, at_s: float, *reports: Reported) -> Script:
        self.steps.add(list(reports), round(at_s * S))
        return self

    @property
    def record(self) -> RunRecord:
        record = RunRecord(launched_s=0.0)
        for line in LogTail(self._log).new():
            record.add(line)
        return record

    @property
    def times(self) -> list[tuple[int, float, float]]:
        return [(step.step, step.start_s, step.end_s) for step in self.record.steps]


def test_a_step_takes_from_the_report_before_it_to_its_own(tmp_path: Path) -> None:
    script = Script(tmp_path).reports(10, Reported(0, loss=2.0))
    assert script.times == [], "when the first one began is not known"
    script.reports(10.5, Reported(1, loss=1.0, tokens=10, data_wait=0.1))
    assert script.times == [(0, 9.5, 10.0), (1, 10.0, 10.5)]
    first, second = script.record.steps
    assert (first.loss, first.work, second.loss, second.work, second.stages) == (2.0, None, 1.0, 10, {"data_wait": 0.1})
    assert script.record.first_start_known is False


def test_a_reported_time_says_when_the_first_step_began_and_is_the_second_source_of_the_others(tmp_path: Path) -> None:
    script = Script(tmp_path).reports(10, Reported(0, seconds=3.0)).reports(10.5, Reported(1, seconds=0.4))
    assert script.times == [(0, 7.0, 10.0), (1, 10.0, 10.5)]
    assert [step.other_s for step in script.record.steps] == [None, 0.4]
    assert script.record.first_start_known is True


def test_moments_in_a_report_are_the_steps_and_what_is_seen_is_the_second_source(tmp_path: Path) -> None:
    script = Script(tmp_path)
    script.reports(10.1, Reported(0, began=9 * S, ended=10 * S)).reports(11.2, Reported(1, began=10 * S, ended=11 * S))
    assert script.times == [(0, 9.0, 10.0), (1, 10.0, 11.0)]
    assert [step.other_s for step in script.record.steps] == [None, pytest.approx(1.1)]
    script.steps.paused = True
    assert script.reports(14, Reported(2, began=12 * S, ended=13 * S)).record.steps[-1].other_s is None


def test_reports_that_come_together_share_the_time(tmp_path: Path) -> None:
    script = Script(tmp_path).reports(10, Reported(0, seconds=1.0))
    script.reports(14, Reported(1, seconds=1.0), Reported(2, seconds=3.0)).reports(16, Reported(3), Reported(4))
    assert script.times[1:] == [(1, 10.0, 11.0), (2, 11.0, 14.0), (3, 14.0, 15.0), (4, 15.0, 16.0)]


def test_first_reports_that_come_together_have_no_times(tmp_path: Path) -> None:
    script = Script(tmp_path).reports(10, *(Reported(n, loss=1.0) for n in range(3)))
    assert [step.timed for step in script.record.steps] == [False] * 3 and script.record.first_start_known is False
    script.reports(10.1, Reported(3)).reports(10.3, Reported(4), Reported(5))
    assert script.times == [(0, 10, 10), (1, 10, 10), (2, 10, 10), (3, 10, 10.1), (4, 10.1, 10.2), (5, 10.2, 10.3)]
    assert [step.timed for step in script.record.steps[3:]] == [True] * 3


def test_first_reports_that_come_together_with_their_own_times_have_these(tmp_path: Path) -> None:
    script = Script(tmp_path).reports(10, *(Reported(n, seconds=s) for n, s in enumerate((3.0, 1.0, 0.5))))
    assert script.times == [(0, 5.5, 8.5), (1, 8.5, 9.5), (2, 9.5, 10.0)]
    assert [(step.timed, step.other_s) for step in script.record.steps] == [(True, None)] * 3
    assert script.record.first_start_known is True


def test_when_all_reports_come_at_once_every_step_is_there_without_a_time(tmp_path: Path) -> None:
    for until, count in ((3, 4), (1, 1)):
        (tmp_path / str(until)).mkdir()
        script = Script(tmp_path / str(until), replace(SPEC, until=until)).reports(10, *(Reported(n) for n in range(count)))
        assert [(step.step, step.timed, step.step_s) for step in script.record.steps] == [(n, False, 0.0) for n in range(until)]


def test_a_report_may_be_of_many_steps_of_the_scripts_own(tmp_path: Path) -> None:
    script = Script(tmp_path, first=10, every=10)
    script.reports(1, Reported(10, seconds=0.1)).reports(2, Reported(20, tokens=5, seconds=0.1))
    assert script.times == [(0, 0.0, 1.0), (1, 1.0, 2.0)]
    assert (script.record.steps[1].work, script.record.steps[1].other_s) == (50, 1.0)


def test_reports_without_numbers_are_counted_and_after_a_resume_from_where_it_was(tmp_path: Path) -> None:
    resumed = replace(SPEC, resume=True, base=6)
    script = Script(tmp_path, resumed).reports(1, Reported(loss=1.0)).reports(2, Reported(loss=1.0))
    assert [step for step, *_ in script.times] == [6, 7]


def test_a_repeated_report_is_one(tmp_path: Path) -> None:
    script = Script(tmp_path).reports(1, Reported(0)).reports(2, Reported(1)).reports(3, Reported(1)).reports(4, Reported(2))
    assert [step for step, *_ in script.times] == [0, 1, 2]


@pytest.mark.fault("a training script's steps go backwards, or leave some out", ends="bad_declaration", keeps="the steps before")
@pytest.mark.parametrize(
    ("numbers", "words"), [((0, *range(1, 20), 7), "step 7 after step 19"), ((0, 10), "step 10 after step 0.*report.every"), ((1,), "step 1 first.*report.first")]
)  # fmt: skip
def test_steps_out_of_order(tmp_path: Path, numbers: tuple[int, ...], words: str) -> None:
    script = Script(tmp_path)
    with pytest.raises(StepsMisreported, match=words):
        for at, number in enumerate(numbers):
            script.reports(at, Reported(number))


def test_a_step_that_another_rank_reports_late_is_one(tmp_path: Path) -> None:
    script = Script(tmp_path)
    for at, number in enumerate((0, 0, 1, 0, 2, 1, 3)):
        script.reports(at, Reported(number))
    assert [step for step, *_ in script.times] == [0, 1, 2, 3] and script.steps.repeated == 3


def test_steps_that_count_from_the_start_of_each_epoch_go_on(tmp_path: Path) -> None:
    script = Script(tmp_path, first=10, every=10)
    for at, number in enumerate([*range(10, 60, 10), *range(10, 30, 10)]):
        script.reports(at, Reported(number))
    assert [step.step for step in script.record.steps] == list(range(7))
    assert [step.timed for step in script.record.steps] == [True] * 5 + [False, True], "how many were after the last report is not known"


def test_the_steps_between_two_refreshes_of_a_bar_share_the_time(tmp_path: Path) -> None:
    script = Script(tmp_path, uneven=True).reports(1, Reported(2)).reports(2, Reported(4, loss=1.5)).reports(2.1, Reported(4))
    script.reports(5, Reported(7))
    assert [(step.step, step.timed) for step in script.record.steps][:3] == [(0, False), (1, False), (2, False)]
    assert script.times[3:] == [(3, 1, 1.5), (4, 1.5, 2), (5, 2, 3), (6, 3, 4), (7, 4, 5)]
    assert [step.loss for step in script.record.steps] == [None, None, None, None, 1.5, None, None, None]


def test_a_bar_that_begins_again_goes_on(tmp_path: Path) -> None:
    script = Script(tmp_path, uneven=True, first=1)
    for at, number in enumerate((5, 10, 12, 5, 10)):
        script.reports(at, Reported(number))
    assert script.steps.done == 22


def test_output_that_is_buffered_comes_in_bursts(tmp_path: Path) -> None:
    script = Script(tmp_path)
    for at in range(3):
        script.reports(5 * at, *(Reported(10 * at + n) for n in range(10)))
    assert (script.steps.reports, script.steps.in_bursts) == (30, 30)
    (tmp_path / "quick").mkdir()
    quick = Script(tmp_path / "quick")
    for at in range(3):
        quick.reports(at / 10, *(Reported(10 * at + n) for n in range(10)))
    assert quick.steps.in_bursts == 10, "steps of 10 ms come ten at a time, and the first ones when they were noticed"


def test_eight_ranks_that_print_each_step_are_no_burst(tmp_path: Path) -> None:
    script = Script(tmp_path)
    for number in range(4):
        script.reports(2 * number, *(Reported(number) for _ in range(8)))
    assert (script.steps.reports, script.steps.in_bursts, script.steps.repeated) == (4, 0, 28)


def test_only_the_report_that_begins_an_epoch_has_no_time(tmp_path: Path) -> None:
    script = Script(tmp_path, first=10, every=10)
    for at, number in enumerate(range(10, 60, 10)):
        script.reports(at, Reported(number))
    script.reports(7, Reported(60), Reported(10), Reported(20))
    assert [step.timed for step in script.record.steps] == [True] * 6 + [False, True]


def test_a_bar_s_first_refresh_may_be_an_earlier_one_than_when_it_was_tried(tmp_path: Path) -> None:
    script = Script(tmp_path, uneven=True, first=5).reports(1, Reported(2)).reports(2, Reported(3)).reports(3, Reported(5))
    assert [step for step, *_ in script.times] == [0, 1, 2, 3]


def test_a_resumed_run_may_begin_anywhere(tmp_path: Path) -> None:
    script = Script(tmp_path, replace(SPEC, resume=True)).reports(1, Reported(30)).reports(2, Reported(31))
    assert [step for step, *_ in script.times] == [30, 31]


def test_steps_after_the_last_one_are_left_out(tmp_path: Path) -> None:
    script = Script(tmp_path, replace(SPEC, until=2))
    for number in range(4):
        script.reports(number, Reported(number, seconds=1.0))
    assert [step for step, *_ in script.times] == [0, 1] and script.steps.done == 4


def test_it_holds_in_the_middle_of_the_step(tmp_path: Path) -> None:
    script = Script(tmp_path, replace(SPEC, hold=HoldPoint(3)))
    for number in range(3):
        script.reports(number, Reported(number, seconds=1.0))
    due = script.steps.hold_ns
    assert due is not None
    script.steps.hold(due - 1)
    assert "holding" not in script.record.at
    script.steps.hold(due)
    script.reports(4, Reported(3, seconds=1.0))
    assert script.steps.hold_ns is None and "holding" in script.record.at


@pytest.mark.fault("a script reports a step that ends after now, or began before its command", ends="bad_declaration", keeps="no such step")
@pytest.mark.parametrize(
    ("began", "ended", "said"),
    [
        (10 * S, 30 * S, "step 1 10 s after now"),
        (30 * S, 12 * S, "step 1 10 s after now"),
        (1 * S, 12 * S, "step 1 8 s before its command started"),
        (None, 2 * S, "step 1 7 s before its command started"),
    ],
)
def test_moments_outside_of_the_run_are_refused(tmp_path: Path, began: int | None, ended: int, said: str) -> None:
    script = Script(tmp_path)
    script.steps.launched_ns = 9 * S
    script.reports(11, Reported(0, began=10 * S, ended=11 * S))
    with pytest.raises(StepsMisreported, match=f"the script reported {said}; expected time.monotonic_ns\\(\\) of this machine"):
        script.reports(20, Reported(1, began=began, ended=ended))
    assert script.times == [(0, 10.0, 11.0)]


def test_a_moment_that_is_no_number_is_refused() -> None:
    with pytest.raises(StepsMisreported, match="the script reported a load at a moment that is no whole number"):
        check_moments(0, 5, "a load", None, "later")
