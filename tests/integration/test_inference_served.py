"""A trial whose servers are a Deployment: its pod waits for the first one and sends the load through the Service."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.openai_server import Hosted, Plan
from tests.fakes.trials import EXTERNAL, a_trial, cluster_provider, serving
from tests.integration.test_inference import measure

from plumbline.declarations import InferenceWorkload, Trial
from plumbline.harness.gang.channel import free_port
from plumbline.harness.launcher_protocol import SERVERS_VARIABLE
from plumbline.harness.measurement import TrialFailed

STEADY = {"name": "steady", "arrivals": {"poisson": {"rate": "20/s"}}, "duration": "1s"}


def served() -> Trial:
    declare = {**EXTERNAL, "phases": [STEADY], "acceptance": [], "slo": {"time_to_first_token": "5s"}}
    return a_trial("inference", cluster_provider(serving=serving(), schedule_timeout="1s", startup_timeout="1s"), declare)


def test_the_load_goes_to_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Hosted(Plan(first_s=0.01)) as hosted:
        monkeypatch.setenv(SERVERS_VARIABLE, hosted.url)
        result = measure(served(), tmp_path)
    assert result.facts["endpoint.url"] == f"{hosted.url}/v1"
    assert "server_ready" in {event.name for event in result.events}
    assert next(row.n for row in result.metrics if row.metric == "request_throughput") > 0


def test_a_deployment_that_never_serves_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVERS_VARIABLE, f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(InferenceWorkload, "ready_timeout_s", 0.5)
    with pytest.raises(TrialFailed, match="no server of the Deployment is ready") as failed:
        measure(served(), tmp_path)
    assert failed.value.failure_class == "timeout"
