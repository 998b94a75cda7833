"""What is particular to a script's records: ranks that report nothing, checkpoints inside steps, times from two sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plumbline.harness.training.analysis.records import TrainingRecords, adopt_script, set_saves_apart
from plumbline.harness.training.analysis.script import counted, disagreement, in_bursts
from plumbline.harness.training.plan import FaultPlan
from plumbline.harness.training.worker_protocol import CheckpointSave, RunRecord, ScriptReports, Step


def steps(*numbers: int, from_s: float = 0.0, step_s: float = 1.0) -> list[Step]:
    return [Step(n, from_s + i * step_s, from_s + (i + 1) * step_s, {}, 5.0 - n, other_s=step_s) for i, n in enumerate(numbers)]


def save(step: int, began_s: float, ended_s: float) -> CheckpointSave:
    return CheckpointSave(step, ended_s, ended_s - began_s, ended_s - began_s, 100, closing=False)


def test_a_checkpoint_inside_a_step_is_taken_out_of_it() -> None:
    record = RunRecord(0.0, steps=steps(*range(5)), saves=[save(2, 2.0, 2.4)])
    set_saves_apart(record)
    assert [step.step_s for step in record.steps] == pytest.approx([1, 1, 0.6, 1, 1])
    assert [step.other_s for step in record.steps] == [1, 1, None, 1, 1]
    assert record.saves[0].blocking_s == pytest.approx(0.4)


def test_a_checkpoint_during_several_steps_held_nothing_up() -> None:
    record = RunRecord(0.0, steps=steps(*range(5)), saves=[save(2, 2.0, 3.6)])
    set_saves_apart(record)
    assert [step.step_s for step in record.steps] == [1, 1, 1, 1, 1]
    assert record.saves[0].blocking_s == 0.0
    assert record.saves[0].save_s == pytest.approx(1.6)


def test_a_checkpoint_between_steps_is_all_pause() -> None:
    between = [*steps(0, 1), *steps(2, 3, from_s=2.5)]
    record = RunRecord(0.0, steps=list(between), saves=[save(2, 2.05, 2.45), save(4, 4.5, 4.9)])
    set_saves_apart(record)
    assert [step.step_s for step in record.steps] == [1, 1, 1, 1]
    assert [step.other_s for step in record.steps] == [1, 1, None, 1], "what was seen of the step after it holds the pause"
    assert [round(item.blocking_s, 3) for item in record.saves] == [0.4, 0.4]


def test_the_first_rank_that_reports_speaks_for_the_job() -> None:
    first, last = RunRecord(10.0), RunRecord(20.0, steps=steps(0, 1), saves=[save(1, 0.2, 0.3)], at={"done": 9.0})
    by_rank = {0: first, 1: last}
    adopt_script(first, by_rank)
    assert (list(by_rank), first.silent, first.launched_s, first.at) == ([1], [0], 20.0, {"done": 9.0})
    assert [step.step for step in first.steps] == [0, 1] and len(first.saves) == 1


def test_of_a_job_in_which_no_rank_reports_one_is_left() -> None:
    by_rank = {0: RunRecord(1.0), 1: RunRecord(1.0)}
    adopt_script(by_rank[0], by_rank)
    assert list(by_rank) == [1]


def test_the_goodput_of_a_stretch_that_began_from_scratch_counts_from_its_checkpoint_on() -> None:
    records = TrainingRecords(FaultPlan(4, 6, 8))
    fault = RunRecord(0.0, steps=steps(*range(6)), saves=[save(4, 4.0, 4.5)])
    records.runs = {"fault": fault, "recovery": RunRecord(7.0, steps=steps(4, 5, 6, 7, from_s=10.0), overhead_s=0.5)}
    share, count = records.goodput() or (0.0, 0)
    assert count == 4
    assert share == pytest.approx(4 / (14.0 - 4.5 - 0.5))


def test_times_that_agree_and_times_that_do_not() -> None:
    found = steps(*range(10))
    assert disagreement(found, reported_first=False) == []
    slower = [replace(step, other_s=1.015) for step in found]
    assert disagreement(slower, reported_first=False) == []
    (judged,) = disagreement([replace(step, other_s=0.97) for step in found], reported_first=False)
    assert judged.reason.code == "reported_times_disagree" and "9.7 s as the script reports them and 10 s" in judged.reason.detail
    (judged,) = disagreement([replace(step, other_s=1.1) for step in found], reported_first=True)
    assert "10 s as the script reports them and 11 s" in judged.reason.detail
    assert disagreement([replace(step, other_s=None) for step in found], reported_first=False) == []


def test_a_reader_that_is_late_accuses_no_script() -> None:
    """A busy machine: one report is seen 12 ms late, which the next step gains or a pause swallows; each report takes 0.2 ms to write."""
    short = [replace(step, end_s=step.start_s + 0.02) for step in steps(*range(10))]
    seen = [0.0202, 0.0322, 0.0082, *[0.0202] * 6, 0.0292]
    late = [replace(step, other_s=other) for step, other in zip(short, seen, strict=True)]
    assert disagreement(late, reported_first=True) == []
    brief = [replace(step, end_s=step.start_s + 2e-5, other_s=2.2e-4) for step in short]
    assert disagreement(brief, reported_first=True) == [], "steps of microseconds, between which their reports are written"
    hidden = [replace(step, other_s=0.02 if i % 5 else 0.06) for i, step in enumerate(short)]
    (judged,) = disagreement(hidden, reported_first=True)
    assert judged.reason.code == "reported_times_disagree", "every fifth step leaves most of its time out"


@pytest.mark.parametrize(
    ("bar", "codes"),
    [
        ((None, None), ["steps_counted"]),
        ((100, 390), []),
        ((100, 385), []),
        ((100, 129), ["steps_miscounted"]),
        ((None, 300), ["steps_counted"]),
    ],
)
def test_counted_reports_are_held_against_the_bar(bar: tuple[int | None, int | None], codes: list[str]) -> None:
    found = counted(ScriptReports(all=30, counted=30, bar=bar), every=10)
    assert [each.reason.code for each in found] == codes
    assert all("report.every" in each.reason.detail for each in found)


def test_reports_with_numbers_are_not_counted() -> None:
    assert counted(ScriptReports(all=30, counted=0, bar=(None, None)), every=10) == [] == counted(ScriptReports(), every=1)


def test_output_in_blocks_says_how_to_print_each_line() -> None:
    assert in_bursts(ScriptReports(all=30, in_bursts=10)) == [] == in_bursts(ScriptReports())
    (found,) = in_bursts(ScriptReports(all=30, in_bursts=25))
    assert (found.level, found.reason.code) == ("degraded", "output_buffered") and "flush=True" in found.reason.detail
