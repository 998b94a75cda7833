"""How a pipeline asks its server: where it finds it, and that what was answered is never cancelled afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
import torch
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

from plumbline.embedded import server
from plumbline.harness.inference.models.model_client import ADDRESS, ModelClient, ModelRequestFailed
from plumbline.harness.inference.server import triton


class Late(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers with one response, or refuses, and ends the stream `patience_s` later; `how` tells each stream's end."""

    def __init__(self) -> None:
        self.how: list[str] = []
        self.patience_s = 0.3
        self.ended = threading.Event()

    def ModelStreamInfer(self, stream: Iterator[Any], context: Any) -> Iterator[Any]:
        (request,) = stream
        finished, over = threading.Event(), threading.Event()

        def end() -> None:
            """Called in every case: a stream that is dropped at once may never come back to what follows its response."""
            self.how.append("ended" if finished.is_set() else "cancelled")
            over.set()
            self.ended.set()

        context.add_callback(end)
        yield messages.ModelStreamInferResponse(error_message="too long" if request.model_name == "refusing" else "")
        if not over.wait(self.patience_s):
            finished.set()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[Late]:
    servicer, server = Late(), grpc.server(ThreadPoolExecutor(2))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    monkeypatch.setenv(ADDRESS, f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    yield servicer
    server.stop(None).wait()


def test_the_variable_is_the_one_that_the_harness_sets_and_nobody_elses() -> None:
    assert triton._ADDRESS == ADDRESS
    # A server must inherit the mark of the Airflow that it runs under, or what that leaves behind is not found.
    assert ADDRESS != server.SERVER_MARK


def test_without_an_address_a_server_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    with pytest.raises(ValueError, match=f"^{ADDRESS} .*host:port"):
        ModelClient()


def first(server: ModelClient, model: str, *, read_out: bool) -> None:
    stream = server.stream(model, {"PROMPT_IDS": torch.tensor([1], dtype=torch.int32)})
    assert next(iter(stream)) == {}
    if read_out:
        stream.read_out()


def test_a_stream_that_is_read_out_ends_by_itself_and_one_that_is_dropped_is_cancelled(late: Late) -> None:
    server = ModelClient()
    first(server, "generator", read_out=True)
    assert late.ended.wait(60) and late.how == ["ended"]
    late.ended.clear()
    late.patience_s = 30.0  # a busy machine is slow to say that it was dropped
    first(server, "generator", read_out=False)
    assert late.ended.wait(60) and late.how == ["ended", "cancelled"]


def test_a_refusal_is_read_out_too(late: Late) -> None:
    with pytest.raises(ModelRequestFailed, match="refusing: too long"):
        first(ModelClient(), "refusing", read_out=False)
    assert late.ended.wait(60) and late.how == ["ended"]
