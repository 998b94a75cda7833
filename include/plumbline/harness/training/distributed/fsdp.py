"""Sharded model: FSDP2 over the ranks of a replica, tensor parallelism inside its layers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from plumbline.harness.training.distributed.process_group import GradientWait, MeshLayout
from plumbline.harness.training.learners import Learner

_COMPUTE_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.bfloat16}
_REDUCE_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_COLUMN_WISE = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
_ROW_WISE = ("self_attn.o_proj", "mlp.down_proj")


class FsdpModel:
    """This rank's part of the model. At most a layer, or what surrounds the layers, is whole on the device.

    Weights are fp32; FSDP2 gathers them in the type of the products, so autocast has nothing to do (`casts`). Gradients
    are added up over ranks in the declared type. Replicas beyond the ranks of one average their gradients."""

    def __init__(
        self, learner: Learner, layout: MeshLayout, precision: str, reduce_precision: str, device: torch.device, *, drawn: bool
    ) -> None:
        """`learner`: its model on the CPU; all ranks call it. `drawn`: all ranks use rank 0's weights, else their own."""
        mesh = init_device_mesh(
            device.type, (layout.replicate, layout.shard, layout.tensor), mesh_dim_names=("replicate", "shard", "tensor")
        )
        self.casts = layout.replicate * layout.shard > 1
        data = mesh["replicate", "shard"] if layout.replicate > 1 else mesh["shard"]
        policy = MixedPrecisionPolicy(param_dtype=_COMPUTE_TYPES.get(precision), reduce_dtype=_REDUCE_TYPES[reduce_precision])
        self._comm = _TimedReduceScatter(device)
        for part in (*learner.layers, learner.model):
            part.to(device)
            if drawn:
                _broadcast_from_rank_0(part)
            if layout.tensor > 1 and part is not learner.model:
                _parallelize_layer(part, mesh["tensor"])
            if self.casts:
                fully_shard(part, mesh=data, mp_policy=policy)
        if self.casts:
            for module in learner.model.modules():
                if isinstance(module, FSDPModule):
                    self._comm.watch(module)
        self.replica: nn.Module = learner.model

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Gradients of the block stay on this rank, whole: the step's last backward reduces them with its own. They take the memory of a
        whole model's gradients, and save a reduction for each micro-batch."""
        model = self.replica
        if not isinstance(model, FSDPModule):  # split by tensor alone: there is nothing to reduce
            yield
            return
        model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            model.set_requires_gradient_sync(True)

    def exposed(self) -> Callable[[], int] | None:
        """How long (ns) the backward that ends now waited for gradients to be added up over ranks; asked later. None if it did not.

        On a CPU all of it, as nothing is done beside it. On a GPU from this rank's last gradient to the end; what an earlier layer's
        cost by making a later one wait is part of backward. So is gathering weights, of forward and backward, and, where PyTorch has no
        `set_custom_reduce_scatter` (2.7), the wait itself.
        """
        return self._comm.exposed()


class _TimedReduceScatter:
    """How FSDP2 shares out gradients, with the time that it took. It asks for memory right before, and calls the hook right after."""

    def __init__(self, device: torch.device) -> None:
        self._waits = GradientWait(device)
        self._on_gpu = device.type == "cuda"
        self._began_ns = self._spent_ns = 0

    def watch(self, module: FSDPModule) -> None:
        if not hasattr(module, "set_custom_reduce_scatter"):  # PyTorch 2.7
            return
        module.set_custom_reduce_scatter(self)  # type: ignore[arg-type]  # it asks for no more than these two methods
        if not self._on_gpu:
            module.set_all_reduce_hook(self._ended)

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        if self._on_gpu:
            self._waits.mark_gradients_ready()
        memory = torch.empty(*size, dtype=dtype, device=device)
        self._began_ns = monotonic_ns()
        return memory

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> Any:
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=group, async_op=async_op)

    def _ended(self, reduced: torch.Tensor) -> None:
        self._spent_ns += monotonic_ns() - self._began_ns

    def exposed(self) -> Callable[[], int] | None:
        if self._on_gpu:
            return self._waits.elapsed()
        spent, self._spent_ns = self._spent_ns, 0
        return (lambda: spent) if spent else None


def _broadcast_from_rank_0(module: nn.Module) -> None:
    for tensor in (*module.parameters(), *module.buffers()):
        if not isinstance(tensor, DTensor):
            dist.broadcast(tensor.detach(), src=0)


def _parallelize_layer(layer: nn.Module, mesh: DeviceMesh) -> None:
    """A layer's products by heads and by columns of the MLP: two sums over the ranks in its forward, two in its backward."""
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in _COLUMN_WISE}
    plan |= {name: RowwiseParallel() for name in _ROW_WISE}
    parallelize_module(layer, mesh, plan)
