"""A whole replica of the model on each rank: gradients are averaged while backward runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from plumbline.harness.training.distributed.waits import Waits


class Replicated:
    """The model as one replica of many (DDP)."""

    casts = False

    def __init__(self, model: nn.Module, reduce_precision: str, device: torch.device) -> None:
        """`model` is on its device already; all ranks call it."""
        self._waits = Waits(device)
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
        self._waits.own_gradients_are_there()
        return self._average(self._everybody, bucket)

    def exposed(self) -> Callable[[], int] | None:
        """How long (ns) the backward that ends now waited for other ranks after this rank's own gradients were all there; asked later.

        The part of the averaging that ran beside the backward is hidden and costs nothing; a slower rank is waited for here too. None
        if nothing was averaged.
        """
        return self._waits.until_now()
