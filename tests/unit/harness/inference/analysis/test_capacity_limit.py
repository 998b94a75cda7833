"""A highest rate is one of the hardware only if the hardware was what gave out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plumbline.harness.inference.analysis.capacity_limit import CapacityEvidence, judge_capacity
from plumbline.results.limit import Limit, LimitName

CPU = CapacityEvidence(
    rate=40.0, accelerated=False, in_flight=6.0, slots=64, own=0.97, foreign=0.01, client=0.04, path_rate=400.0, arithmetic=0.5
)
GPU = replace(CPU, accelerated=True, own=0.1, utilization=0.98, power=0.7, bandwidth=0.4, arithmetic=0.2)


@pytest.mark.parametrize(
    ("evidence", "limit", "shown"),
    [
        (CPU, "cores", True),
        (replace(CPU, bandwidth=0.8), "memory", True),
        (replace(CPU, own=0.45), "not_shown", False),
        (replace(CPU, own=0.45, in_flight=64.0), "engine_setting", True),
        (replace(CPU, own=0.02, in_flight=64.0), "not_shown", False),
        (replace(CPU, own=None), "not_shown", False),
        (replace(CPU, path_rate=79.0), "path", False),
        (replace(CPU, path_rate=81.0), "cores", True),
        (replace(CPU, path_rate=None, path_missing="no Triton"), "not_shown", False),
        (replace(CPU, foreign=0.4, own=0.5), "not_shown", False),
        (replace(CPU, client_limited="p99 of the dispatch delay is 20 ms"), "client", False),
        (GPU, "accelerator", True),
        (replace(GPU, bandwidth=0.85), "memory", True),
        (replace(GPU, path_rate=49.0), "path", False),
        (replace(GPU, path_rate=51.0), "accelerator", True),
        (replace(GPU, utilization=0.5), "not_shown", False),
        (replace(GPU, utilization=0.5, in_flight=60.0), "engine_setting", True),
        (replace(GPU, utilization=None), "not_shown", False),
        (replace(GPU, power=0.2, bandwidth=0.02, arithmetic=0.01), "not_shown", False),
        (replace(GPU, power=None, bandwidth=None, arithmetic=None), "not_shown", False),
        (replace(CPU, own=None, hidden=True), "service", True),
    ],
)
def test_what_gave_out(evidence: CapacityEvidence, limit: str, shown: bool) -> None:
    judged = judge_capacity(evidence)
    assert (judged.limit, judged.judgement.verdict == "met") == (limit, shown), judged.seen
    assert judged.judgement.tone == ("good" if shown else "warn")


def test_an_idle_server_is_said_to_be_idle_and_a_contended_one_is_not() -> None:
    """The same sleeping server alone and beside a busy core."""
    idle, contended = judge_capacity(replace(CPU, own=0.03)), judge_capacity(replace(CPU, own=0.03, foreign=0.5))
    assert "idle" in idle.seen and "3%" in idle.seen and "larger model" in idle.decides
    assert "idle" not in contended.seen and "others used 50%" in contended.seen


def test_the_evidence_is_in_the_sentence() -> None:
    seen = judge_capacity(CPU).seen
    assert "97%" in seen and "the client on these cores took 4%" in seen
    assert "arithmetic was 50.0% of the probe's" in seen and "carries 400/s" in seen
    path = judge_capacity(replace(CPU, path_rate=60.0))
    assert "67%" in path.seen and "40/s is not shown to be what the hardware serves" in path.judgement.text


@pytest.mark.parametrize(("limit", "missing"), [("path", ""), ("not_shown", ""), ("host", ""), ("cores", "40/s is not shown")])
def test_a_document_cannot_show_a_limit_that_is_none_of_what_is_rented(limit: LimitName, missing: str) -> None:
    with pytest.raises(ValueError, match="expected both, or neither"):
        Limit(phase="sweep", limit=limit, seen="seen", missing=missing, decides=missing)
