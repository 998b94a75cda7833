"""Our client and tritonclient's against a server that answers with what it was sent."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc
from tritonclient.utils import serialize_byte_tensor

from plumbline.loadclient.cross_check import CrossCheck, cross_check
from plumbline.loadclient.transport import Target
from plumbline.loadclient.wire import ANY, Tensor, Wire

STREAM = Wire("stream", "echo", {"TOKEN": 4, "INDEX": 4, "TEXT": ANY})
UNARY = Wire("unary", "echo", {"VECTOR": 12}, index=None)
PIECES = Wire("stream", "pieces", {"TEXT": ANY, "BROUGHT": 4}, {"READ": 4}, index=None, tokens="BROUGHT", read="READ")
N, TOKENS = 8, 3


class Echo(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """A token for each of the prompt's last ids, with its number as text, or the whole prompt as floats. `refuses`: this request."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses, self.asked = refuses, 0

    def ModelStreamInfer(self, stream: Iterator[Any], _context: Any) -> Iterator[Any]:
        for request in stream:
            if request.id == self.refuses:
                yield messages.ModelStreamInferResponse(error_message="told to refuse")
                continue
            ids = np.frombuffer(request.raw_input_contents[0], "<i4")
            self.asked += 1
            if request.model_name == "pieces":
                yield from self._pieces(request, ids)
                continue
            for index in range(TOKENS):
                answer = messages.ModelStreamInferResponse()
                answer.infer_response.id = request.id
                answer.infer_response.parameters["triton_final_response"].bool_param = index == TOKENS - 1
                text = serialize_byte_tensor(np.array([str(ids[index]).encode()], object)).item()
                tensors = (("TOKEN", "INT32", ids[index].tobytes()), ("INDEX", "INT32", np.int32(index).tobytes()), ("TEXT", "BYTES", text))
                for name, datatype, data in tensors:
                    answer.infer_response.outputs.add(name=name, datatype=datatype, shape=[1])
                    answer.infer_response.raw_output_contents.append(data)
                yield answer

    def _pieces(self, request: Any, ids: Any) -> Iterator[Any]:
        """All tokens at once for every other client, else one by one; each response says how much was read, as NVIDIA's vllm backend does."""
        size = TOKENS if self.asked > N else 1
        for begin in range(0, TOKENS, size):
            answer = messages.ModelStreamInferResponse()
            answer.infer_response.id = request.id
            answer.infer_response.parameters["triton_final_response"].bool_param = begin + size >= TOKENS
            text = "".join(map(str, ids[begin : begin + size])).encode()
            for name, datatype, data in (
                ("TEXT", "BYTES", serialize_byte_tensor(np.array([text], object)).item()),
                ("READ", "UINT32", np.uint32(TOKENS).tobytes()),
                ("BROUGHT", "UINT32", np.uint32(size).tobytes()),
            ):
                answer.infer_response.outputs.add(name=name, datatype=datatype, shape=[1])
                answer.infer_response.raw_output_contents.append(data)
            yield answer

    def ModelInfer(self, request: Any, _context: Any) -> Any:
        response = messages.ModelInferResponse(id=request.id)
        response.outputs.add(name="VECTOR", datatype="FP32", shape=[1, TOKENS])
        response.raw_output_contents.append(np.frombuffer(request.raw_input_contents[0], "<i4").astype("<f4").tobytes())
        return response


@contextmanager
def serving(servicer: Echo) -> Iterator[str]:
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


def checked(wire: Wire, servicer: Echo | None = None, within_s: float = 20) -> CrossCheck:
    requests = [[Tensor("IDS", "INT32", np.array([number, 7, 260 + number], np.int32))] for number in range(N)]
    tokens = np.full(N, 1 if wire is UNARY else TOKENS, np.int32)
    with serving(servicer or Echo()) as address:
        return cross_check(requests, Target(address, wire, lambda: True), tokens, tokens, within_s=within_s, timeout_s=20)


@pytest.mark.parametrize("wire", [STREAM, UNARY, PIECES], ids=["stream", "unary", "pieces"])
def test_both_clients_get_the_same(wire: Wire) -> None:
    found = checked(wire)
    assert (found.n, found.differ) == (N, {})
    assert len(found.ours_s) == len(found.peers_s) == N
    assert (found.ours_s > 0).all() and (found.peers_s > 0).all()


@pytest.mark.parametrize("wire", [STREAM, UNARY], ids=["stream", "unary"])
@pytest.mark.parametrize("broken", [lambda values: values[::-1], lambda values: values.astype(">i4")], ids=["reversed", "big-endian"])
def test_a_broken_request_is_seen(monkeypatch: pytest.MonkeyPatch, wire: Wire, broken: Any) -> None:
    monkeypatch.setattr(Tensor, "data", property(lambda tensor: broken(tensor.values).tobytes()))
    found = checked(wire)
    assert sorted(found.differ) == list(range(N))
    assert "by tritonclient" in found.differ[0]


def test_a_broken_reading_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from plumbline.loadclient.responses import MessageLayout

    def shifted(self: MessageLayout, message: bytes) -> dict[str, bytes]:
        return {name: message[begin - 1 : end - 1] if name == "TOKEN" else message[begin:end] for name, begin, end in self.places}

    monkeypatch.setattr(MessageLayout, "values", shifted)
    found = checked(STREAM)
    assert len(found.differ) >= N - 2, "the first of each layout is read by protobuf"


def test_a_refused_request_is_no_agreement() -> None:
    found = checked(STREAM, Echo(refuses="3"))
    assert list(found.differ) == [3]
    assert "told to refuse" in found.differ[3]


def test_no_request_begins_after_the_time_is_over() -> None:
    found = checked(STREAM, within_s=0)
    assert found.n <= 2
