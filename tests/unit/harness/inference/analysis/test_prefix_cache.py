"""A declared cache state against counters that agree, and counters that do not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.fakes.trials import a_trial

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.analysis.metrics import ServerCounters
from plumbline.harness.inference.analysis.validity import cache_state_contradicted
from plumbline.loadclient.phase_load import PhaseLoad
from plumbline.loadclient.request_log import RequestLog

N, PREFIX, GROUPS = 20, 16, 2


def a_workload(state: str, **requests: Any) -> InferenceWorkload:
    declared = a_trial("inference").workload
    data = json.loads(declared.model_dump_json())
    data["server"]["prefix_cache"] = state
    data["requests"] |= {"input_tokens": {"constant": 24}, "shared_prefix": {"tokens": PREFIX, "groups": GROUPS}} | requests
    return InferenceWorkload.model_validate_json(json.dumps(data))


def a_log() -> RequestLog:
    full = [np.full(N, value, np.int32) for value in (24, 1, -1)]
    log = RequestLog.of(PhaseLoad("steady", 1.0, np.arange(N) / N, *full))
    log.ended[:] = log.scheduled + 0.01
    return log


VIEW = ServerCounters(N, 0, 0.0, 0.0, 0.0, 0.0, N, N, 0, 0, None)


def counted(hits: int | None) -> ServerCounters:
    return replace(VIEW, cache_hits=hits, cache_misses=None if hits is None else N * 24 - hits)


@pytest.mark.parametrize(
    ("state", "hits", "fires"),
    [
        ("off", 0, None),
        ("off", 16, "the server has one"),
        ("cold", (N - GROUPS) * PREFIX, None),
        ("cold", N * PREFIX, "the cache was not empty"),
        ("primed", N * PREFIX, None),
        ("primed", 0, "the prefixes were not found"),
    ],
)
def test_counters_agree_or_contradict(state: str, hits: int, fires: str | None) -> None:
    found = cache_state_contradicted(a_workload(state), a_log(), counted(hits))
    if fires is None:
        assert found is None
    else:
        assert found is not None
        assert (found.level, found.reason.code) == ("invalid", "cache_state")
        assert fires in found.reason.detail
        assert f" {hits} cached" in found.reason.detail


def test_nothing_is_asserted_that_nobody_counted() -> None:
    assert cache_state_contradicted(a_workload("primed"), a_log(), counted(None)) is None
    assert cache_state_contradicted(a_workload("primed"), a_log(), None) is None


def test_a_conversation_finds_its_own_history() -> None:
    talking = a_workload("cold", turns={"count": 2, "think": "10ms"}, output_tokens={"constant": 4})
    assert cache_state_contradicted(talking, a_log(), counted(N * 24)) is None
