"""How a later pod takes up what an earlier one kept: on its own clock, with what the launcher took cut out."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from plumbline.harness.faults import pod_delete
from plumbline.harness.launcher_protocol import Deletion
from plumbline.harness.measurement import TrialFailed
from plumbline.harness.persistent_state import PersistentState
from plumbline.harness.training.log_seal import ForgedLog, LogSeal, key_of_this_process
from plumbline.harness.training.plan import FaultPlan
from plumbline.harness.training.worker_protocol import LogTail

FAULT = FaultPlan(resume_from=6, kill_in=10, until=12)
HELD_S, LAUNCHED_S = 5000.0, 4990.0
"""On the clock of the first pod, whose machine has run for longer."""


def step(number: int, start_s: float, end_s: float) -> dict[str, Any]:
    return {"event": "step", "ns": int(end_s * 1e9), "step": number, "start": int(start_s * 1e9), "stages": {}, "loss": 1.0 / (number + 1)}


def kept(
    folder: Path, *deletions: Deletion, number: int = 1, ranks: int = 1, incidents: tuple[dict[str, Any], ...] = ()
) -> PersistentState:
    """What the first pod left: a run, and a faulted attempt that had done step 9 when it was held in step 10."""
    for rank in range(ranks):
        name = f"fault.rank{rank}.steps.jsonl" if rank else "fault.steps.jsonl"
        lines = [
            {"event": "load_end", "ns": int(4991e9), "step": 6, "rejected": [], "checksum_s": 0.0},
            step(9, 4998.0, 4999.0 + rank / 10),
        ]
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    state = {
        "deletion": number,
        "held": {"run": "fault", "step": 10, "at_s": HELD_S},
        "runs": [{"name": "fault", "launched_s": LAUNCHED_S, "shift_s": 0.0}],
        "incidents": list(incidents),
        "data_sha256": "d" * 64,
        "fraction": 0.7,
    }
    found = PersistentState(folder, deletions, 3600.0)
    found.put("replacement", state)
    return found


def at(seconds: float) -> float:
    """A moment of our monotonic clock as the launcher's wall clock shows it."""
    return seconds + time.time() - time.monotonic()


def test_the_half_done_step_is_put_where_the_deletion_was_asked_for(tmp_path: Path) -> None:
    asked = time.monotonic() - 20
    taken = pod_delete.resume_from_last_pod(kept(tmp_path, Deletion(at(asked), at(asked + 3))), FAULT, 1, started_s=time.monotonic())
    (incident,) = taken.records.incidents
    assert (incident.run, incident.ending, incident.step, incident.detail) == ("fault", "pod_delete", 10, "")
    assert (incident.began_s, incident.noticed_s) == (pytest.approx(asked, abs=0.01), pytest.approx(asked + 3, abs=0.01))
    run = taken.records.runs["fault"]
    assert (run.launched_s, run.at["load_end"]) == (pytest.approx(asked - 10, abs=0.01), pytest.approx(asked - 9, abs=0.01))
    assert (run.steps[0].start_s, run.steps[0].end_s) == (pytest.approx(asked - 2, abs=0.01), pytest.approx(asked - 1, abs=0.01))
    assert taken.fraction == 0.7 and taken.records.data_sha256 == "d" * 64
    assert taken.shifts_s["fault"] == pytest.approx(asked - HELD_S, abs=0.01)


def test_a_launcher_whose_clock_is_ahead_does_not_make_the_start_negative(tmp_path: Path) -> None:
    started = time.monotonic() - 1
    taken = pod_delete.resume_from_last_pod(kept(tmp_path, Deletion(at(started + 60), at(started + 62))), FAULT, 1, started_s=started)
    (incident,) = taken.records.incidents
    assert (incident.began_s, incident.noticed_s) == (pytest.approx(started - 2, abs=0.01), started)
    assert "≥ 62 s" in incident.detail


def test_incidents_of_pods_before_stay_in_their_order(tmp_path: Path) -> None:
    earlier = {"run": "fault", "ending": "pod_delete", "began_s": 4000.0, "noticed_s": 4001.0, "step": 10}
    asked = time.monotonic() - 20
    first, last = Deletion(at(asked - 1000), at(asked - 999)), Deletion(at(asked), at(asked + 3))
    taken = pod_delete.resume_from_last_pod(
        kept(tmp_path, first, last, number=2, incidents=(earlier,)), FAULT, 1, started_s=time.monotonic()
    )
    began = [incident.began_s for incident in taken.records.incidents]
    assert began == [pytest.approx(asked - 1000, abs=0.01), pytest.approx(asked, abs=0.01)]


def test_the_steps_of_several_ranks_are_those_of_the_job(tmp_path: Path) -> None:
    asked = time.monotonic() - 20
    taken = pod_delete.resume_from_last_pod(
        kept(tmp_path, Deletion(at(asked), at(asked + 3)), ranks=2), FAULT, 2, started_s=time.monotonic()
    )
    run = taken.records.runs["fault"]
    assert sorted(run.by_rank) == [0, 1]
    assert run.steps[0].step_s == pytest.approx(1.0, abs=0.001), "by the clock of rank 0"


def test_state_of_another_deletion_is_refused(tmp_path: Path) -> None:
    now = time.time()
    with pytest.raises(TrialFailed, match=r"\b1 pods.*deletion 2"):
        pod_delete.resume_from_last_pod(kept(tmp_path, Deletion(now, now), number=2), FAULT, 1, started_s=0.0)


def test_nobody_deletes_the_pod(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TrialFailed, match=r"\b0 s\b.*pods/log"):
        pod_delete.wait_for_deletion(1, 0.0, lambda: None)


def sealed(folder: Path, key: bytes, *, forged: bool = False) -> PersistentState:
    """As `kept`, of a script: its log is sealed, and the key lies beside it."""
    state = kept(folder, Deletion(at(time.monotonic() - 20), at(time.monotonic() - 17)))
    log = folder / "fault.steps.jsonl"
    seal = LogSeal(log, key)
    log.write_bytes(b"".join(seal.seal(line) + b"\n" for line in log.read_bytes().splitlines()))
    if forged:
        with log.open("a") as file:
            file.write(json.dumps(step(10, 4999.0, 4999.001)) + "\n")
    state.put("replacement", {**state.get("replacement"), "log_key": key.hex()})
    return state


def test_a_scripts_log_is_read_by_the_earlier_pods_key_and_sealed_with_this_ones(tmp_path: Path) -> None:
    state = sealed(tmp_path, b"k" * 32)
    taken = pod_delete.resume_from_last_pod(state, FAULT, 1, started_s=time.monotonic(), script=True)
    assert [done.step for done in taken.records.runs["fault"].steps] == [9]
    assert "log_key" not in state.get("replacement")
    assert [line["event"] for line in LogTail(tmp_path / "fault.steps.jsonl", key_of_this_process()).new()] == ["load_end", "step"]
    with pytest.raises(ForgedLog):
        LogTail(tmp_path / "fault.steps.jsonl", b"k" * 32).new()


@pytest.mark.fault("a script writes steps into the log that its next pod reads", ends="bad_declaration", keeps="no step of it")
def test_a_step_that_the_earlier_pods_script_wrote_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match=r"line 3 of fault\.steps\.jsonl was not written by the harness"):
        pod_delete.resume_from_last_pod(sealed(tmp_path, b"k" * 32, forged=True), FAULT, 1, started_s=time.monotonic(), script=True)


def test_state_without_the_key_of_a_scripts_log(tmp_path: Path) -> None:
    state = kept(tmp_path, Deletion(at(time.monotonic() - 20), at(time.monotonic() - 17)))
    with pytest.raises(TrialFailed, match="has no key of the script's step logs"):
        pod_delete.resume_from_last_pod(state, FAULT, 1, started_s=time.monotonic(), script=True)
