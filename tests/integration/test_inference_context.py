"""A growing context: on a server whose cost of a token is known, on one that fails from a length on, and on a real tritonserver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.fakes.golden_triton import Golden
from tests.integration.test_inference import measure, short_trial
from tests.integration.test_inference_hosted import WORST_S, trial_on

from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.inference import trial as inference_trial
from plumbline.harness.inference.analysis import roofline
from plumbline.harness.measurement import Measurement

PER_TOKEN_S, LENGTHS = 0.002, [8, 24, 56]
STEADY = {"name": "steady", "arrivals": {"constant": {"rate": "10/s"}}, "duration": "1s"}


def context(lengths: list[int], requests: int = 4, **more: Any) -> dict[str, Any]:
    return {"name": "context", "input_tokens": lengths, "requests": requests, "each": "20s"} | more


def golden_trial(workdir: Path, per_token_s: float = PER_TOKEN_S, timeout: str = "30s") -> Measurement:
    requests = {"input_tokens": {"constant": 5}, "output_tokens": {"constant": 4}, "seed": 1}
    reported: list[float] = []
    with (
        Golden(per_token_s=per_token_s, gap_s=0.01) as golden,
        ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch,
    ):
        phases = [STEADY, context(LENGTHS)]
        trial = trial_on(
            f"grpc://{golden.address}", "kserve_grpc", phases=phases, requests=requests, acceptance=[], request_timeout=timeout
        )
        result = inference_trial.measure(trial, workdir, lambda phase, fraction, note="": reported.append(fraction), watch)
    assert reported == sorted(reported)
    return result


def points(result: Measurement, metric: str) -> dict[float, float | None]:
    return {p.at: p.value for curve in result.curves if curve.metric == metric for p in curve.points}


def value(result: Measurement, metric: str, statistic: str = "value") -> float | None:
    return next(r.value for r in result.metrics if (r.phase, r.metric, r.statistic) == ("context", metric, statistic))


def test_every_length_is_measured_as_it_was(tmp_path: Path) -> None:
    result = golden_trial(tmp_path)
    first = points(result, "time_to_first_token")
    assert list(first) == LENGTHS
    for tokens, seen in first.items():
        assert seen is not None and 0 <= seen - PER_TOKEN_S * tokens < WORST_S
    assert points(result, "prefill_time") == {} and value(result, "prefill_growth_exponent") is None, "an endpoint tells of no stage"
    assert 0.3 < (value(result, "first_token_growth_exponent") or 0) < 1.3
    assert value(result, "time_to_first_token", "p50") == first[LENGTHS[-1]], "the rows are those of the longest prompts"
    assert points(result, "memory_growth_per_sequence") == {}, "nobody sees the memory of somebody else's server"
    rows = pq.read_table(next(e.path for e in result.evidence if e.kind == "requests")).to_pylist()
    assert [(r["probe"], r["input_tokens"]) for r in rows if r["phase"] == "context"] == [
        (k, n) for k, n in enumerate(LENGTHS) for _ in range(4)
    ]
    planned = pq.read_table(next(e.path for e in result.evidence if e.kind == "schedule")).to_pylist()
    assert [(r["probe"], r["number"]) for r in planned if r["phase"] == "context"] == [(k, i) for k in range(3) for i in range(4)]


@pytest.mark.full
def test_beyond_a_length_that_is_never_answered_nothing_is_asked(tmp_path: Path) -> None:
    result = golden_trial(tmp_path, per_token_s=0.06, timeout="1200ms")
    assert points(result, "error_rate") == {8: 0.0, 24: 1.0}
    (left,) = [r for r in result.metrics if r.phase == "context"]
    assert (left.metric, left.value, left.n) == ("error_rate", 0.5, 8), "there are no figures of the longest; what failed, has failed"
    (reason,) = [j.reason for j in result.judgements if j.reason.code == "context_cut_short"]
    assert " 24 tokens" in reason.detail and "56" in reason.detail, "which length failed, and which were skipped"


@pytest.mark.full
def test_a_real_server_computes_more_for_a_longer_prompt(tmp_path: Path) -> None:
    lengths = [16, 300, 600]  # the model takes 256 tokens of prompts a step
    trial = short_trial(
        model={"architecture": "gpt", "layers": 2, "width": 128, "heads": 4, "vocabulary": 2048, "context": 640, "seed": 7},
        phases=[STEADY, context(lengths, 6, users=2)],
    )
    workload = trial.workload
    result = measure(trial, tmp_path)
    assert points(result, "error_rate") == dict.fromkeys(lengths, 0.0)
    prefill, held = points(result, "prefill_time"), points(result, "memory_per_sequence")
    assert (prefill[600] or 0) > (prefill[16] or 0) > 0
    bytes_a_token = roofline.kv_bytes_per_token(workload.model)  # type: ignore[union-attr, arg-type]
    output = workload.requests.output_tokens.constant  # type: ignore[union-attr]
    assert held == {n: bytes_a_token * (n + output) for n in lengths}
    rows = workload.server.sequences  # type: ignore[union-attr]
    assert result.facts["model.kv_cache_bytes"] == bytes_a_token * 640 * rows, "reserved: the server does not grow by it"
    assert all(seen is None or seen >= 0 for seen in points(result, "memory_growth_per_sequence").values())
    assert {(t.phase, t.signal) for t in result.telemetry} >= {("context", "server_resident")}
    assert (value(result, "prefill_growth_exponent") or 0) > 0
