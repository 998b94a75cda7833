"""Curves of a training: every step is in one point of one phase, and the parts of a curve make up the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.harness.training.conftest import a_step

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.analysis.performance import MAX_CURVE_POINTS, build_curves, losses_sha256, performance_rows
from plumbline.harness.training.analysis.records import TrainingRecords
from plumbline.results import Curve

Tiny = Callable[..., TrainingWorkload]


def named(found: list[Curve], metric: str) -> dict[str, Curve]:
    return {curve.phase: curve for curve in found if curve.metric == metric}


def test_the_loss_runs_along_the_steps_of_each_phase(tiny: Tiny, records: TrainingRecords) -> None:
    loss = named(build_curves(tiny(), records.undisturbed(tiny().steps)), "training_loss")
    assert [(phase, [point.at for point in curve.points]) for phase, curve in loss.items()] == [
        ("cold_start", [0]),
        ("warmup", [1]),
        ("steady", list(range(2, 12))),
    ]
    assert [point.value for point in loss["steady"].points] == pytest.approx([5.0 - step / 10 for step in range(2, 12)])


def test_throughput_over_time_makes_up_the_whole_runs(tiny: Tiny, records: TrainingRecords) -> None:
    run = records.runs["run"]
    run.steps = [*run.steps[:8], *(replace(step, start_s=step.start_s + 1.2, end_s=step.end_s + 1.2) for step in run.steps[8:])]
    points = [
        point
        for curve in named(build_curves(tiny(), records.undisturbed(tiny().steps)), "effective_tokens_per_second").values()
        for point in curve.points
    ]
    assert points[7].value == pytest.approx(640) and points[8].value == pytest.approx(64 / 1.3), "the pause before it is its own"
    seconds = sum(64 * point.n / (point.value or math.nan) for point in points)
    (whole,) = [
        row.value
        for row in performance_rows(tiny(), records.undisturbed(tiny().steps))
        if (row.metric, row.statistic) == ("effective_tokens_per_second", "value")
    ]
    assert 64 * 12 / seconds == pytest.approx(whole)
    assert points[0].at == pytest.approx(0.05) and points[8].at == pytest.approx((0.8 + 2.1) / 2)


def test_of_a_long_run_points_are_means_and_no_step_is_left_out(tiny: Tiny, records: TrainingRecords) -> None:
    workload = tiny(steps={"discard": 100, "measure": 2900}, fault=None)
    records.runs["run"].steps = [a_step(i, 10 + 0.1 * i, loss=float(i)) for i in range(3000)]
    loss = named(build_curves(workload, records.undisturbed(workload.steps)), "training_loss")
    assert sum(len(curve.points) for curve in loss.values()) <= MAX_CURVE_POINTS
    assert sum(point.n for curve in loss.values() for point in curve.points) == 3000
    assert all(point.value == pytest.approx(point.at) for curve in loss.values() for point in curve.points)


def test_a_loss_that_is_no_number_is_absent(tiny: Tiny, records: TrainingRecords) -> None:
    run = records.runs["run"]
    run.steps[5] = replace(run.steps[5], loss=math.nan)
    points = named(build_curves(tiny(), records.undisturbed(tiny().steps)), "training_loss")["steady"].points
    assert [point.at for point in points if point.value is None] == [5]


def test_ranks_have_their_own_times_and_what_they_did_themselves(tiny: Tiny, records: TrainingRecords) -> None:
    run = records.runs["run"]
    assert not named(build_curves(tiny(), records.undisturbed(tiny().steps)), "step_time"), "one process is no rank among others"

    def rank(wait_s: float) -> list:  # type: ignore[type-arg]
        return [replace(step, stages={**step.stages, "gradient_sync": wait_s}) for step in run.steps]

    run.by_rank = {0: rank(0.04), 1: rank(0.0)}
    found = build_curves(tiny(), records.undisturbed(tiny().steps))
    assert [point.value for point in named(found, "step_time")["steady"].points] == pytest.approx([0.1, 0.1])
    busy = named(found, "rank_busy_time")["steady"]
    assert (busy.along, [point.at for point in busy.points]) == ("rank", [0, 1])
    assert [point.value for point in busy.points] == pytest.approx([0.06, 0.1]), "rank 1 is the one that the other waits for"
    run.by_rank = {0: list(run.steps), 1: list(run.steps)}
    assert not named(build_curves(tiny(), records.undisturbed(tiny().steps)), "rank_busy_time"), "nobody told waiting apart"


def test_losses_have_one_hash_that_every_bit_changes(records: TrainingRecords) -> None:
    steps = records.runs["run"].steps
    again = [replace(step, start_s=step.start_s + 9, end_s=step.end_s + 9.5) for step in steps]
    assert losses_sha256(again) == losses_sha256(steps), "how long they took is another matter"
    again[3] = replace(again[3], loss=math.nextafter(again[3].loss, 9))
    assert losses_sha256(again) != losses_sha256(steps)


def test_nothing_done_is_no_curve(tiny: Tiny) -> None:
    assert build_curves(tiny(), TrainingRecords(None).undisturbed(tiny().steps)) == []


@pytest.mark.parametrize("together", [3, 12])
def test_steps_that_were_done_before_anything_was_seen_have_no_rate(tiny: Tiny, records: TrainingRecords, together: int) -> None:
    run = records.runs["run"]
    first = [replace(step, start_s=10.0 + 0.1 * together, end_s=10.0 + 0.1 * together, timed=False) for step in run.steps[:together]]
    run.steps = [*first, *run.steps[together:]]
    undisturbed = records.undisturbed(tiny().steps)
    assert [step.step for step in undisturbed.measured] == list(range(together, 12))
    curves = named(build_curves(tiny(), undisturbed), "effective_tokens_per_second").values()
    values = [point.value for curve in curves for point in curve.points]
    assert values == [pytest.approx(640)] * (12 - together)
    whole = [
        row for row in performance_rows(tiny(), undisturbed) if (row.metric, row.statistic) == ("effective_tokens_per_second", "value")
    ]
    assert [(row.value, row.n) for row in whole] == ([(pytest.approx(640), 9)] if together == 3 else [])
