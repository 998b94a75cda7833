"""A trial fetches its checkpoint before its server starts, and its document holds what was fetched also if the server does not start."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.model_hub import REVISION, Hub, model_hub
from tests.fakes.trials import a_trial, local_provider
from tests.unit.declarations.workloads.test_checkpoints import workload

from plumbline.declarations.trials import spec_hash
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.inference import trial as inference_trial
from plumbline.harness.inference.checkpoint.contents import Manifest
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.harness.inference.server import tritonserver
from plumbline.harness.launcher_protocol import MODELS_TOKEN_VARIABLE
from plumbline.harness.measurement import TrialFailed

TOKEN = "hf_a-secret"
FETCH = {"model_download_time", "model_download_bytes", "model_download_bandwidth"}


@pytest.fixture
def gated(llama: Path) -> Any:
    with model_hub({"org/llama": llama}, token=TOKEN) as hub:
        yield hub


def failure(hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch, token: str | None = TOKEN) -> TrialFailed:
    """Of a trial on a machine without a tritonserver."""
    monkeypatch.setenv(tritonserver.TRITONSERVER_VARIABLE, str(folder / "missing"))
    if token is not None:
        monkeypatch.setenv(MODELS_TOKEN_VARIABLE, token)
    made = workload({"source": "hub", "id": "org/llama", "revision": REVISION})
    provider = local_provider(models_url=hub.url, models_cache=str(folder / "cache"))
    changed = {"workload": made, "provider": provider, "spec_hash": spec_hash(made), "schedule_hash": schedule_of(made).sha256}
    folder.joinpath("work").mkdir(exist_ok=True)
    with pytest.raises(TrialFailed) as raised, ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
        inference_trial.measure(a_trial("inference").model_copy(update=changed), folder / "work", lambda *_: None, watch)
    assert MODELS_TOKEN_VARIABLE not in os.environ, "a server would inherit it"
    return raised.value


def test_what_was_fetched_is_in_the_document(gated: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = failure(gated, tmp_path, monkeypatch)
    assert cold.failure_class == "image_error"
    (evidence,) = [item.path for item in cold.partial.evidence if item.kind == "manifest"]
    manifest = Manifest.of_json(evidence.read_text())
    assert cold.partial.hashes["manifest"] == cold.partial.facts["model.manifest"] == manifest.sha256
    assert {row.metric for row in cold.partial.metrics} == FETCH and cold.partial.facts["model.cache"] == "cold"
    assert [event.name for event in cold.partial.events] == ["model_fetch_started", "model_fetched"]
    assert set(cold.partial.seeds) == {"requests", "sampling"}

    warm = failure(gated, tmp_path, monkeypatch)
    assert not FETCH & {row.metric for row in warm.partial.metrics} and warm.partial.facts["model.cache"] == "warm"
    assert warm.partial.hashes == cold.partial.hashes
    for each in (cold, warm):
        assert TOKEN not in json.dumps([each.partial.facts, each.partial.hashes, str(each), evidence.read_text()])


def test_a_gated_model_without_a_token_ends_before_the_server(gated: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = failure(gated, tmp_path, monkeypatch, token=None)
    assert refused.failure_class == "bad_declaration" and "models_connection" in refused.detail
    assert refused.partial.hashes == {}
