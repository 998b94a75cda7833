"""What the records of a trial say about its recovery."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from plumbline.harness.training.records import Records


def test_the_parts_of_the_restart_add_up(records: Records) -> None:
    parts = records.recovery()
    assert parts is not None
    assert (parts.detect_s, parts.launch_s, parts.load_s) == pytest.approx((0.2, 1.0, 0.5))
    assert parts.recompute_s == pytest.approx(0.3)  # steps 4, 5 and the killed 6
    lost_step_done_again = records.runs["recovery"].steps[2].end_s
    assert records.restart is not None
    assert parts.penalty_s == pytest.approx(lost_step_done_again - records.restart.killed_s)


def test_no_recovery_before_the_killed_step_is_done_again(records: Records) -> None:
    records.runs["recovery"].steps = records.runs["recovery"].steps[:2]
    assert records.recovery() is None
    assert records.goodput() is None


def test_goodput_counts_each_step_once_over_the_whole_stretch(records: Records) -> None:
    goodput = records.goodput()
    assert goodput is not None
    share, steps = goodput
    assert steps == 4
    assert share == pytest.approx(0.4 / (32.15 - 29.5))  # from the first step after the load to the next checkpoint being durable


def test_losses_that_continue_exactly(records: Records) -> None:
    assert records.diverged() == []


def test_the_smallest_difference_in_a_loss_counts(records: Records) -> None:
    steps = records.runs["recovery"].steps
    steps[1] = replace(steps[1], loss=math.nextafter(steps[1].loss, 9.0))
    assert records.diverged() == [5]


def test_a_trial_without_a_fault_has_neither(records: Records) -> None:
    records.fault = None
    del records.runs["fault"], records.runs["recovery"]
    assert records.recovery() is None and records.goodput() is None and records.diverged() is None
