"""Inference engines: what `server.backend` of a workload names. An engine of another package is registered by an entry point."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidatorFunctionWrapHandler

GROUP = "plumbline.inference_engines"


@dataclass(frozen=True)
class InferenceEngine:
    """What planning must know of an engine; the module `writer` does the rest and is imported in the trial's process only.

    `writer` has `write(workload, folder, threads) -> Repository` (of a checkpoint with its folder as `checkpoint`), and
    `model_hash(workload) -> str` if the model is made from more than its declaration. `triton_backend` is Triton's backend that runs the model, `image` the suffix of NVIDIA's image that has it. `amd`: it
    computes on AMD GPUs too. `starts_slowly`: it loads a compiler or captures graphs before it is ready. `disk_bytes_per_parameter`: files
    that it writes. `package`: what the engine Python must be able to import.
    """

    architectures: tuple[str, ...]
    writer: str
    triton_backend: str
    image: str = "py3"
    reads_text: bool = True
    amd: bool = False
    starts_slowly: bool = False
    disk_bytes_per_parameter: float = 0.0
    package: str = ""


_WRITERS = "plumbline.harness.inference.server.backends"
ENGINES = {
    "python": InferenceEngine(("gpt", "encoder", "checkpoint"), f"{_WRITERS}.python", "python", amd=True),
    "vllm": InferenceEngine(("llama", "checkpoint"), f"{_WRITERS}.vllm", "python", "vllm-python-py3", starts_slowly=True, package="vllm"),
    "tensorrtllm": InferenceEngine(
        ("llama", "checkpoint"), f"{_WRITERS}.tensorrtllm", "python", "trtllm-python-py3", starts_slowly=True, package="tensorrt_llm"
    ),
    "openai": InferenceEngine(("llama", "checkpoint"), "", "", starts_slowly=True),
    "onnxruntime": InferenceEngine(("encoder",), f"{_WRITERS}.exported", "onnxruntime", reads_text=False, disk_bytes_per_parameter=4.0),
    "pytorch": InferenceEngine(("encoder",), f"{_WRITERS}.exported", "pytorch", reads_text=False, disk_bytes_per_parameter=4.0),
    "external": InferenceEngine(("gpt", "llama", "encoder", "checkpoint"), "", "", amd=True),
}


def engine(name: str) -> InferenceEngine:
    """The engine that `server.backend` names; KeyError if no package registers it."""
    if name in ENGINES:
        return ENGINES[name]
    for entry in entry_points(group=GROUP, name=name):
        registered = entry.load()
        if not isinstance(registered, InferenceEngine):
            raise TypeError(f"entry point {entry.value} in {GROUP}: expected an InferenceEngine")
        return registered
    raise KeyError(name)


def engines_of(architecture: str) -> list[str]:
    """Names of Plumbline's own engines that serve models of the architecture."""
    return [name for name, own in ENGINES.items() if architecture in own.architectures]


def registered_or_own(name: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Validate `server.backend`: entry points are looked up for a name that is not Plumbline's own only."""
    if isinstance(name, str) and name not in ENGINES and entry_points(group=GROUP, name=name):
        return name
    return handler(name)
