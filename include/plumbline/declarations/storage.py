"""How much scratch disk a trial's pod needs: what the harness writes on one node, from the declared dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plumbline.declarations.architectures import BertShape, HubModel, LlamaShape, TransformerShape, VitShape
from plumbline.declarations.inference import InferenceWorkload
from plumbline.declarations.models import Encoder
from plumbline.declarations.tasks import LanguageModel, Lora
from plumbline.declarations.training import SyntheticImages, SyntheticTokens, TokenFileData, TrainingWorkload

GIB = 2.0**30
_FP32 = 4
_MARGIN = 1.1  # file formats, optimizer steps and random states beside the tensors; the node's file system
_ACCELERATOR = 16 * GIB  # 8 GiB that the disk probe writes, compiled kernels and engines, logs
_CPU = 4 * GIB


@dataclass(frozen=True)
class Scratch:
    """Bytes on the disk of one node, by what they are."""

    checkpoints: float
    data: float
    weights: float
    caches: float

    @property
    def total(self) -> float:
        """With a margin, in whole GiB."""
        return math.ceil((self.checkpoints + self.data + self.weights + self.caches) * _MARGIN / GIB) * GIB


def scratch_of(workload: TrainingWorkload | InferenceWorkload) -> Scratch | None:
    """What a trial of the workload needs; None if its model's size is not declared (a hub model's)."""
    caches = _CPU if workload.needs.accelerator == "cpu" else _ACCELERATOR
    if isinstance(workload, InferenceWorkload):
        return Scratch(0.0, 0.0, _served(workload), caches)
    if workload.pod_deletions:
        return Scratch(0.0, 0.0, 0.0, caches)  # all else outlives the pod: it is on the provider's volume_claim
    model = workload.model
    if isinstance(model, HubModel):
        return None
    count = _parameters(model)
    trained = _adapters(model, workload.task) if isinstance(workload.task, Lora) and isinstance(model, LlamaShape) else count
    # Weights are kept in fp32 in every precision, and so are AdamW's two moments; SGD has none.
    state = _FP32 * (count + trained * (2 if workload.optimizer.name == "adamw" else 0))
    part = min(1.0, workload.parallelism.processes / workload.parallelism.span)
    stored = isinstance(workload.task, Lora) or (isinstance(workload.task, LanguageModel) and workload.task.initial == "stored")
    return Scratch(
        # The next one is written before the oldest is deleted.
        checkpoints=state * part * (workload.checkpoint.keep + 1),
        data=_data(workload.data, model),
        weights=_FP32 * count if stored else 0.0,
        caches=caches,
    )


def _parameters(model: TransformerShape | LlamaShape | BertShape | VitShape) -> float:
    if isinstance(model, TransformerShape | LlamaShape):
        return model.parameters
    # Their embeddings and heads beside the products; norms and biases are within the margin.
    embedded = model.vocabulary + model.context if isinstance(model, BertShape) else model.tokens + model.classes
    return model.matmul_parameters + embedded * model.width


def _adapters(model: LlamaShape, task: Lora) -> float:
    return model.layers * len(task.targets) * task.rank * (model.width + max(model.width, model.feed_forward))


def _data(data: SyntheticTokens | SyntheticImages | TokenFileData, model: TransformerShape | LlamaShape | BertShape | VitShape) -> float:
    if isinstance(data, TokenFileData):
        return float(data.tokens * data.width)
    if isinstance(data, SyntheticImages):
        return float(data.images * 3 * (model.image**2 if isinstance(model, VitShape) else 0))
    wide = not isinstance(model, VitShape) and model.vocabulary > 1 << 16
    return float(data.tokens * (4 if wide else 2))


def _served(workload: InferenceWorkload) -> float:
    """The model's files: TensorRT-LLM has a checkpoint and an engine, tensor backends an export; the others draw weights in memory."""
    backend, model = workload.server.backend, workload.model
    if backend == "tensorrtllm":
        return 2.0 * 2 * model.parameters
    return float(_FP32 * model.parameters) if backend in ("onnxruntime", "pytorch") and isinstance(model, Encoder) else 0.0


def shortage(workload: TrainingWorkload | InferenceWorkload, declared: float | None) -> str | None:
    """Why a declared `ephemeral_storage` (bytes) is too little for the workload, with both numbers; None if it is enough or computed."""
    needed = scratch_of(workload)
    if declared is None or needed is None or needed.total <= declared:
        return None
    parts = {"checkpoints": needed.checkpoints, "data": needed.data, "weights": needed.weights, "caches and probes": needed.caches}
    shown = ", ".join(f"{name} {size / GIB:.1f} GiB" for name, size in parts.items() if size)
    return (
        f"it needs {needed.total / GIB:.0f} GiB of scratch disk on each node ({shown}), and the provider declares {declared / GIB:.4g} GiB "
        "(launcher.resources.ephemeral_storage); expected more, or the field left out"
    )
