"""One rank of a job of several: the parallel model, by DDP or FSDP2. The same code for gloo on CPUs and NCCL on GPUs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Union

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from plumbline.harness.training.distributed.process_group import GradientWait, MeshLayout, RankGroups, mesh_layout
from plumbline.harness.training.learners import Learner
from plumbline.harness.training.worker_protocol import ProcessGroupSpec, WorkerSpec

if TYPE_CHECKING:
    from plumbline.harness.training.distributed.fsdp import FsdpModel

__all__ = ["MeshLayout", "ParallelModel", "RankGroups", "mesh_layout", "parallelize"]


ParallelModel = Union["DdpModel", "FsdpModel"]
"""The model as this rank holds it."""


def parallelize(spec: WorkerSpec, group: ProcessGroupSpec, learner: Learner, device: torch.device) -> ParallelModel:
    """Spread the learner's model over the ranks as declared, with the weights that rank 0 drew.

    All ranks call it, once they have joined, and before the optimizer is made.
    """
    # Each brings its own part of torch along, which the other would pay for with a slower start.
    if spec.sharded:
        from plumbline.harness.training.distributed.fsdp import FsdpModel

        return FsdpModel(
            learner,
            mesh_layout(spec, group),
            spec.precision,
            spec.parallelism["reduce_precision"],
            device,
            drawn=spec.weights is None and not spec.resume,
        )

    return DdpModel(learner.model.to(device), spec.parallelism["reduce_precision"], device)


class DdpModel:
    """The model as one replica of many (DDP). `replica` is the module that the loop calls; `casts`: whether it sees to the types that products are taken in,
    otherwise the loop does."""

    casts = False

    def __init__(self, model: nn.Module, reduce_precision: str, device: torch.device) -> None:
        """`model` is on its device already; all ranks call it."""
        self._waits = GradientWait(device)
        self._average = bf16_compress_hook if reduce_precision == "bf16" else allreduce_hook
        everybody = dist.group.WORLD
        assert everybody is not None
        self._everybody = everybody
        replica = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None, gradient_as_bucket_view=True)
        replica.register_comm_hook(None, self._reduce)
        self.replica: nn.Module = replica
        self._quiet: Callable[[], contextlib.AbstractContextManager[None]] = replica.no_sync

    def silent(self) -> contextlib.AbstractContextManager[None]:
        """Gradients of the block stay on this rank: they are added up until the last micro-batch of a step."""
        return self._quiet()

    # Without annotations: DDP compares them with the classes themselves, and here they are strings.
    def _reduce(self, _, bucket):  # type: ignore[no-untyped-def]
        """Called for each bucket once this rank's gradients in it are there; the last call of a backward is what the wait counts from."""
        self._waits.mark_gradients_ready()
        return self._average(self._everybody, bucket)

    def exposed(self) -> Callable[[], int] | None:
        """Only the part of the averaging after this rank's last gradient counts; a slower rank is waited for here too. None if nothing was averaged."""
        return self._waits.elapsed()
