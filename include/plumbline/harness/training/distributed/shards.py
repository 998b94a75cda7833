"""A part of the model on each rank: FSDP2 over the ranks of a replica, tensor parallel inside its layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from plumbline.harness.training.distributed.layout import Layout
from plumbline.harness.training.distributed.waits import Waits
from plumbline.harness.training.learners import Learner

_MULTIPLIED_IN = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.bfloat16}
_BY_COLUMNS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
_BY_ROWS = ("self_attn.o_proj", "mlp.down_proj")


class Sharded:
    """The model as this rank's part of it. Layer by layer: never is more than a layer, or what lies around the layers, whole on the device.

    Weights are fp32; FSDP2 gathers them in the type that products are taken in and adds gradients up in fp32, so nothing is left for
    autocast to do (`casts`). Replicas beyond the ranks of one average their gradients.
    """

    def __init__(self, learner: Learner, layout: Layout, precision: str, device: torch.device) -> None:
        """`learner`: its model on the CPU, the same on every rank; all ranks call it."""
        mesh = init_device_mesh(
            device.type, (layout.replicate, layout.shard, layout.tensor), mesh_dim_names=("replicate", "shard", "tensor")
        )
        if layout.tensor > 1:
            _split_layers(learner, mesh["tensor"], device)
        self.casts = layout.replicate * layout.shard > 1
        self._comm = _Comm(device)
        if self.casts:
            data = mesh["replicate", "shard"] if layout.replicate > 1 else mesh["shard"]
            kind = _MULTIPLIED_IN.get(precision)
            policy = MixedPrecisionPolicy(param_dtype=kind, reduce_dtype=torch.float32 if kind else None)
            for layer in learner.layers:
                fully_shard(layer, mesh=data, mp_policy=policy)
            fully_shard(learner.model, mesh=data, mp_policy=policy)
            for module in learner.model.modules():
                if isinstance(module, FSDPModule):
                    self._comm.watch(module)
        self.replica: nn.Module = learner.model.to(device)

    def silent(self) -> contextlib.AbstractContextManager[None]:
        """Nothing: gradients of each micro-batch are shared out at once, as keeping them would take the memory that sharding saves."""
        return contextlib.nullcontext()

    def exposed(self) -> Callable[[], int] | None:
        """How long (ns) the backward that ends now waited for gradients to be added up over ranks; asked later. None if it did not.

        On a CPU all of it, as nothing is done beside it. On a GPU from this rank's last gradient to the end; what an earlier layer's
        cost by making a later one wait is part of backward. So is gathering weights, of forward and backward.
        """
        return self._comm.exposed()


class _Comm:
    """How FSDP2 shares out gradients, with the time that it took. It asks for memory right before, and calls the hook right after."""

    def __init__(self, device: torch.device) -> None:
        self._waits = Waits(device)
        self._on_gpu = device.type == "cuda"
        self._began_ns = self._spent_ns = 0

    def watch(self, module: FSDPModule) -> None:
        """Take part in this module's collectives."""
        module.set_custom_reduce_scatter(self)  # type: ignore[arg-type]  # it asks for no more than these two methods
        if not self._on_gpu:
            module.set_all_reduce_hook(self._ended)

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Memory for what goes in, and then for what comes out."""
        if self._on_gpu:
            self._waits.own_gradients_are_there()
        memory = torch.empty(*size, dtype=dtype, device=device)
        self._began_ns = monotonic_ns()
        return memory

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> Any:
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=group, async_op=async_op)

    def _ended(self, reduced: torch.Tensor) -> None:
        self._spent_ns += monotonic_ns() - self._began_ns

    def exposed(self) -> Callable[[], int] | None:
        if self._on_gpu:
            return self._waits.until_now()
        spent, self._spent_ns = self._spent_ns, 0
        return (lambda: spent) if spent else None


def _split_layers(learner: Learner, mesh: DeviceMesh, device: torch.device) -> None:
    """Each layer's products by heads and by columns of the MLP: two sums over the ranks in a layer's forward, two in its backward."""
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in _BY_COLUMNS}
    plan |= {name: RowwiseParallel() for name in _BY_ROWS}
    for layer in learner.layers:
        parallelize_module(layer.to(device), mesh, plan)
