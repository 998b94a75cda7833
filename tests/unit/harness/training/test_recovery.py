"""What broke off, as rows, events, evidence and judgements."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from plumbline.harness.training import recovery
from plumbline.harness.training.attempts import Incident
from plumbline.harness.training.records import Records


def test_a_trial_in_which_nothing_broke_off(records: Records, tmp_path: Path) -> None:
    records.incidents = []
    del records.runs["fault"], records.runs["recovery"]
    assert recovery.rows(records) == [] and recovery.moments(records) == [] and recovery.evidence(records, tmp_path) == []
    assert recovery.unplanned(records) == []


def test_a_planned_restart_is_counted_and_blames_nobody(records: Records, tmp_path: Path) -> None:
    rows = {row.metric: row.value for row in recovery.rows(records)}
    assert rows["training_restarts"] == 1 and "restart_penalty" in rows and "training_goodput" in rows
    assert recovery.unplanned(records) == []
    (file,) = recovery.evidence(records, tmp_path)
    lines = pq.read_table(file.path).to_pylist()
    assert [(line["run"], line["first_step"], line["last_step"], line["ending"]) for line in lines] == [
        ("run", 0, 11, None),
        ("fault", 4, 5, "rank_kill"),
        ("recovery", 4, 7, None),
    ]
    assert lines[1]["made_up_for"] and lines[2]["detect_s"] is None


def test_an_unplanned_restart_degrades_the_trial_and_says_what_it_cost(records: Records) -> None:
    records.incidents = [Incident("fault", "unplanned", 30.0, 30.2, 6, failure_class="interrupted", detail="it was killed")]
    (found,) = recovery.unplanned(records)
    assert (found.level, found.reason.code) == ("degraded", "unplanned_restart")
    assert found.reason.detail == (
        "training broke off 1 times by itself and was started again, which cost 2 s: unplanned of fault in step 6: it was killed "
        "(detect 0.2 s, launch 1 s, load 0.5 s, recompute 0.3 s)"
    )


def test_each_ending_has_its_events(records: Records) -> None:
    names = [name for name, _ in recovery.moments(records)]
    assert names == ["rank_killed", "rank_death_detected", "training_relaunched", "state_loaded", "lost_step_done_again", "training_done"]
    records.incidents = [Incident("fault", "rank_hang", 30.0, 30.2, 9)]
    names = [name for name, _ in recovery.moments(records)]
    assert names == ["rank_stopped", "hang_noticed", "training_relaunched", "state_loaded", "training_done"], "step 9 was never done again"
