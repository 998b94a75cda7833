"""Kinds of hardware and engine on which the harness itself was never run: a first trial there may find its mistakes.

docs/hardware-probes.md has what was measured: training and Triton's Python backend on one NVIDIA GPU; CPUs."""

from __future__ import annotations

from plumbline.declarations.providers.provider import Provider
from plumbline.declarations.workloads.inference import InferenceWorkload
from plumbline.declarations.workloads.training import TrainingWorkload

_TITLES = {
    "vllm": "vLLM on GPUs",
    "tensorrtllm": "TensorRT-LLM",
    "openai": "an engine's own server on GPUs",
    "onnxruntime": "ONNX Runtime on GPUs",
}
"""Values of `server.backend` that were never run on a GPU, with their names."""


def never_run_on(workload: TrainingWorkload | InferenceWorkload, provider: Provider) -> str | None:
    """Hardware that the harness never ran on, such as `AMD GPUs, several GPUs`; None without any, and for simulations and hosted models."""
    accelerator = provider.accelerator
    if accelerator.kind == "cpu" or provider.simulated or provider.launcher.hosted:
        return None
    kinds = ["AMD GPUs"] if accelerator.kind == "amd" else []
    if isinstance(workload, InferenceWorkload):
        kinds += [title] if (title := _TITLES.get(workload.server.backend)) is not None else []
        gpus = workload.needs.count * workload.replicas_on(accelerator.count)
    else:
        gpus = workload.parallelism.processes
    if workload.nodes > 1:
        kinds.append("several nodes of GPUs")
    elif gpus > 1:
        kinds.append("several GPUs")
    return ", ".join(kinds) or None
