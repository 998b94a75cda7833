"""Whether a checkpoint fits a provider: weights and KV cache against the memory of the accelerators that serve it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from plumbline.declarations.providers import Accelerator, Provider
from plumbline.declarations.workloads.checkpoints import Checkpoint
from plumbline.declarations.workloads.inference import InferenceWorkload
from plumbline.metrics.formatting import format_bytes, format_percent

_GIB = 2.0**30
_IN_NAME = re.compile(r"(\d+)\s?GB", re.IGNORECASE)
_USABLE = 0.9
"""Of an accelerator's memory: engines leave the rest to activations and CUDA (vLLM's gpu_memory_utilization)."""


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
        """Of one sequence as long as the context."""
        return (self.kv_per_token or 0) * (self.context or 0)

    @property
    def full_sequences(self) -> int:
        """Sequences as long as the context that the cache holds at a time, at most the declared ones."""
        room = self.memory * _USABLE - self.weights
        return self.sequences if not self.cache_of_one else max(0, min(self.sequences, int(room // self.cache_of_one)))

    @property
    def fits(self) -> bool:
        """Whether the weights and one sequence as long as the context do; engines refuse to start otherwise."""
        return self.weights + self.cache_of_one <= self.memory * _USABLE

    @property
    def arithmetic(self) -> str:
        """Such as `weights 15.0 GiB + KV cache 128 KiB × 8,192 tokens × 64 sequences (64.0 GiB) = 79.0 GiB of 90 % of 80.0 GiB × 1 (…)`."""
        parts, total = [f"weights {format_bytes(self.weights)}"], self.weights
        if self.cache_of_one and self.kv_per_token and self.context:
            held = self.cache_of_one * self.sequences
            total += held
            shown = f"{format_bytes(self.kv_per_token)} × {self.context:,} tokens × {self.sequences} sequences"
            parts.append(f"KV cache {shown} ({format_bytes(held)})")
        return f"{' + '.join(parts)} = {format_bytes(total)} of {format_percent(_USABLE)} of {format_bytes(int(self.each))} × {self.count} ({self.product})"


def model_fit(workload: InferenceWorkload, provider: Provider) -> ModelFit | None:
    """None if the model's size, the accelerator's memory or the machine is unknown, as of a hosted model."""
    model = workload.model
    if not isinstance(model, Checkpoint) or model.weights_bytes is None or provider.launcher.hosted:
        return None
    parallel = workload.server.parallel
    # Each copy of data parallelism holds all weights.
    accelerator, count = provider.accelerator, workload.accelerators // (parallel.data if parallel else 1)
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
    """Bytes of one: as declared, as its product's name has it, or as gpuhunt knows the product; None otherwise."""
    if accelerator.memory is not None:
        declared: float = accelerator.memory
        return declared
    product = accelerator.product
    if product is None:
        return None
    named = _IN_NAME.search(product)
    return float(named[1]) * _GIB if named else _known_memory(re.sub(r"[^a-z0-9]", "", product.lower()))


@cache
def _known_memory(product: str) -> float | None:
    try:
        import gpuhunt
    except ImportError:  # an image of a trial has none
        return None
    known = [*gpuhunt.KNOWN_NVIDIA_GPUS, *gpuhunt.KNOWN_AMD_GPUS]
    found = [(len(gpu.name), float(gpu.memory)) for gpu in known if gpu.name.lower() in product]
    return max(found)[1] * _GIB if found else None
