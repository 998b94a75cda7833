"""The servers of a trial, not yet started: Triton with the model's repository, or the workload's own command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from plumbline.declarations import InferenceWorkload, Provider
from plumbline.declarations.workloads.checkpoints import QUANTISED
from plumbline.declarations.workloads.engines import Parallel, engine
from plumbline.harness.inference.server import backends, tritonserver
from plumbline.harness.inference.server.backends import generation, repository, vllm_backend
from plumbline.harness.inference.server.backends.repository import Repository
from plumbline.harness.inference.server.local_server import ServerOptions
from plumbline.harness.inference.server.openai_server import OpenAiModel, OpenAiServer
from plumbline.harness.inference.server.triton import Triton
from plumbline.harness.inference.server.tritonserver import TritonInstallation
from plumbline.harness.inference.server.under_test import ManagedOpenAi, ManagedTriton


@dataclass(frozen=True)
class ServerPlace:
    """Where the servers run. `cpus`: each one's cores (None: any); `variables`: each one's environment; `threads`: cores each computes on."""

    workdir: Path
    cpus: Sequence[Sequence[int] | None]
    variables: Sequence[dict[str, str]]
    threads: int

    def options(self, k: int, workload: InferenceWorkload) -> ServerOptions:
        """Options of server `k`."""
        name = f"server-{k}" if len(self.variables) > 1 else "server"
        return ServerOptions(ready_within_s=workload.ready_timeout_s, cpus=self.cpus[k], variables=self.variables[k], name=name)


def with_provider_args(workload: InferenceWorkload, provider: Provider) -> InferenceWorkload:
    """The workload as this provider's stack runs it."""
    own = next((args for backend, args in provider.engine_args.items() if backend == workload.server.backend), {})
    if not own:
        return workload
    server = workload.server.model_copy(update={"engine_args": {**workload.server.engine_args, **own}})
    return workload.model_copy(update={"server": server})


def assemble(workload: InferenceWorkload, place: ServerPlace, checkpoint: Path | None) -> ManagedTriton | ManagedOpenAi:
    """Assemble as many servers as `place` has variables for. Raises TrialFailed as `backends.write` does, and "image_error" without an engine."""
    return (_openai if workload.server.backend == "openai" else _triton)(workload, place, checkpoint)


def _triton(workload: InferenceWorkload, place: ServerPlace, checkpoint: Path | None) -> ManagedTriton:
    installed, served = tritonserver.find_installation(), engine(workload.server.backend)
    installed.require(replace(served, triton_backend=workload.server.triton_backend or served.triton_backend))
    if workload.server.triton_backend is not None:
        installed.require_input(vllm_backend.BACKEND, vllm_backend.COUNTS, "tritonserver:YY.MM-vllm-python-py3 of 24.12 or later")
    written = backends.write(workload, place.workdir / "models", threads=place.threads, checkpoint=checkpoint)
    return managed_triton(installed, written, place, workload)


def managed_triton(installed: TritonInstallation, written: Repository, place: ServerPlace, workload: InferenceWorkload) -> ManagedTriton:
    """The servers of a written repository."""
    own = {name: value for name, value in written.variables.items() if name not in os.environ}
    place = replace(place, variables=[own | each for each in place.variables])
    servers = [
        Triton(installed, written.folder, written.model, place.workdir, backend=written.backend, **place.options(k, workload))
        for k in range(len(place.variables))
    ]
    return ManagedTriton(servers[0], written, *servers[1:])


def _openai(workload: InferenceWorkload, place: ServerPlace, checkpoint: Path | None) -> ManagedOpenAi:
    assert workload.server.command is not None
    if checkpoint is None:
        folder, context = place.workdir / "models-hub", repository.llama_of(workload).context
        repository.write_hub_folder(workload, folder)
    else:
        weights = generation.weights_of(workload, checkpoint, QUANTISED)  # its command may do it
        folder, context = weights.folder, weights.context
    model = OpenAiModel(folder, context, place.threads, workload.server.parallel or Parallel())
    servers = [
        OpenAiServer(workload.server.command, model, place.workdir, **place.options(k, workload)) for k in range(len(place.variables))
    ]
    return ManagedOpenAi(workload, *servers)
