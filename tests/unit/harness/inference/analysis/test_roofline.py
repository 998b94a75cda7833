from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.unit.harness.inference.load.test_arrivals import workload

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.workloads.models import Encoder, Llama, ServedGpt
from plumbline.declarations.workloads.retrieval import Retrieval
from plumbline.harness.inference.analysis import roofline
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog
from plumbline.results import MetricRow, metric_row

PROBES = [metric_row("matmul_tflops", 1e12, 3, phase="environment"), metric_row("memory_bandwidth", 1e10, 3, phase="environment")]


def log_of(first: list[float], gap: float, tokens: int, prefill: float | None = 0.01) -> RequestLog:
    """Requests of 24 tokens whose first tokens come at `first`, the others `gap` apart."""
    n = len(first)
    counts = np.full(n, 24, np.int32), np.full(n, tokens, np.int32)
    log = RequestLog.of(PhaseLoad("steady", 10.0, np.zeros(n), *counts, np.full(n, -1, np.int32)))
    log.dispatched[:] = 0.0
    log.token_at[:] = np.concatenate([at + gap * np.arange(tokens) for at in first])
    log.received[:] = tokens
    log.ended[:] = log.last_token
    if prefill is not None:
        log.server_s[:] = [0.0, 0.0, prefill, 0.1, 0.0]
    return log


def values(rows: list[MetricRow]) -> dict[tuple[str, str], float | None]:
    return {(r.metric, r.statistic): r.value for r in rows}


def served(**server: Any) -> InferenceWorkload:
    made = workload()
    return made.model_copy(update={"server": made.server.model_copy(update=server)})


def test_weights_of_140_gb_at_3_35_tb_a_second_take_42_ms_a_token() -> None:
    """The hand check: 70 billion weights in bf16, one short sequence."""
    model = Llama(
        architecture="llama",
        layers=80,
        width=8192,
        heads=64,
        kv_heads=8,
        feed_forward=28672,
        vocabulary=128256,
        context=8192,
        precision="bf16",
    )
    needed = roofline.step_bytes(model, sequences=1, tokens=1)
    assert needed == pytest.approx(140e9, rel=0.02)
    assert needed / 3.35e12 == pytest.approx(42e-3, rel=0.02)


def test_every_sequence_adds_its_keys_and_values() -> None:
    model = Llama(
        architecture="llama", layers=2, width=256, heads=8, kv_heads=2, feed_forward=512, vocabulary=256, context=64, precision="fp8"
    )
    assert roofline.kv_bytes_per_token(model) == 2 * 2 * 2 * 32 * 2, "two of two layers' two heads of 32, two bytes each"
    weights = 2 * (2 * 256**2 + 2 * 256 * 64 + 3 * 256 * 512) + 256 * 256
    assert roofline.step_bytes(model, 3, 10) == weights * 1 + 3 * 10 * 512


def test_the_bandwidth_of_a_model_that_is_split_over_gpus_is_that_of_all_of_them() -> None:
    made = served(backend="vllm")
    shape: dict[str, Any] = {"layers": 2, "width": 256, "heads": 8, "kv_heads": 2, "feed_forward": 512, "vocabulary": 256, "context": 64}
    llama = Llama(architecture="llama", **shape)
    log = log_of([0.0, 0.0], gap=0.01, tokens=11)

    def utilization(accelerator: str, count: int) -> float:
        needs = made.needs.model_copy(update={"accelerator": accelerator, "count": count})
        found = values(roofline.roofline_rows(made.model_copy(update={"model": llama, "needs": needs}), log, PROBES))
        value = found["model_bandwidth_utilization", "value"]
        assert value is not None
        return value

    assert utilization("nvidia", 2) == pytest.approx(utilization("nvidia", 1) / 2)
    assert utilization("cpu", 2) == utilization("cpu", 1), "cores are probed all at once"
    assert roofline.kv_bytes_per_token(Llama(architecture="llama", precision="fp32", **shape)) == 2 * roofline.kv_bytes_per_token(llama)


@pytest.mark.parametrize(("precision", "weight", "kv"), [("fp32", 4, 4), ("bf16", 2, 2), ("int8", 1, 4)])
def test_our_own_model_in_each_precision(precision: Any, weight: int, kv: int) -> None:
    shape = ServedGpt(architecture="gpt", layers=2, width=64, heads=4, vocabulary=256, context=64, seed=1, precision=precision)
    assert roofline.step_bytes(shape, 0, 0) == (12 * 2 * 64**2 + 256 * 64) * weight
    assert roofline.kv_bytes_per_token(shape) == 2 * 2 * 64 * kv


def test_operations_of_a_prompt_by_hand() -> None:
    shape: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "vocabulary": 16, "context": 8}
    causal = ServedGpt(architecture="gpt", seed=1, **shape)
    # Three tokens through 12 × 64 weights, one through the head's 128, and six pairs of query and key, 32 operations each.
    assert roofline.prefill_operations(causal, 3) == 2 * 768 * 3 + 2 * 128 + 32 * 6
    both_ways = Encoder(architecture="encoder", task="embedding", **shape)
    assert roofline.prefill_operations(both_ways, 3) == 2 * 768 * 3 + 32 * 9
    images = Encoder(architecture="encoder", task="vision", **shape)
    assert roofline.prefill_operations(images, 3) == 2 * (768 + 768 * 8) * 3 + 32 * 9, (
        "a patch is a product with 768 bytes, a token is looked up"
    )


@pytest.mark.parametrize(
    ("first", "mean"),
    [
        ([0.0], 1.0),
        ([0.0, 0.0, 0.0], 3.0),
        ([0.0, 5.0], 1.0),  # never together: nobody waits for an idle second
        ([0.0, 0.5], 4 / 3),  # a second each, half of it together
        ([5.0, 0.0, 0.5, 5.0], 8 / 5),
    ],
)
def test_sequences_that_stream_at_once(first: list[float], mean: float) -> None:
    assert roofline.mean_streaming(log_of(first, gap=0.25, tokens=5)) == pytest.approx(mean)


def test_nobody_streams_with_one_token_each() -> None:
    assert math.isnan(roofline.mean_streaming(log_of([0.0, 1.0], gap=0.0, tokens=1)))


def test_rows_of_a_phase() -> None:
    made = served()
    log = log_of([0.0, 0.0], gap=0.01, tokens=11)
    found = values(roofline.roofline_rows(made, log, PROBES))
    model = made.model
    assert isinstance(model, ServedGpt)
    expected = roofline.step_bytes(model, 2, 24 + 5.5) / 0.01 / 1e10
    assert found["model_bandwidth_utilization", "value"] == pytest.approx(expected)
    assert found["memory_per_sequence", "mean"] == found["memory_per_sequence", "max"] == 35 * roofline.kv_bytes_per_token(model)
    rate = roofline.prefill_operations(model, 24) / 0.01
    assert found["prefill_flops", "value"] == pytest.approx(rate)
    assert found["prefill_flops_utilization", "value"] == pytest.approx(rate / 1e12)


def test_the_time_of_an_encoders_batch_counts_once() -> None:
    """Three texts in two batches: each is told its whole batch's time."""
    encoder = Encoder(architecture="encoder", task="embedding", layers=1, width=8, heads=2, vocabulary=2048, context=64)
    made = served().model_copy(update={"model": encoder})
    log = log_of([0.0, 0.0, 0.1], gap=0.0, tokens=1)
    log.server_s[:, 2] = [0.03, 0.03, 0.01]
    found = values(roofline.roofline_rows(made, log, PROBES))
    assert found["prefill_flops", "value"] == pytest.approx(3 * roofline.prefill_operations(encoder, 24) / 0.04)


def test_what_was_not_measured_has_no_row() -> None:
    log = log_of([0.0, 0.0], gap=0.01, tokens=11, prefill=None)
    assert set(values(roofline.roofline_rows(served(), log, []))) == {("memory_per_sequence", "mean"), ("memory_per_sequence", "max")}
    cached = roofline.roofline_rows(served(prefix_cache="cold"), log_of([0.0], gap=0.01, tokens=11), PROBES)
    assert not any(r.metric.startswith("prefill") for r in cached), "what a cache answered was not computed"
    failed = log_of([0.0], gap=0.01, tokens=11)
    failed.fail(0, "timeout", "late")
    assert roofline.roofline_rows(served(), failed, PROBES) == []


def test_retrieved_documents_are_read_too() -> None:
    made, log = served(), log_of([0.0], gap=0.01, tokens=11)
    shape: dict[str, Any] = {"architecture": "encoder", "layers": 1, "width": 8, "heads": 2, "vocabulary": 2048, "context": 64}
    retrieval = Retrieval(
        documents=9,
        document_tokens=16,
        candidates=4,
        top=2,
        embedding=Encoder(task="embedding", **shape),
        reranking=Encoder(task="reranking", **shape),
    )
    found = values(roofline.roofline_rows(made.model_copy(update={"retrieval": retrieval}), log, PROBES))
    assert isinstance(made.model, ServedGpt)
    assert found["memory_per_sequence", "mean"] == (24 + 32 + 11) * roofline.kv_bytes_per_token(made.model)
    assert found["prefill_flops", "value"] == pytest.approx(roofline.prefill_operations(made.model, 24 + 32) / 0.01)


def test_an_encoder_has_a_prefill_only() -> None:
    made = served()
    encoder = Encoder(architecture="encoder", task="embedding", layers=1, width=8, heads=2, vocabulary=16, context=64)
    found = values(roofline.roofline_rows(made.model_copy(update={"model": encoder}), log_of([0.0], gap=0.0, tokens=1), PROBES))
    assert set(found) == {("prefill_flops", "value"), ("prefill_flops_utilization", "value")}
