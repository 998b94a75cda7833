"""The served models on a real tritonserver: precisions and their quality, text, the prefix cache, the encoder."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.unit.harness.inference.load.test_arrivals import workload
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.load.prompts import shipped_tokenizer
from plumbline.harness.inference.server import backends, metrics_page, tritonserver
from plumbline.harness.inference.server.backends import Repository
from plumbline.harness.inference.server.triton import Triton
from plumbline.loadclient.prompt import Prompt

ENCODER = {"architecture": "encoder", "task": "embedding", "layers": 2, "width": 64, "heads": 4, "vocabulary": 2048, "context": 128}


def declared(precision: str = "fp32", **changes: Any) -> InferenceWorkload:
    data = json.loads(workload().model_dump_json())
    for name, change in changes.items():
        data[name] = {**data[name], **change} if isinstance(data[name], dict) and "architecture" not in change else change
    data["model"]["precision"] = precision
    return InferenceWorkload.model_validate_json(json.dumps(data))


@contextmanager
def serving(repository: Repository, workdir: Path) -> Iterator[Triton]:
    with Triton(tritonserver.find_installation(), repository.folder, repository.model, workdir, ready_within_s=120) as triton:
        yield triton


def answers(triton: Triton, repository: Repository, prompts: list[Prompt], tokens: int) -> list[dict[str, list[bytes]]]:
    """Every output of every response, by name, for each prompt in turn."""
    found: list[dict[str, list[bytes]]] = []
    with grpc.insecure_channel(triton.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for i, prompt in enumerate(prompts):
            outputs: dict[str, list[bytes]] = {}
            request = messages.ModelInferRequest.FromString(repository.body(i, prompt, tokens))
            for message in stub.ModelStreamInfer(iter([request]), timeout=30):
                assert not message.error_message, message.error_message
                response = message.infer_response
                for output, data in zip(response.outputs, response.raw_output_contents, strict=True):
                    outputs.setdefault(output.name, []).append(data)
            found.append(outputs)
    return found


def test_text_goes_in_and_comes_out(tmp_path: Path) -> None:
    made = declared(requests={"text": True})
    repository = backends.write(made, tmp_path / "models", threads=1)
    ids = np.arange(300, 340, dtype=np.int32)
    text = shipped_tokenizer().decode(ids.tolist())
    expected = np.array(shipped_tokenizer().encode(text).ids, np.int32)
    with serving(repository, tmp_path) as triton:
        of_text, of_ids = answers(triton, repository, [Prompt(expected, text), Prompt(expected)], 12)
    assert of_text["TOKEN"] == of_ids["TOKEN"], "the server's tokenizer makes the same ids"
    assert np.frombuffer(of_text["INPUT_TOKENS"][0], "<i4").tolist() == [len(expected)]
    tokens = [struct.unpack("<i", data)[0] for data in of_text["TOKEN"]]
    said = b"".join(of_text["TEXT"]).decode()
    # A character that the answer ends within is never said.
    assert said and shipped_tokenizer().decode(tokens).rstrip("\ufffd") == said.rstrip("\ufffd")
    times = np.frombuffer(of_text["SERVER_TIMES"][0], "<f8")
    assert (times >= 0).all() and times[0] > 0 and times[4] > 0
    assert np.frombuffer(of_ids["SERVER_TIMES"][0], "<f8")[0] < 0.01


@pytest.mark.full
def test_a_prompt_of_more_than_one_step_begins_with_its_first_token(tmp_path: Path) -> None:
    asked = declared(model={"context": 640})
    repository = backends.write(asked, tmp_path / "models", threads=1)
    prompts = [Prompt(np.arange(n, dtype=np.int32), None) for n in (5, 600)]
    with serving(repository, tmp_path) as triton:
        for outputs in answers(triton, repository, prompts, 3):
            assert [len(token) for token in outputs["TOKEN"]] == [4, 4, 4]
            assert [struct.unpack("<i", index)[0] for index in outputs["INDEX"]] == [0, 1, 2]


@pytest.mark.full
def test_prompts_that_begin_alike_are_found_in_the_cache(tmp_path: Path) -> None:
    """Hits on the server's own page, to the token; the answers do not depend on them."""
    rng = np.random.default_rng(1)
    shared = rng.integers(0, 2048, 40, dtype=np.int32)
    prompts = [Prompt(np.concatenate([shared, rng.integers(0, 2048, 10, dtype=np.int32)])) for _ in range(4)]
    tokens: dict[str, list[list[bytes]]] = {}
    for state in ("off", "cold"):
        repository = backends.write(declared(server={"prefix_cache": state}), tmp_path / state, threads=1)
        with serving(repository, tmp_path) as triton:
            tokens[state] = [answer["TOKEN"] for answer in answers(triton, repository, prompts, 4)]
            page = metrics_page.fetch_metrics(triton.metrics_address) if state == "cold" else ""
    assert tokens["cold"] == tokens["off"]
    counted = {line.split("{")[0]: float(line.split()[-1]) for line in page.splitlines() if line.startswith("plumbline_prefix_cache")}
    # Two whole blocks of 16 tokens of the shared 40, for all but the first.
    assert counted == {"plumbline_prefix_cache_hits": 3 * 32, "plumbline_prefix_cache_misses": 4 * 50 - 3 * 32}
