"""A model on a KServe v2 server: its inputs and outputs as the server describes them, and requests made of JSON values or random ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from plumbline.loadclient.wire import PERHAPS, Tensor, Wire

_CALL_S = 10.0
_RANDOM_BELOW = 100
"""Random integers are small: a vocabulary or a table of embeddings holds them."""


class UnusableModel(ValueError):
    """The server cannot be asked, or not for this model; the message says what is expected."""


@dataclass(frozen=True)
class InputTensor:
    """`shape`: −1 where any size is allowed, without the batch. `batched`: requests have a first dimension for the batch."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool
    batched: bool

    def tensor(self, value: Any, rng: np.random.Generator) -> Tensor:
        """One request's tensor of a JSON value; None: random numbers. UnusableModel, with field and expected shape, if that is impossible."""
        array = self._random(rng) if value is None else self._read(value)
        if self.batched and array.ndim == len(self.shape):
            array = array[None]
        shape = array.shape[1:] if self.batched else array.shape
        if len(shape) != len(self.shape) or any(size not in (-1, given) for size, given in zip(self.shape, shape, strict=True)):
            raise UnusableModel(f"{self.name} has the shape {list(shape)}; expected {list(self.shape)} of {self.datatype}, -1 for any size")
        return Tensor(self.name, self.datatype, array)

    def _read(self, value: Any) -> np.ndarray:
        if self.datatype == "BYTES":
            array = np.array(value, np.object_) if isinstance(value, list) else np.full([1] * max(1, len(self.shape)), value, np.object_)
            return np.array([str(item).encode() for item in array.ravel()], np.object_).reshape(array.shape)
        if self.datatype == "UINT8" and isinstance(value, str):
            return np.frombuffer(value.encode(), np.uint8)
        try:
            return np.array(value, triton_to_np_dtype(self.datatype))
        except (TypeError, ValueError, OverflowError) as error:
            raise UnusableModel(
                f"{self.name} is not of {self.datatype} ({error}); expected numbers in the shape {list(self.shape)}"
            ) from None

    def _random(self, rng: np.random.Generator) -> np.ndarray:
        if -1 in self.shape:
            raise UnusableModel(
                f'{self.name} takes any size ({list(self.shape)}); expected --prompts FILE, a JSON object a line such as {{"{self.name}": …}}'
            )
        kind = np.dtype(triton_to_np_dtype(self.datatype))
        if kind == np.object_:
            return np.full(self.shape, b"plumbline", np.object_)
        if kind.kind == "f":
            return rng.random(self.shape).astype(kind)
        return rng.integers(0, 2 if kind.kind == "b" else _RANDOM_BELOW, self.shape).astype(kind)


@dataclass(frozen=True)
class KserveModel:
    """`streams`: it answers a request with any number of responses (Triton calls that decoupled)."""

    name: str
    inputs: tuple[InputTensor, ...]
    outputs: Mapping[str, int]
    streams: bool

    @property
    def wire(self) -> Wire:
        """The wire of the model: each output must come, in its size if that is known; a stream's responses hold any outputs."""
        if self.streams:
            return Wire("stream", self.name, {}, index=None, natural=True)
        return Wire("unary", self.name, self.outputs, index=None)

    def tensors(self, values: Mapping[str, Any], rng: np.random.Generator) -> list[Tensor]:
        """A request's inputs: `values` by name, the others random; optional ones are left out."""
        known = [each.name for each in self.inputs]
        if strange := sorted(set(values) - set(known)):
            raise UnusableModel(f"the model {self.name} has no input {strange[0]}; expected {', '.join(known)}")
        return [each.tensor(values.get(each.name), rng) for each in self.inputs if each.name in values or not each.optional]


def describe(address: str, model: str | None, headers: Mapping[str, str], *, tls: bool = False) -> KserveModel:
    """The model as the server at `address` (host:port, gRPC) describes it; None: the only one that is ready there.

    UnusableModel if the server is not reached or does not speak KServe v2, and if the model is unknown or not to be guessed."""
    with triton.InferenceServerClient(address, ssl=tls) as client:
        try:
            model = model or _only_one(client, headers)
            metadata = client.get_model_metadata(model, headers=dict(headers), client_timeout=_CALL_S)
            config = client.get_model_config(model, headers=dict(headers), client_timeout=_CALL_S).config
        except InferenceServerException as error:
            raise UnusableModel(_why(address, model, error)) from None
    optional = {each.name: each.optional for each in config.input}
    batched = config.max_batch_size > 0
    inputs = tuple(
        InputTensor(each.name, each.datatype, tuple(each.shape)[batched:], optional.get(each.name, False), batched)
        for each in metadata.inputs
    )
    outputs = {each.name: _size(each.datatype, tuple(each.shape)[batched:]) for each in metadata.outputs}
    return KserveModel(model, inputs, outputs, bool(config.model_transaction_policy.decoupled))


def _only_one(client: triton.InferenceServerClient, headers: Mapping[str, str]) -> str:
    index = client.get_model_repository_index(headers=dict(headers), client_timeout=_CALL_S).models
    ready = sorted({each.name for each in index if each.state == "READY"})
    if len(ready) != 1:
        raise UnusableModel(f"{len(ready)} models are ready there; expected --model, one of {', '.join(ready) or 'those that it loads'}")
    return str(ready[0])


def _why(address: str, model: str | None, error: InferenceServerException) -> str:
    said = " ".join(str(error.message()).split())[:200]
    if "UNAVAILABLE" in str(error.status()) or "DEADLINE" in str(error.status()):
        return (
            f"{address} does not answer as a gRPC server ({said}); expected the gRPC port of a KServe v2 server, such as grpc://host:8001"
        )
    if "UNIMPLEMENTED" in str(error.status()):
        return f"{address} does not speak KServe v2 ({said}); expected Triton or another KServe v2 server, or --api openai"
    return f"{address} does not serve the model {model} ({said}); expected --model to name a model that is ready there"


def _size(datatype: str, shape: Sequence[int]) -> int:
    if datatype == "BYTES" or -1 in shape:
        return PERHAPS
    return int(math.prod(shape) * np.dtype(triton_to_np_dtype(datatype)).itemsize)
