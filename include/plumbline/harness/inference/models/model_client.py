"""Asks the other models of the server that serves this one, over the server's own endpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import grpc
import torch
from torch import Tensor
from tritonclient.grpc import service_pb2 as messages
from tritonclient.grpc import service_pb2_grpc

# Not by the backend's model-to-model requests (BLS): it makes numpy arrays of what another model answers without holding the interpreter's
# lock (seen in 24.10: `ProcessBLSResponseDecoupled` and `InferRequest::Exec`), and a process with more than one thread dies of that under load.
# Nor could such a request be cancelled.
ADDRESS = "PLUMBLINE_TRITON_ADDRESS"
"""The environment variable that holds the server's gRPC endpoint, host:port: whoever starts the server sets it."""
_TYPES = {"INT32": torch.int32, "UINT8": torch.uint8, "FP32": torch.float32, "FP64": torch.float64}


class ModelRequestFailed(Exception):
    """A model answered with an error."""


class ModelClient:
    """One connection, for all threads."""

    def __init__(self) -> None:
        """ValueError if nobody told the address."""
        address = os.environ.get(ADDRESS)
        if not address:
            raise ValueError(
                f"{ADDRESS} is not set; expected host:port of this server's gRPC endpoint in the environment that it is started with"
            )
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]))

    def answer(self, model: str, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs of a model that answers once, by name; raises ModelRequestFailed. `inputs`: int32."""
        try:
            return _tensors(self._stub.ModelInfer(_request(model, inputs)))
        except grpc.RpcError as error:
            raise ModelRequestFailed(f"{model}: {error.details()}") from error

    def stream(self, model: str, inputs: Mapping[str, Tensor]) -> Stream:
        """The outputs of each response of a model that streams; iterating raises ModelRequestFailed."""
        return Stream(model, self._stub.ModelStreamInfer(iter([_request(model, inputs)])))


class Stream:
    """One streamed answer."""

    def __init__(self, model: str, call: Any) -> None:
        self._model, self._call = model, call

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        try:
            for message in self._call:
                if message.error_message:
                    self.read_out()
                    raise ModelRequestFailed(f"{self._model}: {message.error_message}")
                yield _tensors(message.infer_response)
        except grpc.RpcError as error:
            raise ModelRequestFailed(f"{self._model}: {error.details()}") from error

    def read_out(self) -> None:
        """Wait for the stream's end after its last response.

        A call that is dropped is cancelled, and where that meets the answer's end the server keeps the request, and so the model, for ever
        (seen in 24.10). How the stream ends does not matter any more: the answer is there.
        """
        with suppress(grpc.RpcError):
            for _ in self._call:
                pass

    def cancel(self) -> None:
        """Give the answer up: the model stops working on it."""
        self._call.cancel()


def _request(model: str, inputs: Mapping[str, Tensor]) -> Any:
    request = messages.ModelInferRequest(model_name=model)
    for name, values in inputs.items():
        request.inputs.add(name=name, datatype="INT32", shape=values.shape)
        request.raw_input_contents.append(values.contiguous().numpy().tobytes())
    return request


def _tensors(response: Any) -> dict[str, Tensor]:
    return {
        output.name: (
            torch.frombuffer(bytearray(data), dtype=_TYPES[output.datatype]) if data else torch.empty(0, dtype=torch.uint8)
        ).reshape(tuple(output.shape))
        for output, data in zip(response.outputs, response.raw_output_contents, strict=True)
    }
