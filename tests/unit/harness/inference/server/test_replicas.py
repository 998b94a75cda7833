"""What each of several servers is given, and what is said of each afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.harness.inference.analysis.test_roofline import log_of

from plumbline.declarations.providers.provider import Accelerator
from plumbline.harness.inference.analysis import roofline
from plumbline.harness.inference.server.under_test import replica_label, replica_telemetry, silent_replicas, visible_devices
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.request_log import RequestLog

NVIDIA, AMD = (Accelerator(kind=kind, count=8) for kind in ("nvidia", "amd"))
CPU = Accelerator(kind="cpu", count=8)


def shared(first: list[float], replica: list[int], gap: float = 0.25, tokens: int = 5) -> RequestLog:
    return replace(log_of(first, gap, tokens), replica=np.array(replica, np.int32))


def test_each_server_sees_gpus_of_its_own() -> None:
    assert [each["CUDA_VISIBLE_DEVICES"] for each in visible_devices(NVIDIA, 8, 1, {})] == [str(k) for k in range(8)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in visible_devices(NVIDIA, 4, 2, {})] == ["0,1", "2,3", "4,5", "6,7"]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in visible_devices(NVIDIA, 2, 3, {})] == ["0,1,2", "3,4,5"], "two of eight are left over"


def test_a_choice_that_was_made_before_is_kept() -> None:
    assert visible_devices(NVIDIA, 2, 1, {"CUDA_VISIBLE_DEVICES": "GPU-b, GPU-a"}) == [
        {"CUDA_VISIBLE_DEVICES": "GPU-b"},
        {"CUDA_VISIBLE_DEVICES": "GPU-a"},
    ]


@pytest.mark.parametrize(
    ("inherited", "physical"),
    [
        ({}, ["0,1", "2,3"]),
        ({"HIP_VISIBLE_DEVICES": "4,5,6,7"}, ["4,5", "6,7"]),
        ({"ROCR_VISIBLE_DEVICES": "2,3,4,5"}, ["2,3", "4,5"]),
        ({"ROCR_VISIBLE_DEVICES": "2,3,4,5,6", "HIP_VISIBLE_DEVICES": "4,3,2,1"}, ["6,5", "4,3"]),
        ({"CUDA_VISIBLE_DEVICES": "3,2,1,0"}, ["3,2", "1,0"]),
    ],
    ids=["none", "hip", "rocr", "both", "cuda"],
)
def test_amds_gpus_are_shown_by_rocr_and_counted_anew_by_hip(inherited: dict[str, str], physical: list[str]) -> None:
    found = visible_devices(AMD, 2, 2, inherited)
    assert [each["ROCR_VISIBLE_DEVICES"] for each in found] == physical
    assert [(each["HIP_VISIBLE_DEVICES"], each["CUDA_VISIBLE_DEVICES"]) for each in found] == [("0,1", "0,1")] * 2


def test_a_single_server_and_a_cpu_need_no_choice() -> None:
    assert visible_devices(NVIDIA, 1, 8, {"CUDA_VISIBLE_DEVICES": "0"}) == [{}]
    assert visible_devices(CPU, 2, 1, {}) == [{}, {}]


def test_too_few_visible_gpus_are_refused() -> None:
    with pytest.raises(TrialFailed, match=r"\b8, .*\b4\b") as caught:
        visible_devices(NVIDIA, 8, 1, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"})
    assert caught.value.failure_class == "bad_declaration"


def test_a_failure_names_its_replica_where_there_are_several() -> None:
    failure = "it ended"
    label = replica_label(3, 8, failure)
    assert label.startswith("replica 3 ") and label.endswith(f": {failure}") and replica_label(0, 1, failure) == failure


def test_a_server_that_finishes_nothing_is_found() -> None:
    log = shared([0.1, 0.2, 0.1, 0.2], [0, 1, 0, 1])
    assert silent_replicas(log, 2) == []
    log.error[[1, 3]] = 1
    assert silent_replicas(log, 2) == [1]
    assert silent_replicas(log, 3) == [1], "one that was sent nothing is not silent"
    assert silent_replicas(log_of([0.1], 0.1, 2), 1) == []


def test_each_server_has_its_own_rows_so_that_a_slow_gpu_shows() -> None:
    rows = {row.signal: row for row in replica_telemetry(shared([0.1, 0.4, 0.1, 0.6], [0, 1, 0, 1]), 2)}
    assert rows["replica0_time_to_first_token"].mean == pytest.approx(0.1)
    assert (rows["replica1_time_to_first_token"].mean, rows["replica1_time_to_first_token"].max) == (pytest.approx(0.5), 0.6)
    assert [rows[f"replica{k}_request_throughput"].mean for k in (0, 1)] == [0.2, 0.2], "two requests each in ten seconds"
    assert replica_telemetry(log_of([0.1], 0.1, 2), 1) == []


def test_sequences_of_different_servers_do_not_stream_together() -> None:
    assert roofline.mean_streaming(log_of([0.0, 0.0, 0.0, 0.0], gap=0.25, tokens=5)) == pytest.approx(4)
    assert roofline.mean_streaming(shared([0.0, 0.0, 0.0, 0.0], [0, 0, 1, 1])) == pytest.approx(2)
