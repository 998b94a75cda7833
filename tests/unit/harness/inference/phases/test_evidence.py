from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.unit.harness.inference.analysis.test_metrics import log_of

from plumbline.declarations.workloads.load import Requests
from plumbline.harness.inference.load.schedule import Schedule
from plumbline.harness.inference.phases.trial_record import write_requests, write_schedule
from plumbline.loadclient.phase_load import PhaseLoad

SAID = {"input_tokens": {"constant": 8}, "output_tokens": {"constant": 5}, "seed": 1}
ALONE = Requests.model_validate(SAID)


def test_requests_are_kept_with_every_token(tmp_path: Path) -> None:
    first, second = log_of(n=4), log_of(n=3)
    second.received[1] = 0
    second.fail(1, "timeout", "too late")
    file = write_requests([first, second], ALONE, tmp_path)
    assert (file.kind, file.path, file.rows) == ("requests", tmp_path / "requests.parquet", 7)
    rows = pq.read_table(file.path).to_pylist()
    assert [r["number"] for r in rows] == [0, 1, 2, 3, 0, 1, 2]
    assert rows[2]["token_times_s"] == pytest.approx([0.05, 0.06, 0.07, 0.08, 0.09])
    assert rows[2]["scheduled_s"] == pytest.approx(0.2)
    assert (rows[2]["status"], rows[2]["detail"], rows[2]["after"], rows[2]["turn"]) == ("ok", None, None, None)
    assert [rows[2][f"{s}_s"] for s in ("tokenization", "queue", "prefill", "decode", "post_processing")] == [
        0.001,
        0.002,
        0.01,
        0.03,
        0.004,
    ]
    failed = rows[5]
    assert (failed["status"], failed["detail"], failed["received_tokens"], failed["token_times_s"]) == ("timeout", "too late", 0, [])
    assert failed["first_token_s"] is None, "absent, not NaN"


@pytest.mark.parametrize("closed", [False, True])
def test_only_what_was_due_is_a_row_and_turns_are_counted(tmp_path: Path, closed: bool) -> None:
    log = log_of(n=6, after=[-1, -1, 0, 1, 2, 3], closed=closed)
    log.due[3] = log.due[5] = False
    talks = Requests.model_validate({**SAID, "turns": {"count": 2}})
    rows = pq.read_table(write_requests([log], talks, tmp_path).path).to_pylist()
    # A closed loop's user begins another conversation after the second turn.
    assert [(r["number"], r["after"], r["turn"]) for r in rows] == [(0, None, 1), (1, None, 1), (2, 0, 2), (4, 2, 1)]
    assert all(len(r["token_times_s"]) == 5 for r in rows)


def test_requests_of_a_search_say_which_probe_they_belong_to(tmp_path: Path) -> None:
    probes = [log_of(n=2), log_of(n=1), log_of(n=1)]
    for k in (0, 1):
        probes[k].load = replace(probes[k].load, probe=k)
    rows = pq.read_table(write_requests(probes, ALONE, tmp_path).path).to_pylist()
    assert [(r["probe"], r["number"]) for r in rows] == [(0, 0), (0, 1), (1, 0), (None, 0)]


def test_a_closed_loop_without_conversations_has_no_turns(tmp_path: Path) -> None:
    rows = pq.read_table(write_requests([log_of(n=3, after=[-1, 0, 1], closed=True)], ALONE, tmp_path).path).to_pylist()
    assert [(r["after"], r["turn"]) for r in rows] == [(None, None), (0, None), (1, None)]


def test_tokens_are_counted_from_their_own_requests_schedule_at_size(tmp_path: Path) -> None:
    log = log_of(n=20_000, rate=1000.0)
    log.received[::7] = 3
    table = pq.read_table(write_requests([log], ALONE, tmp_path).path)
    times = table["token_times_s"].combine_chunks()
    lengths = np.asarray(times.value_lengths())
    assert lengths.sum() == log.received.sum() and (lengths == log.received).all()
    assert np.asarray(times.flatten()).max() == pytest.approx(0.09)


def test_the_schedule_is_kept(tmp_path: Path) -> None:
    ones = np.ones(3, np.int32)
    timed = PhaseLoad("warmup", 1.0, np.array([0.0, 0.25, 0.5]), ones, ones, np.full(3, -1, np.int32))
    chained = PhaseLoad("steady", 1.0, np.array([0.0, 0.1, 0.1]), ones, 2 * ones, np.array([-1, 0, 1], np.int32), closed=True)
    file = write_schedule(Schedule((timed, chained)), tmp_path)
    rows = pq.read_table(file.path).to_pylist()
    assert file.rows == len(rows) == 6
    assert [r["arrival_s"] for r in rows if r["phase"] == "warmup"] == [0.0, 0.25, 0.5]
    assert [(r["after"], r["output_tokens"]) for r in rows if r["phase"] == "steady"] == [(None, 2), (0, 2), (1, 2)]
