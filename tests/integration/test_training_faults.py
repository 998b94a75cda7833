"""Training that breaks off, on purpose and by itself: real processes, a tiny model."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from tests.integration.test_training import codes, run, workers

from plumbline.harness.measurement import Measurement, TrialFailed
from plumbline.results import FAILED_AS_DECLARED

PARTS = ("detect_s", "launch_s", "load_s", "recompute_s")
TWO_RANKS = {"needs": {"accelerator": "cpu", "count": 2}, "parallelism": {"processes": 2}}
LONG = {"steps": {"discard": 3, "measure": 150}, "checkpoint": {"every": 25, "keep": 2}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home of its own; and no test leaves a process behind."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    yield
    assert workers() == []


def evidence(measured: Measurement, kind: str) -> list[dict[str, Any]]:
    (found,) = [item for item in measured.evidence if item.kind == kind]
    return pq.read_table(found.path).to_pylist()  # type: ignore[no-any-return]


def values(measured: Measurement) -> dict[str, float | None]:
    return {row.metric: row.value for row in measured.metrics if row.phase == "recovery"}


def done(measured: Measurement) -> dict[str, list[int]]:
    """Steps of rank 0 by run."""
    found: dict[str, list[int]] = {}
    for row in evidence(measured, "steps"):
        if row["rank"] == 0:
            found.setdefault(row["run"], []).append(row["step"])
    return found


def gap(measured: Measurement, before: str, after: str, lost: int) -> float:
    """What the steps' own clock says: from the last step that ended before the fault to the lost one being done again."""
    rows = [row for row in evidence(measured, "steps") if row["rank"] == 0]
    last = max(row["start_s"] + row["step_s"] for row in rows if row["run"] == before)
    again = next(row["start_s"] + row["step_s"] for row in rows if row["run"] == after and row["step"] == lost)
    return again - last


def check_recovered(measured: Measurement, before: str, lost: int) -> None:
    """The losses are those of the undisturbed run, and the parts of the penalty make up the gap."""
    assert "losses_continue_exactly" in measured.guarantees
    assert not codes(measured) & {"losses_diverge_after_resume", "checkpoint_damaged", "unplanned_restart"}
    value = values(measured)
    parts = [value["restart_detect_time"], value["restart_launch_time"], value["checkpoint_load_time"], value["restart_recompute_time"]]
    assert all(part is not None and part > 0 for part in parts)
    assert sum(part or 0.0 for part in parts) == pytest.approx(value["restart_penalty"])
    assert value["restart_penalty"] == pytest.approx(gap(measured, before, "recovery", lost), rel=0.05)
    assert 0 < (value["training_goodput"] or 0.0) < 1


@pytest.mark.full
@pytest.mark.fault(
    "all ranks of a node killed during training", ends="valid, with its restart penalty", keeps="checkpoints; losses continue exactly"
)
def test_all_ranks_of_a_node_killed_at_once(tmp_path: Path) -> None:
    measured = run(tmp_path, **TWO_RANKS, fault={"inject": "group_kill", "at_step": 10})
    check_recovered(measured, "fault", lost=10)
    assert done(measured) == {"run": list(range(20)), "fault": [6, 7, 8, 9], "recovery": [6, 7, 8, 9, 10, 11]}
    assert "group_killed" in {event.name for event in measured.events}


@pytest.mark.full
@pytest.mark.fault("a rank killed twice", ends="valid, with its restart penalty", keeps="checkpoints; each attempt in the evidence")
def test_killed_again_and_again_it_recovers_with_the_same_losses(tmp_path: Path) -> None:
    measured = run(tmp_path, fault={"inject": "rank_kill", "at_step": 10, "times": 2}, restarts=2)
    check_recovered(measured, "fault", lost=10)
    assert list(done(measured)) == ["run", "fault", "fault-2", "recovery"]
    assert values(measured)["training_restarts"] == 2
    first, second = [row for row in evidence(measured, "attempts") if row["ending"]]
    assert (first["made_up_for"], second["made_up_for"]) == (False, True)
    lost = sum(first[part] for part in (*PARTS, "checksum_s"))
    assert lost == pytest.approx(second["began_s"] - first["began_s"], abs=1e-6), "the second attempt was in vain"


@pytest.mark.full
@pytest.mark.fault("a rank killed on every attempt", ends="interrupted", keeps="the phases before; each attempt in the evidence")
def test_killed_on_every_attempt_it_fails_and_every_attempt_is_kept(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed) as caught:
        run(tmp_path, fault={"inject": "rank_kill", "at_step": 10, "times": 9}, restarts=1)
    failure = caught.value
    assert failure.failure_class == "interrupted"
    assert "restarts = 1" in failure.detail
    kept = failure.partial
    assert [(row["run"], row["ending"], row["lost_step"]) for row in evidence(kept, "attempts")] == [
        ("run", None, None),
        ("fault", "rank_kill", 10),
        ("fault-2", "rank_kill", 10),
    ]
    assert [event.name for event in kept.events].count("rank_killed") == 2
    assert values(kept) == {"training_restarts": 1}, "nothing was made up for"
    assert FAILED_AS_DECLARED in codes(kept), "the fault alone sees to that: another try would end alike"
    assert any(row.phase == "steady" and row.metric == "step_time" for row in kept.metrics)


@pytest.mark.full
@pytest.mark.fault("killed while a checkpoint is written", ends="valid, with its restart penalty", keeps="the checkpoint before it")
def test_killed_in_a_checkpoint_it_resumes_from_the_one_before(tmp_path: Path) -> None:
    measured = run(tmp_path, fault={"inject": "checkpoint_kill", "at_step": 11})
    check_recovered_checkpoint(measured)


def check_recovered_checkpoint(measured: Measurement) -> None:
    assert done(measured) == {"run": list(range(20)), "fault": [6, 7, 8, 9, 10, 11], "recovery": [6, 7, 8, 9, 10, 11]}
    assert "losses_continue_exactly" in measured.guarantees
    written = {row["run"]: row["checkpoint_s"] for row in evidence(measured, "steps") if (row["step"], row["rank"]) == (11, 0)}
    assert written["fault"] is None and written["recovery"] is not None
    value = values(measured)
    again = gap(measured, "fault", "recovery", 11) + written["recovery"]
    assert value["restart_penalty"] == pytest.approx(again, rel=0.05)


def when(condition: Callable[[psutil.Process], bool], action: Callable[[psutil.Process], object], times: int = 1) -> threading.Thread:
    """Do something to each of the first workers of which something is so."""

    def wait() -> None:
        seen: set[int] = set()
        while len(seen) < times:
            with suppress(psutil.Error):  # a process that ended between being listed and being looked at
                for worker in workers():
                    if worker.pid not in seen and condition(worker):
                        seen.add(worker.pid)
                        action(worker)
            time.sleep(0.02)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def has_saved(work: Path) -> Callable[[psutil.Process], bool]:
    return lambda worker: any((work / "checkpoints").glob("step-" + "[0-9]" * 8))


@pytest.mark.full
@pytest.mark.fault("a rank killed from outside the plan", ends="degraded (unplanned_restart)", keeps="checkpoints; losses continue exactly")
def test_a_rank_killed_by_somebody_else_is_started_again_and_the_trial_says_so(tmp_path: Path) -> None:
    when(has_saved(tmp_path / "work"), lambda worker: worker.kill())
    measured = run(tmp_path, **LONG)
    steps = done(measured)
    assert list(steps) == ["run", "run-2"] and steps["run-2"][0] in range(25, 151, 25) and steps["run-2"][-1] == 152
    assert {"losses_continue_exactly", "checkpoint_restored_exactly"} == set(measured.guarantees)
    (found,) = [judgement for judgement in measured.judgements if judgement.reason.code == "unplanned_restart"]
    assert found.level == "degraded" and "SIGKILL from outside" in found.reason.detail
    (cost,) = [row for row in evidence(measured, "attempts") if row["ending"]]
    assert (cost["run"], cost["ending"], cost["made_up_for"]) == ("run", "unplanned", True)
    assert sum(cost[part] for part in PARTS) == pytest.approx(gap(measured, "run", "run-2", cost["lost_step"]), rel=0.05)
    (rate,) = [row for row in measured.metrics if row.metric == "step_time" and row.statistic == "median"]
    assert rate.n <= 150 - 3, "the first steps of the second attempt are as cold as those of the first"


@pytest.mark.full
@pytest.mark.fault("one of two ranks crashes", ends="degraded (unplanned_restart)", keeps="checkpoints; losses continue exactly")
def test_of_two_ranks_one_that_crashes_takes_the_other_with_it_and_both_start_again(tmp_path: Path) -> None:
    when(has_saved(tmp_path / "work"), lambda worker: worker.send_signal(signal.SIGSEGV))
    measured = run(tmp_path, **TWO_RANKS, **LONG)
    assert list(done(measured)) == ["run", "run-2"]
    assert "losses_continue_exactly" in measured.guarantees
    assert "signal 11" in next(j.reason.detail for j in measured.judgements if j.reason.code == "unplanned_restart")


@pytest.mark.full
def test_what_breaks_off_before_its_first_checkpoint_starts_anew(tmp_path: Path) -> None:
    when(lambda worker: worker.cpu_times().user > 0.3, lambda worker: worker.kill())
    measured = run(tmp_path)
    assert done(measured)["run-2"] == list(range(20))
    assert "unplanned_restart" in codes(measured)


@pytest.mark.full
@pytest.mark.fault("training killed more often than restarts allow", ends="interrupted", keeps="each attempt in the evidence")
def test_killed_more_often_than_restarts_allow_the_trial_was_interrupted(tmp_path: Path) -> None:
    when(lambda worker: worker.cpu_times().user > 0.3, lambda worker: worker.kill(), times=2)
    with pytest.raises(TrialFailed, match="restarts = 1") as caught:
        run(tmp_path, restarts=1)
    assert caught.value.failure_class == "interrupted"
    assert [row["run"] for row in evidence(caught.value.partial, "attempts")] == ["run", "run-2"]


@pytest.mark.full
@pytest.mark.fault("killed while a sharded checkpoint is written", ends="valid, with its restart penalty", keeps="the checkpoint before it")
def test_shards_are_resumed_by_the_ranks_that_wrote_them(tmp_path: Path) -> None:
    sharded = {**TWO_RANKS, "parallelism": {"processes": 2, "strategy": "fsdp"}}
    measured = run(tmp_path, **sharded, fault={"inject": "checkpoint_kill", "at_step": 11})
    check_recovered_checkpoint(measured)
