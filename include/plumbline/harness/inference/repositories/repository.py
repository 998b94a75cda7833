"""What a model repository is to the rest of the harness, and the parts that all of them have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from plumbline.declarations import InferenceWorkload, digest
from plumbline.harness.inference.prompts import Prompt
from plumbline.harness.inference.wire import Wire
from plumbline.harness.measurement import TrialFailed

Config = Any  # tritonclient's messages have no types
Body = Callable[[int, Prompt, int], bytes]
"""(number, prompt, output tokens) → the serialised request."""


@dataclass(frozen=True)
class Repository:
    """A repository in `folder` whose `model` is served by Triton's `backend`; requests are made by `body` and answered as `wire` says."""

    folder: Path
    model: str
    backend: str
    wire: Wire
    body: Body


@dataclass(frozen=True)
class Input:
    """A tensor that the model takes; -1 in `dims` is any size, the batch's dimension is not among them."""

    name: str
    kind: str
    dims: tuple[int, ...] = (1,)
    optional: bool = False
    ragged: bool = False
    scalar: bool = False


def config_of(
    model: str,
    backend: str,
    inputs: Iterable[Input],
    outputs: Iterable[tuple[str, str, tuple[int, ...]]],
    *,
    kind: str,
    batch: int = 0,
    decoupled: bool = False,
    parameters: Mapping[str, str | int] | None = None,
) -> Config:
    """A model's configuration. Names of types and kinds are without their prefix: INT32, CPU. `batch` 0: Triton does not batch; else it
    puts together what waits, up to so many requests of one shape (of any if ragged)."""
    config = model_config_pb2.ModelConfig(name=model, backend=backend, max_batch_size=batch)
    for tensor in inputs:
        added = config.input.add(
            name=tensor.name,
            data_type=f"TYPE_{tensor.kind}",
            dims=tensor.dims,
            optional=tensor.optional,
            allow_ragged_batch=tensor.ragged,
        )
        if tensor.scalar:
            added.reshape.SetInParent()
    for name, kind_, dims in outputs:
        config.output.add(name=name, data_type=f"TYPE_{kind_}", dims=dims)
    config.instance_group.add(count=1, kind=f"KIND_{kind}")
    if decoupled:
        config.model_transaction_policy.decoupled = True
    if batch:
        config.dynamic_batching.SetInParent()
    for key, value in (parameters or {}).items():
        config.parameters[key].string_value = str(value)
    return config


def version_folder(folder: Path, config: Config) -> Path:
    """Write config.pbtxt and return the folder of the model's only version."""
    version: Path = folder / config.name / "1"
    version.mkdir(parents=True, exist_ok=True)
    (folder / config.name / "config.pbtxt").write_text(text_format.MessageToString(config), encoding="utf-8")
    return version


def needs_precision(workload: InferenceWorkload, able: Iterable[str], why: str) -> None:
    """TrialFailed("bad_declaration") unless the model's precision is one of `able`."""
    if workload.model.precision not in (able := tuple(able)):
        raise TrialFailed(
            "bad_declaration",
            f"model.precision {workload.model.precision} on server.backend {workload.server.backend}: {why}; expected one of {', '.join(able)}",
        )


def hash_of(workload: InferenceWorkload, **made_from: str) -> str:
    """Hash of the backend, the model's declaration and what else it is made from."""
    return digest({"backend": workload.server.backend, "model": workload.model.model_dump(mode="json"), **made_from})
