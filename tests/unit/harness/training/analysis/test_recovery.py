"""What broke off, as rows, events, evidence and judgements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from plumbline.declarations.workloads.training import TrainingWorkload
from plumbline.harness.training.analysis import recovery
from plumbline.harness.training.analysis.records import TrainingIncident, TrainingRecords


def test_a_trial_in_which_nothing_broke_off(records: TrainingRecords, tmp_path: Path) -> None:
    records.incidents = []
    del records.runs["fault"], records.runs["recovery"]
    assert (
        recovery.recovery_rows(records) == []
        and recovery.recovery_moments(records) == []
        and recovery.attempts_evidence(records, tmp_path) == []
    )
    assert recovery.unplanned_restarts(records) == []


def test_a_planned_restart_is_counted_and_blames_nobody(records: TrainingRecords, tmp_path: Path) -> None:
    rows = {row.metric: row.value for row in recovery.recovery_rows(records)}
    assert rows["training_restarts"] == 1 and "restart_penalty" in rows and "training_goodput" in rows
    assert recovery.unplanned_restarts(records) == []
    (file,) = recovery.attempts_evidence(records, tmp_path)
    lines = pq.read_table(file.path).to_pylist()
    assert [(line["run"], line["first_step"], line["last_step"], line["ending"]) for line in lines] == [
        ("run", 0, 11, None),
        ("fault", 4, 5, "rank_kill"),
        ("recovery", 4, 7, None),
    ]
    assert lines[1]["made_up_for"] and lines[2]["detect_s"] is None


def test_what_loads_nothing_has_no_time_of_loading(records: TrainingRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = records.recovery() or {}
    assert "checkpoint_load_time" in {row.metric for row in recovery.recovery_rows(records)}
    monkeypatch.setattr(TrainingRecords, "recovery", lambda _: parts | {"load_s": 0.0})
    rows = {row.metric: row.value for row in recovery.recovery_rows(records)}
    assert "checkpoint_load_time" not in rows and rows["restart_penalty"] == pytest.approx(sum(parts.values()) - parts["load_s"])


def test_an_unplanned_restart_degrades_the_trial_and_says_what_it_cost(records: TrainingRecords) -> None:
    records.incidents = [TrainingIncident("fault", "unplanned", 30.0, 30.2, 6, failure_class="interrupted", detail="it was killed")]
    (found,) = recovery.unplanned_restarts(records)
    assert (found.level, found.reason.code) == ("degraded", "unplanned_restart")
    assert found.reason.detail.startswith("1 unplanned") and "cost 2 s" in found.reason.detail


def test_each_ending_has_its_events(records: TrainingRecords) -> None:
    names = [name for name, _ in recovery.recovery_moments(records)]
    assert names == ["rank_killed", "rank_death_detected", "training_relaunched", "state_loaded", "lost_step_done_again", "training_done"]
    records.incidents = [TrainingIncident("fault", "pod_delete", 30.0, 30.2, 9)]
    names = [name for name, _ in recovery.recovery_moments(records)]
    assert names == ["pod_deleted", "pod_seen_gone", "training_relaunched", "state_loaded", "training_done"], "step 9 was never done again"


def test_losses_that_continue_on_a_cpu_are_the_same_to_the_bit(tiny: Callable[..., TrainingWorkload], records: TrainingRecords) -> None:
    assert recovery.loss_guarantees(tiny(), records) == ["losses_continue_exactly"]
    steps = records.runs["recovery"].steps
    steps[1] = replace(steps[1], loss=steps[1].loss * 1.001)
    assert recovery.loss_guarantees(tiny(), records) == []
    assert records.diverged(recovery.loss_tolerance(tiny())) == [5]


def test_on_a_gpu_they_may_differ_a_little_unless_it_was_to_be_deterministic(
    tiny: Callable[..., TrainingWorkload], records: TrainingRecords
) -> None:
    steps = records.runs["recovery"].steps
    steps[1] = replace(steps[1], loss=steps[1].loss * 1.001)
    gpu = {"needs": {"accelerator": "nvidia"}}
    assert recovery.loss_guarantees(tiny(**gpu), records) == ["losses_continue_closely"]
    assert recovery.loss_guarantees(tiny(**gpu, deterministic=True), records) == []
    steps[1] = replace(steps[1], loss=steps[1].loss * 1.1)
    assert recovery.loss_guarantees(tiny(**gpu), records) == []
    steps[1] = replace(steps[1], loss=float("nan"))
    assert records.diverged(recovery.loss_tolerance(tiny(**gpu))) == [5]
