"""What each backend is told and asked. Golden files: tests/data/repositories."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tests.data.repositories.golden import CASES, ENCODER, FOLDER, GPU, LLAMA, ONE, RETRIEVAL, workload, written
from tokenizers import Tokenizer
from tritonclient.grpc import model_config_pb2
from tritonclient.grpc import service_pb2 as messages

from plumbline.harness.inference.server import backends
from plumbline.harness.inference.server.backends import Repository
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.wire import PERHAPS

PROMPT = Prompt(np.array([3, 17, 0, 22, 5], np.int32))


def write(folder: Path, **parts: Any) -> Repository:
    return backends.write(workload(**parts), folder / "models", threads=2)


def asked(repository: Repository, prompt: Prompt = PROMPT, tokens: int = 7) -> dict[str, tuple[str, list[int], bytes]]:
    """The request's tensors by name: datatype, shape, bytes."""
    request = messages.ModelInferRequest.FromString(repository.body(12, prompt, tokens))
    assert (request.model_name, request.id) == (repository.model, "12")
    tensors = zip(request.inputs, request.raw_input_contents, strict=True)
    return {tensor.name: (tensor.datatype, list(tensor.shape), data) for tensor, data in tensors}


# test_an_exported_encoder_answers_as_the_model_does exports to the same backend.
@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.full if c == "pytorch-reranking-gpu" else ()) for c in CASES])
def test_the_repository_is_the_golden_one(tmp_path: Path, case: str) -> None:
    golden = {str(path.relative_to(FOLDER / case)): path.read_text() for path in (FOLDER / case).rglob("*") if path.is_file()}
    assert written(case, tmp_path) == golden, "python -m tests.data.repositories.golden writes them again"


def test_our_models_sources_lie_beside_them(tmp_path: Path) -> None:
    chat = write(tmp_path / "chat")
    assert {p.name for p in (chat.folder / chat.model / "1").iterdir()} >= {"model.py", "transformer.py"}
    text = write(tmp_path / "text", requests={"text": True, "input_tokens": {"constant": 16}})
    assert "tokenizer.json" in {p.name for p in (text.folder / text.model / "1").iterdir()}
    encoder = write(tmp_path / "encoder", model=ENCODER, requests=ONE)
    assert {p.name for p in (encoder.folder / encoder.model / "1").iterdir()} >= {"model.py", "encoder.py"}


def test_a_causal_lm_of_ours_is_asked_for_so_many_tokens(tmp_path: Path) -> None:
    tensors = asked(write(tmp_path))
    assert np.frombuffer(tensors["PROMPT_IDS"][2], "<i4").tolist() == PROMPT.ids.tolist()
    assert tensors["MAX_TOKENS"] == ("INT32", [1], (7).to_bytes(4, "little"))


def test_a_pipelines_models_lie_beside_it_and_its_hash_covers_them(tmp_path: Path) -> None:
    declared = {"retrieval": RETRIEVAL, "requests": {"text": True, "input_tokens": {"constant": 16}}}
    repository = write(tmp_path, **declared)
    assert {p.name for p in repository.folder.iterdir()} == {"pipeline", "generator", "embedding", "reranking"}
    assert {p.name for p in (repository.folder / "pipeline" / "1").iterdir()} >= {
        "model.py",
        "retrieval.py",
        "model_client.py",
        "encoder.py",
        "tokenizer.json",
    }
    assert "tokenizer.json" not in {p.name for p in (repository.folder / "embedding" / "1").iterdir()}, "it is asked by ids"
    assert list(asked(repository, Prompt(PROMPT.ids, "né"))) == ["PROMPT", "MAX_TOKENS"]
    hashes = [backends.model_hash(workload(**declared | {"retrieval": RETRIEVAL | change})) for change in ({}, {"seed": 4}, {"top": 3})]
    alone = backends.model_hash(workload(requests=declared["requests"]))
    assert len({*hashes, alone}) == 4
    assert hashes[0] == backends.model_hash(workload(**declared))


@pytest.mark.parametrize("backend", ["vllm", "tensorrtllm"])
def test_an_engine_is_asked_for_exactly_so_many_tokens(tmp_path: Path, backend: str) -> None:
    repository = write(tmp_path, model=LLAMA, server={"backend": backend}, needs=GPU)
    tensors = asked(repository)
    assert np.frombuffer(tensors["PROMPT_IDS"][2], "<i4").tolist() == PROMPT.ids.tolist()
    assert tensors["MAX_TOKENS"] == ("INT32", [1], (7).to_bytes(4, "little"))
    assert set(tensors) == {"PROMPT_IDS", "MAX_TOKENS"}, "forced, and of the base model"
    assert (repository.wire.tokens, repository.wire.index, repository.backend) == ("COUNT", None, "python")
    assert {p.name for p in (repository.folder / "chat" / "1").iterdir()} == {"model.py", "generation.py", "serving.py", "journal.py"}


def test_requests_take_adapters_in_turn(tmp_path: Path) -> None:
    adapters = {}
    for name, rank in (("legal", 4), ("medical", 12)):
        (folder := tmp_path / name).mkdir()
        (folder / "adapter_config.json").write_text(json.dumps({"r": rank}))
        adapters[name] = str(folder)
    repository = write(tmp_path, model=LLAMA, server={"backend": "vllm", "adapters": adapters}, needs=GPU)
    bodies = [messages.ModelInferRequest.FromString(repository.body(i, PROMPT, 7)) for i in range(3)]
    assert [dict(zip([t.name for t in b.inputs], b.raw_input_contents, strict=True))["ADAPTER"] for b in bodies] == [
        b"legal",
        b"medical",
        b"legal",
    ]
    arguments = settings(repository)["engine_args"]
    assert (arguments["enable_lora"], arguments["max_loras"], arguments["max_lora_rank"]) == (True, 2, 16)
    with pytest.raises(TrialFailed, match=r"^bad_declaration: server\.adapters\.none: .*adapter_config\.json"):
        write(tmp_path, model=LLAMA, server={"backend": "vllm", "adapters": {"none": str(tmp_path)}}, needs=GPU)


def settings(repository: Repository) -> dict[str, Any]:
    config = text_format.Parse((repository.folder / "chat" / "config.pbtxt").read_text(), model_config_pb2.ModelConfig())
    found: dict[str, Any] = json.loads(config.parameters["settings"].string_value)
    return found


def test_no_llama_can_say_the_end_of_text(tmp_path: Path) -> None:
    write(tmp_path, model=LLAMA, server={"backend": "vllm"}, needs=GPU)
    tokenizer = Tokenizer.from_file(str(tmp_path / "models-hub" / "tokenizer.json"))
    assert tokenizer.token_to_id("</s>") == json.loads((tmp_path / "models-hub" / "config.json").read_text())["vocab_size"]


@pytest.mark.parametrize("backend", ["vllm", "tensorrtllm"])
def test_declared_text_reaches_an_engine_with_the_shipped_tokenizer(tmp_path: Path, backend: str) -> None:
    parts = {"model": LLAMA | {"vocabulary": 2048}, "server": {"backend": backend}, "needs": GPU, "requests": {"text": True}}
    repository = write(tmp_path, **parts)
    text, file = "The rate rises.", settings(repository)["tokenizer"]
    tensors = asked(repository, Prompt(np.array(Tokenizer.from_file(file).encode(text).ids, np.int32), text))
    assert tensors["PROMPT"][2].decode() == text
    assert repository.wire.responses["TEXT"] == PERHAPS
    assert settings(repository)["engine_args"]["skip_tokenizer_init"] is False


@pytest.mark.full
def test_what_writes_onnx_is_missing_or_works(tmp_path: Path) -> None:
    parts = {"model": ENCODER, "requests": ONE, "server": {"backend": "onnxruntime"}}
    if all(importlib.util.find_spec(name) for name in ("onnxscript", "onnxruntime")):
        repository = write(tmp_path, **parts)
        assert (repository.folder / repository.model / "1" / "model.onnx").stat().st_size > 0
    else:
        with pytest.raises(TrialFailed, match=r"^image_error: .*onnxruntime.*ModuleNotFoundError"):
            write(tmp_path, **parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"model": LLAMA | {"precision": "int4"}, "server": {"backend": "vllm"}, "quality": {"reference": "bf16", "agreement": "90%"}},
            r"precision int4 on server.backend vllm: .*expected one of fp32, fp16, bf16, fp8",
        ),
        (
            {"model": ENCODER | {"precision": "bf16"}, "requests": ONE, "server": {"backend": "onnxruntime"}},
            r"precision bf16 on server.backend onnxruntime: .*expected one of fp32$",
        ),
        ({"server": {"backend": "external"}}, r"external: that server has its own model"),
    ],
)
def test_what_a_backend_cannot_serve(tmp_path: Path, parts: dict[str, Any], message: str) -> None:
    if parts.get("requests", {}).get("text"):
        parts = parts | {"model": parts["model"] | {"vocabulary": 2048}}
    with pytest.raises(TrialFailed, match=f"bad_declaration: .*{message}"):
        write(tmp_path, **({"needs": GPU} | parts if parts.get("model", {}).get("architecture") == "llama" else parts))


def test_the_hash_covers_model_backend_and_weights_and_nothing_else() -> None:
    encoder = workload(model=ENCODER, requests=ONE)
    variants = [
        workload(),
        workload(model=json.loads(workload().model.model_dump_json()) | {"seed": 8}),
        workload(model=json.loads(workload().model.model_dump_json()) | {"layers": 3}),
        encoder,
        workload(model=ENCODER, requests=ONE, server={"backend": "onnxruntime"}),
        workload(model=LLAMA, server={"backend": "vllm"}, needs=GPU),
    ]
    hashes = [backends.model_hash(one) for one in variants]
    assert len(set(hashes)) == len(hashes)
    assert backends.model_hash(workload(requests={"seed": 5})) == hashes[0], "other prompts are the same model"
