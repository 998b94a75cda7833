from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from tests.unit.harness.inference.analysis.test_metrics import fail, found, log_of, names

from plumbline.harness.inference.analysis.metrics import ServerCounters, stage_rows, stages_of
from plumbline.loadclient.request_log import PIPELINE

VIEW = ServerCounters(
    succeeded=100,
    failed=0,
    queued_s=0.4,
    compute_input_s=0.1,
    compute_infer_s=2.0,
    compute_output_s=0.1,
    executions=25,
    inferences=100,
    cache_hits=None,
    cache_misses=None,
    gpu_memory_bytes=None,
)


def test_the_stages_of_a_model_that_tells_its_own() -> None:
    rows = stage_rows(log_of(), VIEW)
    for metric, value in (
        ("tokenization_time", 0.001),
        ("queue_time", 0.004 + 0.002),
        ("prefill_time", 0.01),
        ("decode_time", 0.03),
        ("post_processing_time", 0.004),
        ("delivery_time", 0.089 - 0.047 - 0.004),
        ("compute_time", 0.04),
    ):
        assert found(rows, metric, "mean").value == pytest.approx(value), metric
        assert found(rows, metric, "mean").n == 100


def test_a_stage_that_does_not_exist_is_absent_and_not_zero() -> None:
    log = log_of()
    log.server_s[:, [0, 4]] = 0.0
    assert not {"tokenization_time", "post_processing_time"} & names(stage_rows(log, VIEW))


def test_without_the_servers_counters_its_queue_is_unknown() -> None:
    rows = stage_rows(log_of(), None)
    assert found(rows, "queue_time", "mean").value is None
    assert found(rows, "prefill_time", "mean").value == pytest.approx(0.01)
    assert not {"delivery_time", "batch_size", "cache_hit_ratio"} & names(rows)


def test_a_tensor_model_that_tells_nothing_has_tritons_account() -> None:
    log = log_of(tokens=1)
    log.server_s[:] = math.nan
    rows = stage_rows(log, VIEW)
    assert found(rows, "queue_time", "mean").value == pytest.approx(0.004)
    assert found(rows, "compute_time", "mean").value == pytest.approx(0.022)
    assert found(rows, "delivery_time", "mean").value == pytest.approx(0.049 - 0.026)
    assert (found(rows, "batch_size", "mean").value, found(rows, "batch_size", "mean").n) == (4.0, 25)
    assert "prefill_time" not in names(rows)


def test_tritons_account_says_nothing_of_a_model_that_streams() -> None:
    log = log_of()
    log.server_s[:] = math.nan
    rows = stage_rows(log, VIEW)
    assert found(rows, "compute_time", "mean").value is None
    assert not {"delivery_time", "batch_size"} & names(rows)


@pytest.mark.parametrize(("hits", "misses", "ratio"), [(30, 70, 0.3), (0, 0, None), (None, None, None)])
def test_the_cache(hits: int | None, misses: int | None, ratio: float | None) -> None:
    rows = stage_rows(log_of(), dataclasses.replace(VIEW, cache_hits=hits, cache_misses=misses))
    assert next((r.value for r in rows if r.metric == "cache_hit_ratio"), None) == ratio


def test_stages_add_up_over_the_finished_requests() -> None:
    log = fail(log_of(), 0)
    stages = {s.stage: (s.total_s, s.n) for s in stages_of(log, VIEW)}
    assert list(stages) == ["dispatch", "tokenization", "queue", "prefill", "decode", "post_processing", "delivery"]
    assert stages["dispatch"] == (pytest.approx(0.099), 99)
    assert stages["prefill"] == (pytest.approx(0.99), 99)
    whole = sum(total for total, _ in stages.values())
    assert whole == pytest.approx((log.last_token - log.scheduled)[log.ok].sum()), "nothing is left over, and nothing counted twice"


def test_a_pipelines_stages_tell_retrieval_from_the_model() -> None:
    told = {"tokenization": 0.001, "embedding": 0.003, "search": 0.002, "reranking": 0.005, "queue": 0.002, "prefill": 0.01, "decode": 0.03}
    told |= {"post_processing": 0.0, "orchestration": 0.004}
    seconds = np.tile(list(told.values()), (100, 1))
    log = dataclasses.replace(log_of(), stages=PIPELINE, server_s=seconds)
    rows = stage_rows(log, VIEW)
    assert tuple(told) == PIPELINE
    for metric, value in (("retrieval_time", 0.01), ("search_time", 0.002), ("orchestration_time", 0.004), ("compute_time", 0.04)):
        assert found(rows, metric, "mean").value == pytest.approx(value), metric
    assert "post_processing_time" not in names(rows)
    assert found(rows, "delivery_time", "mean").value == pytest.approx(0.089 - sum(told.values()) - 0.004)
    stages = stages_of(log, VIEW)
    assert [s.stage for s in stages] == ["dispatch", *(stage for stage in PIPELINE if told[stage]), "delivery"]
    assert sum(s.total_s for s in stages) == pytest.approx((log.last_token - log.scheduled).sum())


def test_a_model_alone_has_no_retrieval() -> None:
    assert not {"retrieval_time", "embedding_time", "orchestration_time"} & names(stage_rows(log_of(), VIEW))


def test_nothing_finished_has_no_stages() -> None:
    log = fail(log_of(), *range(100))
    assert stages_of(log, VIEW) == [] == stage_rows(log, VIEW)
