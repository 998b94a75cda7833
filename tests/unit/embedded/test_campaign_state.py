"""What a campaign in progress looks like."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from plumbline.embedded.campaign import CampaignState, TrialState, seconds_left, update_states
from plumbline.embedded.client import TaskInstance
from plumbline.harness.launcher_protocol import ProgressLine

NOW = datetime(2026, 11, 1, 2, 10, tzinfo=timezone.utc)


def trial(number: int = 1, **changes: object) -> TrialState:
    values = {"trial_id": f"t{number}", "provider": "p", "kind": "training", "workload": "w", "slot": "02:00", "repeat": number}
    return TrialState(**{**values, **changes})  # type: ignore[arg-type]


def task(state: str | None, began_s: float | None = 30, ended_s: float | None = None, try_number: int = 1) -> TaskInstance:
    began = None if began_s is None else NOW - timedelta(seconds=began_s)
    ended = None if ended_s is None else NOW - timedelta(seconds=ended_s)
    return TaskInstance(
        task_id="training.trial.run", map_index=0, state=state, try_number=try_number, name=None, started_at=began, ended_at=ended
    )


def test_a_trial_without_a_task_waits() -> None:
    assert trial().after(None, None, NOW).phase == "waiting"
    assert trial().after(task("queued", None), None, NOW).phase == "waiting"


def test_a_running_trial_shows_its_own_progress() -> None:
    line = ProgressLine("t1", "steady", 0.4, "40 of 100 steps")
    seen = trial().after(task("running"), line, NOW)
    assert (seen.phase, seen.fraction, seen.doing, seen.note, seen.seconds) == ("running", 0.4, "steady", line.note, 30)


def test_between_two_lines_of_progress_the_last_one_stands() -> None:
    before = trial(fraction=0.4, doing="steady", phase="running")
    assert before.after(task("running"), None, NOW).fraction == 0.4


@pytest.mark.parametrize(
    ("state", "phase"), [("success", "measured"), ("failed", "failed"), ("upstream_failed", "not_run"), ("skipped", "not_run")]
)
def test_how_a_trial_ends(state: str, phase: str) -> None:
    ended = trial().after(task(state, 30, 10), None, NOW)
    assert ended.phase == phase
    assert ended.ended
    assert ended.seconds == (20 if phase in ("measured", "failed") else None)


def test_a_trial_that_is_tried_again_waits_and_says_so() -> None:
    again = trial(fraction=0.7, phase="running").after(task("up_for_retry", 30, 10, try_number=2), None, NOW)
    assert (again.phase, again.fraction, again.doing) == ("waiting", 0.0, "again")


def test_observed_matches_tasks_by_trial() -> None:
    first, second = update_states([trial(1), trial(2)], {"t2": task("success", 30, 5)}, {}, NOW)
    assert (first.phase, second.phase) == ("waiting", "measured")
    state = CampaignState("c", "measuring", (first, second))
    assert (state.ended, state.running) == (1, ())


def test_nothing_is_estimated_before_the_first_trial_ended() -> None:
    assert seconds_left([trial(1, phase="running", seconds=10.0), trial(2)], 10.0) is None


def test_time_left_goes_by_trials_of_the_same_workload_and_by_what_passes_between_trials() -> None:
    done = [trial(1, phase="measured", seconds=20.0), trial(2, phase="measured", seconds=60.0, workload="v")]
    waiting = [trial(3), trial(4, workload="v")]
    assert seconds_left([*done, *waiting], 80.0) == pytest.approx(80.0)
    assert seconds_left([*done, *waiting], 120.0) == pytest.approx(120.0), "half as much again passed between them"


def test_time_left_shrinks_while_a_trial_runs_and_is_never_negative() -> None:
    done = trial(1, phase="measured", seconds=20.0)
    early = seconds_left([done, trial(2, phase="running", seconds=5.0, fraction=0.2)], 25.0)
    late = seconds_left([done, trial(2, phase="running", seconds=50.0, fraction=0.9)], 70.0)
    assert early is not None
    assert late is not None
    assert early > late >= 0
    assert seconds_left([done], 20.0) == 0
