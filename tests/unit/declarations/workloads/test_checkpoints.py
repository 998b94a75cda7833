"""Checkpoints as a workload's model: which declarations are accepted, what is hashed, which field an error names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.trials import CONFIG

from plumbline.declarations import DeclarationError, InferenceWorkload, load
from plumbline.declarations.trials import spec_hash
from plumbline.declarations.workloads.checkpoints import FolderCheckpoint, HubCheckpoint, UrlCheckpoint

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = {"source": "hub", "id": "org/name", "revision": COMMIT}
FOLDER = {"source": "folder", "path": "/models/mine"}
SHAPE = "model: {architecture: gpt, layers: 2, width: 128, heads: 4, vocabulary: 2048, context: 128}"


def workload(model: dict[str, Any], **changes: Any) -> InferenceWorkload:
    base = load(CONFIG).workloads["chat-tiny-cpu"].model_dump(mode="json")
    return InferenceWorkload.model_validate_json(json.dumps(base | {"model": model, "server": {"backend": "vllm"}} | changes))


@pytest.mark.parametrize(
    ("model", "kind"), [(HUB, HubCheckpoint), ({"source": "url", "url": "s3://bucket/m/"}, UrlCheckpoint), (FOLDER, FolderCheckpoint)]
)
def test_each_source_is_a_model_and_survives_json(model: dict[str, Any], kind: type) -> None:
    declared = workload(model)
    assert isinstance(declared.model, kind)
    assert InferenceWorkload.model_validate_json(declared.model_dump_json()) == declared
    assert declared.model.context is None and declared.model.precision == "bf16"


def test_what_describes_the_files_changes_no_hash_and_the_files_do() -> None:
    plain = spec_hash(workload(HUB))
    described = HUB | {"parameters": 8_000_000, "active_parameters": 2_000_000, "weights_bytes": 16_000_000, "kv_cache_bytes_per_token": 64}
    assert spec_hash(workload(described)) == plain
    for change in ({"revision": COMMIT[::-1]}, {"manifest": "0" * 64}, {"context": 4096}, {"precision": "fp16"}):
        assert spec_hash(workload(HUB | change)) != plain, change


def test_a_quantised_checkpoint_needs_a_quality() -> None:
    for precision in ("fp32", "bf16", "fp16"):
        workload(HUB | {"precision": precision})
    with pytest.raises(ValueError, match=r"model\.precision int4.*quality"):
        workload(HUB | {"precision": "int4"})
    workload(HUB | {"precision": "int4"}, quality={"reference": "bf16", "agreement": "98%"})


def test_lengths_are_checked_once_the_context_is_declared() -> None:
    longer = {"input_tokens": {"constant": 600}, "output_tokens": {"constant": 8}, "seed": 1}
    workload(HUB, requests=longer)
    with pytest.raises(ValueError, match=r"over model\.context 512"):
        workload(HUB | {"context": 512}, requests=longer)


@pytest.mark.parametrize(
    ("model", "field", "expected"),
    [
        ("{layers: 2}", "model", ("architecture", "source")),
        ("{source: ftp, url: 'ftp://x/y'}", "model.source", ("hub", "url", "folder")),
        ("{architecture: bert}", "model.architecture", ("gpt", "llama", "encoder")),
        (f"{{source: hub, id: name, revision: '{COMMIT}'}}", "model.id", ("owner/name",)),
        ("{source: hub, id: a/b, revision: main}", "model.revision", ("commit",)),
        ("{source: folder, path: models/mine}", "model.path", ("absolute",)),
        ("{source: hub, id: a/b, revisions: main}", "model.revisions", ("revision",)),
        ("{source: url, url: 'https://b/m?signature=1'}", "model.url", ("query",)),
        ("{source: url, url: 'https://user:secret@b/m'}", "model.url", ("connection",)),
        ("{source: url, url: s3://b/m, manifest: abc}", "model.manifest", ("SHA-256",)),
    ],
)
def test_an_error_names_field_and_expectation(config: Path, model: str, field: str, expected: tuple[str, ...]) -> None:
    path = config / "workloads/inference/chat.yaml"
    path.write_text(path.read_text().replace(SHAPE, f"model: {model}").replace("backend: python", "backend: vllm"))
    with pytest.raises(DeclarationError) as raised:
        load(config)
    (problem,) = [found for found in raised.value.problems if found.field == field]
    assert problem.line == 5
    assert all(word in problem.message for word in expected), problem.message
