"""Drafts and adapters are fetched and identified as the model is, before a server starts."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.fakes.model_hub import REVISION, model_hub
from tests.fakes.trials import a_trial, local_provider
from tests.unit.declarations.workloads.test_checkpoints import workload

from plumbline.declarations import InferenceWorkload
from plumbline.declarations.trials import spec_hash
from plumbline.harness.contention_monitor import ContentionMonitor
from plumbline.harness.inference import trial as inference_trial
from plumbline.harness.inference.checkpoint.contents import Manifest
from plumbline.harness.inference.checkpoint.fetched import fetch_companions
from plumbline.harness.inference.load.schedule import schedule_of
from plumbline.harness.inference.server import tritonserver
from plumbline.harness.inference.server.backends import model_hash
from plumbline.harness.launcher_protocol import MODELS_TOKEN_VARIABLE
from plumbline.harness.measurement import TrialFailed

TOKEN = "hf_a-secret"


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"r": 8, "lora_alpha": 16}')
    save_file({"lora_A.weight": np.ones((8, 64), np.float32)}, folder / "adapter_model.safetensors")
    return folder


def declared(model: Path, **server: Any) -> InferenceWorkload:
    return workload({"source": "folder", "path": str(model)}, server={"backend": "vllm", **server})


def fetched(asked: InferenceWorkload, folder: Path) -> Any:
    return fetch_companions(asked, folder / "cache", None, (None, None), lambda _: None)


def test_a_hash_of_what_is_declared_by_a_path_stays(llama: Path) -> None:
    paths = declared(llama, adapters={"law": "/adapters/law"}, speculative={"method": "draft_model", "tokens": 2, "model": "/drafts/a"})
    assert paths.server.adapter_paths == {"law": "/adapters/law"} and paths.server.draft_path == "/drafts/a"
    dumped = paths.model_dump(mode="json", exclude_defaults=True)["server"]
    assert (dumped["adapters"], dumped["speculative"]["model"]) == ({"law": "/adapters/law"}, "/drafts/a")
    assert paths.server.fetched_files == {}
    sourced = declared(llama, adapters={"law": {"source": "folder", "path": "/adapters/law"}})
    assert spec_hash(sourced) != spec_hash(declared(llama, adapters={"law": "/adapters/law"}))
    with pytest.raises(TypeError, match="law"):
        _ = sourced.server.adapter_paths


def test_files_of_each_source_are_served_from_a_folder(llama: Path, adapter: Path, tmp_path: Path) -> None:
    asked = declared(
        llama,
        adapters={"law": {"source": "url", "url": adapter.as_uri()}, "tax": {"source": "folder", "path": str(adapter)}, "own": "/here"},
        speculative={"method": "draft_model", "tokens": 2, "model": {"source": "url", "url": llama.as_uri()}},
    )
    ready, found = fetched(asked, tmp_path)
    assert found.keys() == {"speculative", "adapters.law", "adapters.tax"}
    assert {field: each.state for field, each in found.items()} == {"speculative": "cold", "adapters.law": "cold", "adapters.tax": "local"}
    paths = ready.server.adapter_paths
    assert (paths["tax"], paths["own"]) == (str(adapter), "/here") and Path(paths["law"]).is_relative_to(tmp_path / "cache")
    assert ready.server.draft_path is not None and (Path(ready.server.draft_path) / "config.json").exists()
    assert found["adapters.law"].manifest == found["adapters.tax"].manifest, "one content, one identity"
    assert {file.path for file in found["adapters.law"].manifest.files} == {"adapter_config.json", "adapter_model.safetensors"}
    again, warm = fetched(asked, tmp_path)
    assert (again, warm["adapters.law"].state) == (ready, "warm")
    plain = model_hash(asked, "a" * 64)
    by_manifest = {field: each.manifest.sha256 for field, each in found.items()}
    assert len({plain, model_hash(asked, "a" * 64, by_manifest), model_hash(asked, "a" * 64, by_manifest | {"speculative": "0"})}) == 3


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda folder: (folder / "adapter_model.safetensors").unlink(), "adapter_model.safetensors"),
        (lambda folder: (folder / "adapter_config.json").write_text("{"), "adapter_config.json"),
        (lambda folder: (folder / "adapter_config.json").write_text('{"r": 0}'), "rank 0"),
        (lambda folder: shutil.rmtree(folder), "not a folder"),
    ],
)
def test_a_broken_adapter_is_named_with_its_field(llama: Path, adapter: Path, tmp_path: Path, damage: Any, named: str) -> None:
    damage(adapter)
    with pytest.raises(TrialFailed) as failed:
        fetched(declared(llama, adapters={"law": {"source": "folder", "path": str(adapter)}}), tmp_path)
    assert failed.value.failure_class == "bad_declaration"
    assert all(text in failed.value.detail for text in ("server.adapters.law", named, "expected"))


def test_other_files_than_the_declared_ones_are_refused(llama: Path, adapter: Path, tmp_path: Path) -> None:
    asked = declared(llama, adapters={"law": {"source": "folder", "path": str(adapter), "manifest": "0" * 64}})
    with pytest.raises(TrialFailed, match=r"server\.adapters\.law: .*manifest"):
        fetched(asked, tmp_path)


def test_a_draft_of_another_vocabulary_is_refused(llama: Path, mixture: Path, tmp_path: Path) -> None:
    asked = declared(llama, speculative={"method": "draft_model", "tokens": 2, "model": {"source": "folder", "path": str(mixture)}})
    asked = asked.model_copy(update={"model": asked.model.model_copy(update={"vocabulary": 512})})
    with pytest.raises(TrialFailed, match=r"server\.speculative: .*640.*512"):
        fetched(asked, tmp_path)


def test_they_are_in_the_document_of_a_trial(llama: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tritonserver.TRITONSERVER_VARIABLE, str(tmp_path / "missing"))
    monkeypatch.setenv(MODELS_TOKEN_VARIABLE, TOKEN)
    (tmp_path / "work").mkdir()
    with model_hub({"org/llama": llama, "org/law": adapter}, token=TOKEN) as hub:
        hosted = {"source": "hub", "id": "org/law", "revision": REVISION}
        made = workload({"source": "hub", "id": "org/llama", "revision": REVISION}, server={"backend": "vllm", "adapters": {"law": hosted}})
        provider = local_provider(models_url=hub.url, models_cache=str(tmp_path / "cache"))
        changed = {"workload": made, "provider": provider, "spec_hash": spec_hash(made), "schedule_hash": schedule_of(made).sha256}
        with pytest.raises(TrialFailed) as raised, ContentionMonitor(sorted(os.sched_getaffinity(0))) as watch:
            inference_trial.measure(a_trial("inference").model_copy(update=changed), tmp_path / "work", lambda *_: None, watch)
    partial = raised.value.partial
    kept = {item.path.name: item.path for item in partial.evidence if item.kind == "manifest"}
    assert kept.keys() == {"manifest.json", "manifest.adapters.law.json"}
    manifest = Manifest.of_json(kept["manifest.adapters.law.json"].read_text()).sha256
    assert partial.hashes["manifest.adapters.law"] == partial.facts["adapters.law.manifest"] == manifest
    assert (partial.facts["adapters.law.cache"], partial.facts["adapters.law.bytes"]) == (
        "cold",
        sum(f.stat().st_size for f in adapter.iterdir()),
    )
    assert TOKEN not in json.dumps([partial.facts, partial.hashes, str(raised.value)])


@pytest.mark.parametrize(
    ("model", "server", "named"),
    [
        ({"source": "folder", "path": "/m"}, {"backend": "openai", "command": ["serve", "{port}"], "adapters": {"a": {"source": "folder", "path": "/a"}}}, "adapters.a"),
        (None, {"backend": "vllm", "adapters": {"a": {"source": "folder", "path": "/a"}}}, "model.source"),
        ({"source": "folder", "path": "/m"}, {"backend": "vllm", "adapters": {"a/b": "/a"}}, "adapters"),
        ({"source": "folder", "path": "/m"}, {"backend": "vllm", "adapters": {"a": {"source": "hub", "id": "x/y"}}}, "revision"),
        ({"source": "folder", "path": "/m"}, {"backend": "vllm", "speculative": {"method": "ngram", "tokens": 2, "model": {"source": "folder", "path": "/d"}}}, "no model"),
    ],
)  # fmt: skip
def test_what_cannot_be_fetched_is_refused_when_read(model: dict[str, Any] | None, server: dict[str, Any], named: str) -> None:
    from tests.data.repositories.golden import LLAMA

    with pytest.raises(ValueError, match=named):
        workload(model or LLAMA, server=server)


def test_facts_show_sources_as_they_are_declared(llama: Path) -> None:
    source = {"source": "url", "url": "s3://models/law"}
    draft = {"source": "folder", "path": "/drafts/a"}
    asked = declared(llama, adapters={"law": source, "own": "/here"}, speculative={"method": "draft_model", "tokens": 2, "model": draft})
    facts = inference_trial.engine_facts(asked, local_provider(), {"engine": "vllm", "engine_version": "1"})
    assert json.loads(str(facts["engine.adapters"])) == {"law": source, "own": "/here"}
    assert json.loads(str(facts["engine.speculative"]))["model"] == draft
