"""Engines by name: each writes the Triton model repository of a declared model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plumbline.declarations import InferenceWorkload, digest
from plumbline.declarations.workloads.engines import PATH_MEASURED, engine
from plumbline.harness.inference.server.backends.repository import Repository, hash_of
from plumbline.harness.measurement import TrialFailed

__all__ = ["Repository", "model_hash", "write", "write_without_model"]


def write(workload: InferenceWorkload, folder: Path, *, threads: int, checkpoint: Path | None = None) -> Repository:
    """Write the repository of the workload's model into `folder`; the model computes on `threads` cores. `checkpoint`: the
    folder of the declared checkpoint, complete.

    May take minutes: an engine is built, a model exported. Raises TrialFailed: "bad_declaration" if the engine cannot serve what is
    declared, "image_error" if a needed tool is absent or fails."""
    if workload.server.backend in ("external", "openai"):
        raise TrialFailed(
            "bad_declaration", f"server.backend {workload.server.backend}: that server has its own model; expected an endpoint or a command"
        )
    folder.mkdir(parents=True, exist_ok=True)
    more = {} if checkpoint is None else {"checkpoint": checkpoint}
    repository: Repository = _writer(workload).write(workload, folder, threads, **more)
    return repository


def write_without_model(workload: InferenceWorkload, folder: Path, *, threads: int, checkpoint: Path | None = None) -> Repository:
    """As `write`, with the model replaced by nothing: the same messages come and go, and nothing is computed. Raises TrialFailed, with the
    reason where the model cannot be taken out of its server."""
    folder.mkdir(parents=True, exist_ok=True)
    backend, writer = workload.server.backend, None
    if backend in PATH_MEASURED and workload.server.triton_backend is None:
        writer = getattr(_writer(workload), "write_without_model", None)
    if writer is None:
        raise TrialFailed("bad_declaration", f"the model of server.backend {backend} cannot be taken out of its server")
    more = {} if checkpoint is None else {"checkpoint": checkpoint}
    repository: Repository = writer(workload, folder, threads, **more)
    return repository


def model_hash(workload: InferenceWorkload, manifest: str | None = None, companions: Mapping[str, str] | None = None) -> str:
    """Hash (hex) of the served model: its maker, shape, precision and weights' seed, without prompts and load. Of a checkpoint: its engine,
    `manifest`, precision and context, and the manifests of its `companions` by field; where the files come from is not in it."""
    if workload.server.backend == "external":
        return ""
    if manifest is not None:
        served = {"backend": workload.server.backend, "manifest": manifest, "precision": workload.model.precision}
        return digest({**served, "context": workload.model.context, **({"companions": dict(companions)} if companions else {})})
    if workload.server.backend == "openai":
        return hash_of(workload)
    result: str = getattr(_writer(workload), "model_hash", hash_of)(workload)
    return result


def _writer(workload: InferenceWorkload) -> Any:
    return importlib.import_module(engine(workload.server.backend).writer)
