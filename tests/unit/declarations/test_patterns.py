"""The shipped request patterns: each can be planned where it is meant for, is short enough, and asks what its own sample can answer."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from plumbline.declarations import InferenceWorkload, load
from plumbline.declarations.workloads.load import max_phase_seconds
from plumbline.declarations.workloads.workload import insufficient_observations
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.launch.plan import RunRequest, plan

SHIPPED = load(Path(__file__).resolve().parents[3] / "include" / "config")
PATTERNS = ("api-cpu", "batch-cpu", "chat-cpu", "embedding-cpu", "rag-cpu", "tool-cpu")
INFERENCE = [w for w in SHIPPED.workloads.values() if isinstance(w, InferenceWorkload)]
NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)


def declared(name: str) -> InferenceWorkload:
    workload = SHIPPED.workloads[name]
    assert isinstance(workload, InferenceWorkload)
    return workload


@pytest.mark.parametrize("name", [*PATTERNS, "chat-limits-cpu", "long-context-cpu", "vision-cpu"])
@pytest.mark.parametrize("provider", ["local-1core", "local-2core"])
def test_a_pattern_is_planned_when_it_is_named(name: str, provider: str) -> None:
    trials = plan(SHIPPED, SHIPPED.providers[provider], RunRequest("patterns", "a test", workloads=(name,), repeats=1), NOW)
    assert [t.workload.name for t in trials] == [name]


def test_the_monthly_rerun_stays_as_short_as_it_was() -> None:
    planned = [t for p in SHIPPED.enabled_providers() for t in plan(SHIPPED, p, RunRequest("monthly", "a test"), NOW)]
    assert {t.workload.name for t in planned if t.workload.kind == "inference"} == {"chat-tiny-cpu"}


def test_the_patterns_load_the_server_for_less_than_three_minutes_in_all() -> None:
    assert sum(max_phase_seconds(phase) for name in PATTERNS for phase in declared(name).phases) <= 180


@pytest.mark.parametrize("workload", INFERENCE, ids=lambda w: w.name)
def test_what_is_promised_can_be_judged_on_what_is_measured(workload: InferenceWorkload) -> None:
    requests = {phase.name: phase.n for phase in schedule_of(workload).phases}
    judged = [c for c in workload.acceptance if c.phase in requests]
    assert judged and not [reason for c in judged if (reason := insufficient_observations(c, requests[c.phase]))]


@pytest.mark.parametrize("workload", [w for w in INFERENCE if w.needs.accelerator == "nvidia"], ids=lambda w: w.name)
def test_what_needs_a_gpu_fits_a_declared_provider(workload: InferenceWorkload) -> None:
    fitting = [p.name for p in SHIPPED.providers.values() if not p.simulated and workload in SHIPPED.workloads_for(p)]
    assert fitting == ["example-runpod-endpoint"] if workload.server.backend == "external" else len(fitting) >= 10


def test_a_vision_model_is_asked_with_images() -> None:
    data = json.loads(declared("vision-cpu").model_dump_json())
    assert InferenceWorkload.model_validate_json(json.dumps(data)) == declared("vision-cpu")
    data["requests"]["text"], data["model"]["vocabulary"] = True, 2048
    with pytest.raises(ValueError, match=r"requests\.text .*text: false"):
        InferenceWorkload.model_validate_json(json.dumps(data))
