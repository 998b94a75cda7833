from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.inference.phases.trial_record import OVERHEAD_S, TrialRecord, write_requests
from plumbline.harness.measurement import Measurement
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog


def a_record(told: list[float]) -> TrialRecord:
    trial = a_trial("inference")
    data = json.loads(trial.workload.model_dump_json()) | {
        "acceptance": [],
        "phases": [
            {"name": "steady", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "10s"},
            {"name": "sweep", "search": {"goodput": "90%", "between": ["10/s", "20/s"], "probe": "5s", "at_most": 4}},
        ],
    }
    workload = InferenceWorkload.model_validate_json(json.dumps(data))
    return TrialRecord(
        trial, workload, Path(), lambda phase, fraction, note="": told.append(fraction), ContentionMonitor([0]), (), Measurement()
    )


def test_a_search_counts_with_all_the_probes_it_may_take() -> None:
    assert a_record([]).total_s == OVERHEAD_S + 10 + 4 * 5


def test_progress_never_goes_back_nor_beyond_the_end() -> None:
    told: list[float] = []
    record = a_record(told)
    record.report("cold_start", 3.0, "")
    record.report("cold_start", 0.0, "the first inference is part of it")
    record.done_s = OVERHEAD_S + 10
    record.report("sweep", 100.0, "")
    assert told == [3 / 35, 3 / 35, 1.0]


def test_moments_lie_on_both_clocks() -> None:
    record = a_record([])
    record.event("later")
    later = record.result.events[0]
    assert later.monotonic_s is not None
    record.event("earlier", later.monotonic_s - 2.5)
    assert 2.4 < (later.utc - record.result.events[1].utc).total_seconds() < 2.6


def test_there_is_no_table_of_requests_before_there_was_one() -> None:
    assert a_record([]).measured().evidence == []


def test_a_column_of_one_phase_is_null_in_the_others(tmp_path: Path) -> None:
    one, never = np.ones(1, np.int32), np.full(1, -1, np.int32)
    logs = [RequestLog.of(PhaseLoad(phase, 1.0, np.zeros(1), one, one, never)) for phase in ("warmup", "steady")]
    logs[1].unsent[0] = 1
    requests = a_record([]).workload.requests
    table = pq.read_table(write_requests(logs, requests, tmp_path).path)
    assert (table["phase"].to_pylist(), table["unsent_tokens"].to_pylist()) == (["warmup", "steady"], [None, 1])
