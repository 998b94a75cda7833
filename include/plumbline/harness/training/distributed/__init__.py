"""What makes one rank of many out of a trainer. The same code for gloo on CPUs and NCCL on GPUs; imported only where there are several.

rendezvous  the store through which ranks find each other
layout      which ranks hold one replica of the model together
peers       the process groups of one rank
replicas    a whole replica on each rank, gradients averaged (DDP)
shards      a part of it on each rank: weights, gradients and optimizer state (FSDP2), matrix products (tensor parallel)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn

from plumbline.harness.training.distributed.layout import layout_of
from plumbline.harness.training.distributed.peers import Peers, lost_a_peer
from plumbline.harness.training.distributed.rendezvous import serve
from plumbline.harness.training.learners import Learner
from plumbline.harness.training.plan import Group, WorkerSpec

__all__ = ["Parallel", "Peers", "lost_a_peer", "parallel_of", "serve"]


class Parallel(Protocol):
    """The model as this rank holds it."""

    replica: nn.Module
    """What the loop calls."""
    casts: bool
    """Whether it sees to the types that products are taken in; otherwise the loop does."""

    def silent(self) -> contextlib.AbstractContextManager[None]:
        """A micro-batch that is not the last of its step: its gradients stay on this rank until the last one's are reduced with them."""

    def exposed(self) -> Callable[[], int] | None:
        """How long (ns) the backward that ends now waited for other ranks, asked later; None if it did not wait."""


def parallel_of(spec: WorkerSpec, group: Group, learner: Learner, device: torch.device) -> Parallel:
    """Spread the learner's model over the ranks as declared, with the weights that rank 0 drew.

    All ranks call it, once they have joined, and before the optimizer is made.
    """
    # Each brings its own part of torch along, which the other would pay for with a slower start.
    if spec.sharded:
        from plumbline.harness.training.distributed.shards import Sharded

        return Sharded(
            learner,
            layout_of(spec, group),
            spec.precision,
            spec.parallelism["reduce_precision"],
            device,
            drawn=spec.weights is None and not spec.resume,
        )
    from plumbline.harness.training.distributed.replicas import Replicated

    return Replicated(learner.model.to(device), spec.parallelism["reduce_precision"], device)
