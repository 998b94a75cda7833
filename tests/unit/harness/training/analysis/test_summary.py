"""From records to rows, stages, events and evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.analysis.measurement import build_measurement
from plumbline.harness.training.analysis.performance import losses_sha256
from plumbline.harness.training.analysis.records import TrainingRecords, merge_ranks
from plumbline.kinds.arithmetic.flops import flops_per_step

Tiny = Callable[..., TrainingWorkload]


def test_numbers_of_a_whole_trial(tiny: Tiny, records: TrainingRecords, tmp_path: Path) -> None:
    measured = build_measurement(tiny(), records, tmp_path)
    value = {(row.phase, row.metric, row.statistic): row.value for row in measured.metrics}
    assert len(value) == len(measured.metrics)
    assert value["cold_start", "first_step_time", "value"] == pytest.approx(0.1)
    assert value["cold_start", "time_to_first_step", "value"] == pytest.approx(1.1)
    assert value["steady", "step_time", "median"] == pytest.approx(0.1)
    assert value["steady", "step_time", "cv"] == pytest.approx(0.0, abs=1e-9)
    assert value["steady", "tokens_per_second", "median"] == pytest.approx(640)  # 2 × 2 sequences of 16 tokens in 0.1 s
    assert value["steady", "samples_per_second", "median"] == pytest.approx(40)
    flops = 10 * (flops_per_step(tiny()) or 0)
    assert value["steady", "model_flops", "median"] == pytest.approx(flops)
    assert value["steady", "model_flops_utilization", "median"] == pytest.approx(flops / 1e12)
    assert value["steady", "effective_tokens_per_second", "value"] == pytest.approx(640)
    assert value["steady", "data_wait_time", "mean"] == pytest.approx(0.01)
    assert value["steady", "final_loss", "value"] == pytest.approx(3.9)
    assert value["steady", "checkpoint_save_time", "median"] == pytest.approx(0.02)
    assert value["steady", "checkpoint_size", "value"] == 1000
    assert value["cooldown", "checkpoint_load_time", "median"] == pytest.approx(0.02)
    parts = ("restart_detect_time", "restart_launch_time", "restart_recompute_time")
    whole = sum(value["recovery", name, "value"] for name in parts) + value["recovery", "checkpoint_load_time", "median"]
    assert value["recovery", "restart_penalty", "value"] == pytest.approx(whole)
    assert ("recovery", "training_goodput", "value") in value


@pytest.mark.parametrize(("with_loss", "expected"), [((1, 4, 6), 3.3), ((1, 2, 3), None), ((), None), ((7,), 3.2)])
def test_the_final_loss_is_the_newest_one_of_a_bar_that_is_refreshed_now_and_then(
    tiny: Tiny, records: TrainingRecords, tmp_path: Path, with_loss: tuple[int, ...], expected: float | None
) -> None:
    steps = records.runs["run"].steps
    for number, step in enumerate(steps[-8:]):
        object.__setattr__(step, "loss", 3.9 - number / 10 if number in with_loss else None)
    for step in steps[:-8]:
        object.__setattr__(step, "loss", None)
    rows = build_measurement(tiny(), records, tmp_path).metrics
    assert [row.value for row in rows if row.metric == "final_loss"] == ([] if expected is None else [pytest.approx(expected)])


def test_intervals_stay_on_their_side_of_a_rate(tiny: Tiny, records: TrainingRecords, tmp_path: Path) -> None:
    for i, step in enumerate(records.runs["run"].steps):
        object.__setattr__(step, "end_s", step.start_s + 0.1 + 0.001 * i)
    rows = {
        row.metric: row
        for row in build_measurement(tiny(), records, tmp_path).metrics
        if row.phase == "steady" and row.statistic == "median"
    }
    for name in ("step_time", "tokens_per_second", "samples_per_second", "model_flops", "model_flops_utilization"):
        row = rows[name]
        assert row.ci_low is not None and row.value is not None and row.ci_high is not None
        assert row.ci_low < row.value < row.ci_high


def test_stages_cover_the_steady_steps_and_leave_out_the_rest(tiny: Tiny, records: TrainingRecords, tmp_path: Path) -> None:
    stages = {stage.stage: stage for stage in build_measurement(tiny(), records, tmp_path).stages}
    assert sum(stages[name].total_s for name in ("data_wait", "forward", "backward", "optimizer")) == pytest.approx(1.0)
    assert stages["forward"].n == 10
    assert (stages["checkpoint"].n, stages["checkpoint"].total_s) == (3, pytest.approx(0.06))


def test_evidence_has_a_row_a_step(tiny: Tiny, records: TrainingRecords, tmp_path: Path) -> None:
    (tmp_path / "run.worker.log").write_text("a warning\n")
    (tmp_path / "fault.worker.log").touch()
    steps, attempts, log = build_measurement(tiny(), records, tmp_path).evidence
    assert (attempts.kind, attempts.rows) == ("attempts", 3)
    assert (steps.kind, steps.rows, log.path.name) == ("steps", 18, "run.worker.log")
    rows = pq.read_table(steps.path).to_pylist()
    assert [r["phase"] for r in rows if r["run"] == "run"] == ["cold_start", "warmup", *["steady"] * 10]
    assert {r["run"]: r["phase"] for r in rows if r["run"] != "run"} == {"fault": "fault", "recovery": "recovery"}
    assert [r["step"] for r in rows if r["run"] == "run" and r["checkpoint_s"] is not None] == [3, 7, 11]


def test_events_are_in_order_on_both_clocks(tiny: Tiny, records: TrainingRecords, tmp_path: Path) -> None:
    events = build_measurement(tiny(), records, tmp_path).events
    assert [e.name for e in events] == [
        "training_launched",
        "first_step_done",
        "steady_begun",
        "steady_ended",
        "rank_killed",
        "rank_death_detected",
        "training_relaunched",
        "state_loaded",
        "lost_step_done_again",
        "training_done",
    ]
    assert [e.utc for e in events] == sorted(e.utc for e in events)


def test_guarantees_are_only_what_was_checked(tiny: Tiny, records: TrainingRecords, tmp_path: Path) -> None:
    measured = build_measurement(tiny(), records, tmp_path)
    assert measured.guarantees == ["checkpoint_restored_exactly", "losses_continue_exactly"]
    assert measured.hashes == {"data": "a" * 64, "initial_weights": "b" * 64, "losses": losses_sha256(records.runs["run"].steps)}
    assert measured.seeds == {"model": 3, "data": 5, "training": 1}
    records.runs["run"].restored_exactly = None
    del records.runs["fault"], records.runs["recovery"]
    records.incidents = []
    assert build_measurement(tiny(), records, tmp_path).guarantees == []


def test_deterministic_algorithms_are_guaranteed_when_declared_switched_on_and_not_refused(
    tiny: Tiny, records: TrainingRecords, tmp_path: Path
) -> None:
    run, wanted = records.runs["run"], tiny(deterministic=True)
    assert "deterministic_algorithms" not in build_measurement(wanted, records, tmp_path).guarantees
    run.facts = {"torch.deterministic_algorithms": True}
    assert "deterministic_algorithms" in build_measurement(wanted, records, tmp_path).guarantees
    assert "deterministic_algorithms" not in build_measurement(tiny(), records, tmp_path).guarantees, "nobody asked for it"
    run.steps = run.steps[:-1]
    cut = build_measurement(wanted, records, tmp_path)
    assert "deterministic_algorithms" not in cut.guarantees and "losses" not in cut.hashes, "it may yet have been refused"


def test_a_trial_that_never_began_has_no_numbers(tiny: Tiny, tmp_path: Path) -> None:
    measured = build_measurement(tiny(), TrainingRecords(None), tmp_path)
    assert (measured.metrics, measured.stages, measured.events, measured.evidence) == ([], [], [], [])


def test_of_several_ranks_rates_are_the_jobs_and_every_rank_has_its_rows(tiny: Tiny, records: TrainingRecords, tmp_path: Path) -> None:
    run = records.runs["run"]
    run.steps = [replace(step, stages={**step.stages, "gradient_sync": 0.0}) for step in run.steps]
    run.by_rank = {0: run.steps, 1: [replace(step, stages={**step.stages, "gradient_sync": 0.03, "backward": 0.02}) for step in run.steps]}
    run.steps = merge_ranks(run.by_rank)
    workload = tiny(needs={"accelerator": "cpu", "count": 2}, parallelism={"processes": 2})
    (tmp_path / "run.worker.log").write_text("a warning\n")
    (tmp_path / "run.rank1.worker.log").write_text("another\n")
    measured = build_measurement(workload, records, tmp_path)
    value = {(row.phase, row.metric, row.statistic): row.value for row in measured.metrics}
    assert value["steady", "tokens_per_second", "median"] == pytest.approx(2 * 640)
    assert value["steady", "samples_per_second", "median"] == pytest.approx(2 * 40)
    assert value["steady", "effective_tokens_per_second", "value"] == pytest.approx(2 * 640)
    flops = 10 * (flops_per_step(workload) or 0)
    assert value["steady", "model_flops", "median"] == pytest.approx(2 * flops)
    assert value["steady", "model_flops_utilization", "median"] == pytest.approx(flops / 1e12), "of two devices"
    steps, _, *logs = measured.evidence
    assert [log.path.name for log in logs] == ["run.worker.log", "run.rank1.worker.log"]
    rows = [row for row in pq.read_table(steps.path).to_pylist() if row["run"] == "run"]
    assert [row["rank"] for row in rows] == [0] * 12 + [1] * 12
    assert [row["step"] for row in rows if row["checkpoint_s"] is not None] == [3, 7, 11], "rank 0 alone writes them"
    assert {row["gradient_sync_s"] for row in rows} == {0.0, 0.03}
    assert "gradient_sync" in {stage.stage for stage in measured.stages}
