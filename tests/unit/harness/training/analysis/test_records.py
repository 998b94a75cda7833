"""What the records of a trial say about its recovery."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.unit.harness.training.conftest import a_step

from plumbline.declarations.workloads.training import Steps
from plumbline.harness.training.analysis.records import TrainingIncident, TrainingRecords
from plumbline.harness.training.worker_protocol import RunRecord

STEPS = Steps(discard=2, measure=10)


def test_the_parts_of_the_restart_add_up(records: TrainingRecords) -> None:
    parts = records.recovery()
    assert parts is not None
    assert [parts[part] for part in ("detect_s", "launch_s", "load_s")] == pytest.approx([0.2, 1.0, 0.5])
    assert parts["recompute_s"] == pytest.approx(0.3)  # steps 4, 5 and the killed 6
    lost_step_done_again = records.runs["recovery"].steps[2].end_s
    assert sum(parts.values()) == pytest.approx(lost_step_done_again - records.incidents[0].began_s)


def test_no_recovery_before_the_killed_step_is_done_again(records: TrainingRecords) -> None:
    records.runs["recovery"].steps = records.runs["recovery"].steps[:2]
    assert records.recovery() is None
    assert records.goodput() is None


def test_goodput_counts_each_step_once_over_the_whole_stretch(records: TrainingRecords) -> None:
    goodput = records.goodput()
    assert goodput is not None
    share, steps = goodput
    assert steps == 4
    assert share == pytest.approx(0.4 / (32.15 - 29.5))  # from the first step after the load to the next checkpoint being durable


def test_losses_that_continue_exactly(records: TrainingRecords) -> None:
    assert records.diverged() == []


def test_the_smallest_difference_in_a_loss_counts(records: TrainingRecords) -> None:
    steps = records.runs["recovery"].steps
    steps[1] = replace(steps[1], loss=math.nextafter(steps[1].loss, 9.0))
    assert records.diverged() == [5]


def test_a_trial_without_a_fault_has_neither(records: TrainingRecords) -> None:
    records.fault, records.incidents = None, []
    del records.runs["fault"], records.runs["recovery"]
    assert records.recovery() is None and records.goodput() is None and records.diverged() is None


@pytest.fixture
def broken(records: TrainingRecords) -> TrainingRecords:
    """The undisturbed run broke off by itself in step 9 and went on from the checkpoint after 8 steps."""
    first = records.runs["run"]
    again = RunRecord(12.0, at={"load_begin": 13.0, "load_end": 13.5}, steps=[a_step(i, 13.5 + 0.1 * (i - 8)) for i in range(8, 12)])
    again.restored_exactly = True
    first.steps, first.saves = first.steps[:9], first.saves[:2]
    records.runs = {"run": first, "run-2": again, "fault": records.runs["fault"], "recovery": records.runs["recovery"]}
    records.incidents.insert(0, TrainingIncident("run", "unplanned", 11.0, 11.0, 9))
    return records


def test_an_undisturbed_run_that_broke_off_goes_on_in_the_next_attempt(broken: TrainingRecords) -> None:
    whole = broken.undisturbed(STEPS).record
    assert [step.step for step in whole.steps] == list(range(12))
    assert (whole.launched_s, whole.steps[8].start_s, whole.restored_exactly) == (9.0, 13.5, True)
    assert whole.facts == {"torch.threads": 2}
    assert [save.step for save in whole.saves] == [4, 8]


def test_steps_after_a_restart_are_as_cold_as_the_first(broken: TrainingRecords) -> None:
    assert [step.step for step in broken.undisturbed(STEPS).steady] == [2, 3, 4, 5, 6, 7, 10, 11]


def test_a_restart_that_nobody_planned_is_no_part_of_the_penalty(broken: TrainingRecords) -> None:
    unplanned, planned = broken.restarts()
    assert (unplanned.incident.run, unplanned.after, planned.incident.run, planned.after) == ("run", "run-2", "fault", "recovery")
    assert unplanned.complete and unplanned.penalty_s == pytest.approx(13.7 - 11.0)
    parts = broken.recovery()
    assert parts is not None and sum(parts.values()) == pytest.approx(planned.penalty_s)
    assert broken.diverged() == []


def test_several_attempts_make_one_stretch(records: TrainingRecords) -> None:
    records.runs = {
        "run": records.runs["run"],
        "fault": records.runs["fault"],
        "fault-2": RunRecord(30.3, at={"load_begin": 30.5, "load_end": 30.6}, steps=[a_step(4, 30.6), a_step(5, 30.7)]),
        "recovery": records.runs["recovery"],
    }
    records.incidents.append(TrainingIncident("fault-2", "rank_kill", began_s=30.85, noticed_s=30.9, step=6))
    parts, goodput = records.recovery(), records.goodput()
    assert parts is not None and goodput is not None
    assert sum(parts.values()) == pytest.approx(records.runs["recovery"].steps[2].end_s - 30.0)
    assert goodput == (pytest.approx(0.4 / (32.15 - 29.5)), 4)
    assert records.next_name("fault") == "fault-3" and records.next_name("recovery") == "recovery-2"


def test_names_begin_without_a_number(records: TrainingRecords) -> None:
    records.runs.clear()
    assert records.next_name("run") == "run"
    run = records.undisturbed(STEPS)
    assert (run.record.steps, run.measured, run.steady) == ([], [], [])


def test_steps_that_were_still_warming_up_are_measured_but_not_steady(records: TrainingRecords) -> None:
    run = records.runs["run"]
    run.steps = [a_step(i, 10.0 + i, 0.2 if i < 20 else 0.1) for i in range(100)]
    undisturbed = records.undisturbed(Steps(discard=2, measure=98))
    assert [step.step for step in undisturbed.measured] == list(range(2, 100))
    first = undisturbed.steady[0].step
    assert 20 <= first <= 25
