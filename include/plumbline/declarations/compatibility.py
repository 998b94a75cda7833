"""Whether a provider can run a workload: accelerators, memory of a model, engine, client placement, scratch disk."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plumbline.declarations.data_places import address_of, data_of
from plumbline.declarations.devices import device_memory
from plumbline.declarations.providers.launcher_base import LauncherBase
from plumbline.declarations.providers.provider import Accelerator, Provider
from plumbline.declarations.workloads.any_workload import AnyWorkload
from plumbline.declarations.workloads.checkpoints import Checkpoint, FolderCheckpoint
from plumbline.declarations.workloads.engines import ENGINE_MEMORY_SHARE, engine
from plumbline.declarations.workloads.inference import InferenceWorkload
from plumbline.declarations.workloads.models import BertShape, HubModel, LlamaShape, TransformerShape, VitShape
from plumbline.declarations.workloads.training import (
    LanguageModel,
    Lora,
    SyntheticImages,
    SyntheticTokens,
    TokenFileData,
    TrainingWorkload,
)
from plumbline.metrics.formatting import format_bytes, format_percent


@dataclass(frozen=True)
class ModelFit:
    """Bytes of one server. `kv_per_token`, `context`: None if unknown. `each`: memory of one of `count` accelerators, or main memory."""

    weights: int
    kv_per_token: int | None
    context: int | None
    sequences: int
    each: float
    count: int
    product: str

    @property
    def memory(self) -> float:
        return self.each * self.count

    @property
    def cache_of_one(self) -> int:
        """KV cache of one sequence as long as the context."""
        return (self.kv_per_token or 0) * (self.context or 0)

    @property
    def full_sequences(self) -> int:
        """Sequences as long as the context that the cache holds at a time, at most the declared ones."""
        room = self.memory * ENGINE_MEMORY_SHARE - self.weights
        return self.sequences if not self.cache_of_one else max(0, min(self.sequences, int(room // self.cache_of_one)))

    @property
    def fits(self) -> bool:
        """Whether the weights and one sequence as long as the context do; engines refuse to start otherwise."""
        return self.weights + self.cache_of_one <= self.memory * ENGINE_MEMORY_SHARE

    @property
    def arithmetic(self) -> str:
        """The arithmetic as text, such as `weights 15.0 GiB + KV cache 128 KiB × 8,192 tokens × 64 sequences (64.0 GiB) = 79.0 GiB of 90 % of 80.0 GiB × 1 (…)`."""
        parts, total = [f"weights {format_bytes(self.weights)}"], self.weights
        if self.cache_of_one and self.kv_per_token and self.context:
            cache = self.cache_of_one * self.sequences
            total += cache
            cache_text = f"{format_bytes(self.kv_per_token)} × {self.context:,} tokens × {self.sequences} sequences"
            parts.append(f"KV cache {cache_text} ({format_bytes(cache)})")
        return f"{' + '.join(parts)} = {format_bytes(total)} of {format_percent(ENGINE_MEMORY_SHARE)} of {format_bytes(int(self.each))} × {self.count} ({self.product})"


def model_fit(workload: InferenceWorkload, provider: Provider) -> ModelFit | None:
    """None if the model's size, the accelerator's memory or the machine is unknown, as of a hosted model."""
    model = workload.model
    if not isinstance(model, Checkpoint) or model.weights_bytes is None or provider.launcher.hosted:
        return None
    parallel = workload.server.parallel
    # Each copy of data parallelism holds all weights.
    accelerator, count = provider.accelerator, workload.needs.count // (parallel.data if parallel else 1)
    if accelerator.kind == "cpu":
        each, count, product = provider.launcher.main_memory, provider.launcher.machines(workload.nodes), "main memory"
    else:
        each, product = accelerator_memory(accelerator), accelerator.product or accelerator.kind
    if each is None:
        return None
    return ModelFit(model.weights_bytes, model.kv_cache_bytes_per_token, model.context, workload.server.sequences, each, count, product)


def too_large(workload: InferenceWorkload, provider: Provider) -> str | None:
    """Why the provider's memory cannot hold the workload's checkpoint, or None."""
    fit = model_fit(workload, provider)
    if fit is None or fit.fits:
        return None
    return f"its model is too large: {fit.arithmetic}; expected more accelerators (needs.count), a smaller context or a lower precision"


def accelerator_memory(accelerator: Accelerator) -> float | None:
    """Bytes of one: as declared, else as its product is known to have; None otherwise."""
    if accelerator.memory is not None:
        declared: float = accelerator.memory
        return declared
    return None if accelerator.product is None else device_memory(accelerator.product)


GIB = 2.0**30
_FP32 = 4
_MARGIN = 1.1  # for file formats, random states and the file system
_ACCELERATOR_CACHES = 16 * GIB  # 8 GiB that the disk probe writes, compiled kernels and engines, logs
_CPU_CACHES = 4 * GIB


@dataclass(frozen=True)
class Scratch:
    """Bytes on the disk of one node."""

    checkpoints: float
    data: float
    weights: float
    caches: float

    @property
    def total(self) -> float:
        """With a margin, in whole GiB."""
        return math.ceil((self.checkpoints + self.data + self.weights + self.caches) * _MARGIN / GIB) * GIB


def scratch_needed(workload: AnyWorkload, *, cached: bool = False) -> Scratch | None:
    """The scratch disk of one trial; `cached`: fetched checkpoints lie on a volume. None if its model's size is not declared (a hub model, a checkpoint without weights_bytes) or its data's is not. A script's checkpoints are unknown and left out."""
    caches = _CPU_CACHES if workload.needs.accelerator == "cpu" else _ACCELERATOR_CACHES
    if isinstance(workload, InferenceWorkload):
        served = 0.0 if cached and isinstance(workload.model, Checkpoint) else _served_bytes(workload)
        return None if served is None else Scratch(0.0, 0.0, served, caches)
    if workload.pod_deletions or not isinstance(workload, TrainingWorkload):
        data = None if workload.pod_deletions else data_of(workload)
        fetched = data.size if data is not None and data.read == "once" else 0.0
        return fetched if fetched is None else Scratch(0.0, fetched, 0.0, caches)  # with pod_deletions the rest is on volume_claim
    model = workload.model
    if isinstance(model, HubModel):
        return None
    count = _parameters(model)
    trained = _adapter_parameters(model, workload.task) if isinstance(workload.task, Lora) and isinstance(model, LlamaShape) else count
    # Weights are fp32 in every precision, as are AdamW's two moments; SGD has none.
    state = _FP32 * (count + trained * (2 if workload.optimizer.name == "adamw" else 0))
    part = min(1.0, workload.parallelism.processes / workload.parallelism.span)
    stored = isinstance(workload.task, Lora) or (isinstance(workload.task, LanguageModel) and workload.task.initial == "stored")
    return Scratch(
        checkpoints=state * part * checkpoints_at_most(workload),
        data=_data_bytes(workload.data, model),
        weights=_FP32 * count if stored else 0.0,
        caches=caches,
    )


def checkpoints_at_most(workload: TrainingWorkload) -> int:
    """Checkpoints that lie on a disk at one time: the next one is written before the oldest is deleted, and a fault's own is kept beside them."""
    return workload.checkpoint.keep + (1 if workload.fault is None else 2)


def _parameters(model: TransformerShape | LlamaShape | BertShape | VitShape) -> float:
    if isinstance(model, TransformerShape | LlamaShape):
        return model.parameters
    # Embeddings and heads in addition to the products; norms and biases are within the margin.
    embedded = model.vocabulary + model.context if isinstance(model, BertShape) else model.tokens + model.classes
    return model.matmul_parameters + embedded * model.width


def _adapter_parameters(model: LlamaShape, task: Lora) -> float:
    return model.layers * len(task.targets) * task.rank * (model.width + max(model.width, model.feed_forward))


def _data_bytes(
    data: SyntheticTokens | SyntheticImages | TokenFileData, model: TransformerShape | LlamaShape | BertShape | VitShape
) -> float:
    if isinstance(data, TokenFileData):
        return float(data.tokens * data.width)
    if isinstance(data, SyntheticImages):
        return float(data.images * 3 * (model.image**2 if isinstance(model, VitShape) else 0))
    wide = not isinstance(model, VitShape) and model.vocabulary > 1 << 16
    return float(data.tokens * (4 if wide else 2))


def _served_bytes(workload: InferenceWorkload) -> float | None:
    """Bytes of a fetched checkpoint, an engine's checkpoint or an export; 0 for engines that generate the weights in memory; None: not declared."""
    if isinstance(workload.model, Checkpoint):
        return 0.0 if isinstance(workload.model, FolderCheckpoint) else workload.model.weights_bytes
    return engine(workload.server.backend).disk_bytes_per_parameter * workload.model.parameters


def scratch_shortage(workload: AnyWorkload, launcher: LauncherBase) -> str | None:
    """Why a declared `ephemeral_storage` (bytes) is too little, or None."""
    declared = launcher.ephemeral_storage
    needed = scratch_needed(workload, cached=launcher.model_access.cache is not None)
    if declared is None or needed is None or needed.total <= declared:
        return None
    parts = {"checkpoints": needed.checkpoints, "data": needed.data, "weights": needed.weights, "caches and probes": needed.caches}
    sizes = ", ".join(f"{name} {size / GIB:.1f} GiB" for name, size in parts.items() if size)
    return (
        f"it needs {needed.total / GIB:.0f} GiB of scratch disk on each node ({sizes}), but launcher.resources.ephemeral_storage is "
        f"{declared / GIB:.4g} GiB; expected more, or the field omitted"
    )


def incompatibility(workload: AnyWorkload, provider: Provider) -> str | None:
    """Why the provider cannot or may not run the workload, or None."""
    return (
        _unsuitable(workload, provider)
        or _missing_engine(workload, provider)
        or provider.launcher.missing(workload)
        or _unmounted_data(workload, provider)
        or scratch_shortage(workload, provider.launcher)
        or (too_large(workload.serving, provider) if workload.serving is not None else None)
    )


def _unmounted_data(workload: AnyWorkload, provider: Provider) -> str | None:
    data = data_of(workload)
    address = "" if data is None or provider.simulated else address_of(data, provider)
    what = (
        f"its task.data is on {address}, which no trial there sees; expected a mount in launcher.volumes, or another place in data_places"
    )
    return what if address.startswith("volume:") else None


def _unsuitable(workload: AnyWorkload, provider: Provider) -> str | None:
    if workload.providers is not None and provider.name not in workload.providers:
        return f"its `providers` allows only {', '.join(sorted(workload.providers))}"
    needs, has = workload.needs, provider.accelerator
    wanted = ("nvidia", "amd") if needs.accelerator == "gpu" else (needs.accelerator,)
    if has.kind not in wanted or needs.count > has.count:
        return f"it needs {needs.count} {needs.accelerator}, but the provider has {has.count} {has.kind}"
    if needs.whole_node and needs.count != has.count:
        return f"it needs whole nodes of {needs.count} {needs.accelerator}, but the provider has {has.count}"
    if (idle := workload.unfilled_by(has.count)) is not None:
        return idle
    return provider.launcher.unsuitable(workload)


def _missing_engine(workload: AnyWorkload, provider: Provider) -> str | None:
    return None if provider.accelerator.kind != "amd" or provider.simulated else workload.refused_by_amd


def reason_to_skip(workload: AnyWorkload, provider: Provider) -> str | None:
    """Why an otherwise suitable workload cannot run: no engine, or too little scratch disk. Else None."""
    if _unsuitable(workload, provider) is not None:
        return None
    why = _missing_engine(workload, provider)
    return why if why is not None or provider.launcher.missing(workload) is not None else scratch_shortage(workload, provider.launcher)


_TITLES = {
    "triton-vllm": "vLLM on GPUs",
    "triton-tensorrtllm": "TensorRT-LLM",
    "triton-openai": "an engine's own server on GPUs",
    "triton-onnxruntime": "ONNX Runtime on GPUs",
}
"""Engines by `engine_name` that were never run on a GPU, with their names. docs/hardware-probes.md has what was measured: training and Triton's
Python backend on one NVIDIA GPU; CPUs."""


def never_run_on(workload: AnyWorkload, provider: Provider) -> str | None:
    """Hardware that the harness itself never ran on, whose first trial may find its mistakes, such as `AMD GPUs, several GPUs`; None without any,
    and for simulations and hosted models."""
    accelerator = provider.accelerator
    if accelerator.kind == "cpu" or provider.simulated or provider.launcher.hosted:
        return None
    kinds = ["AMD GPUs"] if accelerator.kind == "amd" else []
    kinds += [title] if (title := _TITLES.get(workload.engine_name)) is not None else []
    if workload.nodes > 1:
        kinds.append("several nodes of GPUs")
    elif workload.devices_on(accelerator.count) > 1:
        kinds.append("several GPUs")
    return ", ".join(kinds) or None
