"""The wire of NVIDIA's vllm backend, against a server that speaks it as that backend's source does (github.com/triton-inference-server/vllm_backend)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.data.repositories.golden import GPU, LLAMA, workload
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from plumbline.harness.inference.phases.load_phase import sequential_load
from plumbline.harness.inference.server import backends
from plumbline.harness.inference.server.backends import Repository
from plumbline.harness.measurement import TrialFailed
from plumbline.loadclient.load_generator import drive
from plumbline.loadclient.prompt import Prompt
from plumbline.loadclient.request_log import RequestLog
from plumbline.loadclient.transport import Settings, Target

OWN = {"backend": "vllm", "triton_backend": "vllm"}


def write(folder: Path, server: dict[str, Any] | None = None, **parts: Any) -> Repository:
    return backends.write(workload(model=LLAMA, server=OWN | (server or {}), needs=GPU, **parts), folder / "models", threads=1)


def tensors(body: bytes) -> dict[str, Any]:
    """The request's inputs by name, as the backend's Python sees them."""
    request = messages.ModelInferRequest.FromString(body)
    found: dict[str, Any] = {}
    for tensor, data in zip(request.inputs, request.raw_input_contents, strict=True):
        assert list(tensor.shape) == [1]
        found[tensor.name] = deserialize_bytes_tensor(data)[0].decode() if tensor.datatype == "BYTES" else bool(data[0])
    return found


class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Words of the prompt come back, `at_once` tokens a response, and after the last response there is nothing. `broken`: text whose bytes do not
    arrive, as Triton 24.10 sends it under numpy 2."""

    def __init__(self, *, at_once: int = 1, read: int | None = None, broken: bool = False) -> None:
        self.at_once, self.read, self.broken = at_once, read, broken

    def ModelStreamInfer(self, stream: Iterator[Any], _context: Any) -> Iterator[Any]:
        for request in stream:
            asked = tensors(request.SerializeToString())
            sampling = json.loads(asked["sampling_parameters"])
            words = asked["text_input"].split()
            assert (asked["stream"], asked["return_num_input_tokens"], sampling["temperature"]) == (True, True, 0)
            left = sampling["max_tokens"]
            while left:
                brought = min(self.at_once, left)
                left -= brought
                text = serialize_byte_tensor(np.array([" ".join(words[:brought]).encode()], object)).item()
                answer = messages.ModelStreamInferResponse()
                response = answer.infer_response
                response.id, response.model_name = request.id, request.model_name
                response.parameters["triton_final_response"].bool_param = left == 0
                for name, datatype, shape, data in (
                    ("text_output", "BYTES", [1], b"" if self.broken else text),
                    ("num_input_tokens", "UINT32", [], np.array(self.read or len(words), "<u4").tobytes()),
                    ("num_output_tokens", "UINT32", [1], np.array([brought], "<u4").tobytes()),
                ):
                    response.outputs.add(name=name, datatype=datatype, shape=shape)
                    response.raw_output_contents.append(data)
                yield answer


@contextmanager
def serving(servicer: Servicer) -> Iterator[str]:
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


def driven(repository: Repository, servicer: Servicer, tokens: int = 6) -> RequestLog:
    prompts = [Prompt(np.array([3, 4, i], np.int32)) for i in range(4)]
    load = sequential_load("steady", prompts, tokens)
    bodies = [repository.body(i, prompt, tokens) for i, prompt in enumerate(prompts)]
    with serving(servicer) as address:
        return drive(load, bodies, Target(address, repository.wire, lambda: True), timeout_s=20, settings=Settings())


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_tokens_are_those_that_the_backend_counts(tmp_path: Path, at_once: int) -> None:
    log = driven(write(tmp_path), Servicer(at_once=at_once))
    assert log.finished == 4, log.first_error()
    assert log.written.tolist() == [6] * 4
    assert np.isnan(log.server_s).all(), "the backend reports no times"


@pytest.mark.parametrize(
    ("servicer", "detail"),
    [({"read": 9}, "the server made 9 tokens of the prompt; 3 were declared"), ({"broken": True}, "0 bytes of text_output")],
)
def test_another_tokenizer_and_lost_text_are_seen(tmp_path: Path, servicer: dict[str, Any], detail: str) -> None:
    log = driven(write(tmp_path), Servicer(**servicer))
    assert log.errors() == {"wrong_output": 4}
    assert detail in log.details[0]


def test_an_answer_has_its_declared_length_or_ends_where_the_model_does(tmp_path: Path) -> None:
    asked = {}
    for output in ("forced", "natural"):
        body = write(tmp_path / output, requests={"output": output}).body(0, Prompt(np.array([17, 4], np.int32)), 5)
        asked[output] = tensors(body)
    assert asked["forced"]["text_input"] == "17 4", "the folder's tokenizer reads words as ids"
    assert [json.loads(each["sampling_parameters"]) for each in asked.values()] == [
        {"temperature": 0, "max_tokens": 5, "ignore_eos": True},
        {"temperature": 0, "max_tokens": 5},
    ]
    written = json.loads((tmp_path / "forced" / "models" / "chat" / "1" / "model.json").read_text())
    assert (written["skip_tokenizer_init"], written["load_format"]) == (False, "dummy")


def test_requests_name_their_adapter(tmp_path: Path) -> None:
    (adapter := tmp_path / "law").mkdir()
    (adapter / "adapter_config.json").write_text('{"r": 8}')
    repository = write(tmp_path, {"adapters": {"law": str(adapter)}})
    asked = tensors(repository.body(0, Prompt(np.array([1], np.int32)), 2))
    assert json.loads(asked["sampling_parameters"])["lora_name"] == "law"
    assert json.loads((repository.folder / "chat" / "1" / "multi_lora.json").read_text()) == {"law": str(adapter)}


def test_the_hash_tells_the_backends_apart() -> None:
    hashes = {backends.model_hash(workload(model=LLAMA, server=server, needs=GPU)) for server in (OWN, {"backend": "vllm"})}
    assert len(hashes) == 2


def test_the_image_has_no_such_backend_or_an_old_one(tmp_path: Path) -> None:
    from tests.unit.harness.inference.server.test_installation import unpack

    from plumbline.harness.inference.server.backends.vllm_backend import BACKEND, COUNTS
    from plumbline.harness.inference.server.tritonserver import TritonInstallation

    found = TritonInstallation.of(unpack(tmp_path, wheel=False))
    folder = tmp_path / "backends" / "vllm" / "utils"
    folder.mkdir(parents=True)
    (folder.parent / "model.py").write_text("class TritonPythonModel: ...")
    assert found.python_backends() == {"vllm"}
    with pytest.raises(
        TrialFailed, match=r"^image_error: .*backends/vllm does not know the input return_num_output_tokens; expected 24\.12"
    ):
        found.require_input(BACKEND, COUNTS, "24.12")
    (folder / "request.py").write_text(f'outputs = ["{COUNTS}"]')
    found.require_input(BACKEND, COUNTS, "24.12")
