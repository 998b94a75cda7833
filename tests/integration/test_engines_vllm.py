"""A real vLLM behind Triton and by its own server, beside transformers: the same greedy tokens from the same checkpoint.

PLUMBLINE_VLLM_PYTHON names the Python of an environment with vLLM; CONTRIBUTING says how to make one for CPUs."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from tests import checkpoints
from tests.data.repositories.golden import workload
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.declarations import InferenceWorkload
from plumbline.harness import engine_python
from plumbline.harness.inference.server.assembly import ServerPlace, assemble
from plumbline.harness.inference.server.under_test import ManagedOpenAi, ManagedTriton
from plumbline.loadclient import wire
from plumbline.loadclient.prompt import Prompt

VLLM = os.environ.get("PLUMBLINE_VLLM_PYTHON", "")
pytestmark = [
    pytest.mark.full,
    pytest.mark.integration,
    pytest.mark.skipif(not VLLM, reason="PLUMBLINE_VLLM_PYTHON is not set; CONTRIBUTING says how to get a vLLM for CPUs"),
]
PROMPTS, TOKENS = 64, 24
SERVE = ["vllm", "serve", "{model}", "--port", "{port}", "--host", "{host}", "--served-model-name", "{served_name}"]
SERVE += ["--max-model-len", "{context}", "--dtype", "float32", "--enforce-eager", "--gpu-memory-utilization", "0.5"]
MODELS = {"llama": checkpoints.llama, "mixture": checkpoints.mixture}


@pytest.fixture(scope="module", params=list(MODELS))
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint") / request.param
    return MODELS[request.param](folder, dtype="float32", steps=150)


@pytest.fixture(autouse=True)
def vllm_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine_python.VARIABLE, VLLM)
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")


def prompts(folder: Path) -> list[Prompt]:
    """Beginnings of the texts that the model was trained on, and of none of them."""
    from tokenizers import Tokenizer

    words = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rng = np.random.default_rng(3)
    found = []
    for i in range(PROMPTS):
        ids = words.encode(checkpoints.TEXTS[i % len(checkpoints.TEXTS)]).ids[: 3 + i // 8]
        found.append(Prompt(np.array([*ids, *rng.integers(4, 500, i % 5)], np.int32)))
    return found


def declared(folder: Path, backend: str, **server: Any) -> InferenceWorkload:
    model = {"source": "folder", "path": str(folder), "precision": "fp32", "context": checkpoints.CONTEXT, "vocabulary": 512}
    return workload(model=model, server={"backend": backend, "sequences": 16, "ready_timeout": "300s"} | server)


def place(folder: Path) -> ServerPlace:
    return ServerPlace(folder, [None], [{}], threads=2)


def from_triton(folder: Path, checkpoint: Path, backend: str, asked: list[Prompt]) -> list[list[int]]:
    served = assemble(declared(checkpoint, backend), place(folder), checkpoint)
    assert isinstance(served, ManagedTriton)
    with served.triton as server:
        return [answer.tokens for answer in stream(server.address, [served.body(i, p, TOKENS) for i, p in enumerate(asked)])]


class Answer:
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.last: dict[str, NDArray[Any]] = {}


def stream(address: str, bodies: list[bytes], timeout: float = 300) -> list[Answer]:
    found = [Answer() for _ in bodies]
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for message in stub.ModelStreamInfer(map(messages.ModelInferRequest.FromString, bodies), timeout=timeout):
            assert not message.error_message, message.error_message
            response = message.infer_response
            arrays = dict(zip([o.name for o in response.outputs], response.raw_output_contents, strict=True))
            answer = found[int(response.id)]
            tokens = np.frombuffer(arrays[wire.TOKENS], "<i4").tolist()
            assert [len(tokens)] == np.frombuffer(arrays[wire.COUNT], "<i4").tolist()
            answer.tokens += tokens
            if wire.SERVER_TIMES in arrays:
                answer.last = {
                    wire.SERVER_TIMES: np.frombuffer(arrays[wire.SERVER_TIMES], "<f8"),
                    wire.INPUT_TOKENS: np.frombuffer(arrays[wire.INPUT_TOKENS], "<i4"),
                    wire.CACHED_TOKENS: np.frombuffer(arrays[wire.CACHED_TOKENS], "<i4"),
                }
    return found


def from_vllm_serve(folder: Path, checkpoint: Path, asked: list[Prompt]) -> list[list[int]]:
    served = assemble(declared(checkpoint, "openai", command=SERVE), place(folder), checkpoint)
    assert isinstance(served, ManagedOpenAi)
    (server,) = served.servers
    with server:
        about = server.start_up.about
        assert (about["engine"], server.served_name) == ("vllm", "plumbline")
        assert about["engine_version"]

        def complete(prompt: Prompt) -> list[int]:
            host, port = server.address.split(":")
            body = {"model": server.served_name, "prompt": prompt.ids.tolist(), "max_tokens": TOKENS, "temperature": 0}
            body |= {"min_tokens": TOKENS, "ignore_eos": True, "return_token_ids": True}
            connection = http.client.HTTPConnection(host, int(port), timeout=120)
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            tokens: list[int] = json.loads(connection.getresponse().read())["choices"][0]["token_ids"]
            connection.close()
            return tokens

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(complete, asked))
        counted = server.view()
        assert counted is not None
        assert (counted.succeeded, counted.prefill_s is not None) == (PROMPTS, True)
    return found


def test_three_engines_give_the_same_greedy_tokens(tmp_path: Path, checkpoint: Path) -> None:
    asked = prompts(checkpoint)
    by_engine: dict[str, Callable[[Path], list[list[int]]]] = {
        "vllm": lambda folder: from_triton(folder, checkpoint, "vllm", asked),
        "transformers": lambda folder: from_triton(folder, checkpoint, "python", asked),
        "vllm serve": lambda folder: from_vllm_serve(folder, checkpoint, asked),
    }
    found = {}
    for name, serve in by_engine.items():
        (folder := tmp_path / name.replace(" ", "-")).mkdir()
        found[name] = serve(folder)
    assert all(len(answer) == TOKENS for answers in found.values() for answer in answers)
    assert len({tuple(answer) for answer in found["vllm"]}) > PROMPTS // 2, "the model answers each prompt with the same"
    assert found["vllm"] == found["transformers"]
    assert found["vllm"] == found["vllm serve"]
