"""Backends by name: each writes the Triton model repository of a declared model."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from plumbline.declarations import InferenceWorkload
from plumbline.harness.inference.server.backends import exported, python, retrieval, tensorrtllm, vllm
from plumbline.harness.inference.server.backends.repository import Repository
from plumbline.harness.measurement import TrialFailed

__all__ = ["Repository", "model_hash", "write"]


class _Backend(Protocol):
    def write(self, workload: InferenceWorkload, folder: Path, threads: int) -> Repository:
        """The repository."""

    def model_hash(self, workload: InferenceWorkload) -> str:
        """Hash of what is served."""


_BACKENDS: dict[str, _Backend] = {
    "python": python,
    "vllm": vllm,
    "tensorrtllm": tensorrtllm,
    "onnxruntime": exported,
    "pytorch": exported,
}


def write(workload: InferenceWorkload, folder: Path, *, threads: int) -> Repository:
    """Write the repository of the workload's model into `folder`; `threads` is the number of cores that the model computes on.

    May take minutes: an engine is built, a model exported. Raises TrialFailed: "bad_declaration" if the backend cannot serve what is
    declared, "image_error" if a tool that it takes is not installed or fails.
    """
    backend = workload.server.backend
    if backend == "external":
        raise TrialFailed("bad_declaration", "server.backend external: that server has its own model; expected an endpoint to drive")
    folder.mkdir(parents=True, exist_ok=True)
    return _backend(workload).write(workload, folder, threads)


def model_hash(workload: InferenceWorkload) -> str:
    """Hash (hex) of what is served: what makes the model, its shape, its precision and its weights' seed. Prompts and load are not in it."""
    backend = workload.server.backend
    return "" if backend == "external" else _backend(workload).model_hash(workload)


def _backend(workload: InferenceWorkload) -> _Backend:
    return retrieval if workload.retrieval else _BACKENDS[workload.server.backend]
