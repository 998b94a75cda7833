"""What is trained, and for what: a learner owns the model, its batches and its loss; the trainer owns the loop.

language_model   next-token prediction, from random or stored weights, on all tokens or on responses alone
lora             the same, of low-rank adapters alone
contrastive      pairs of texts
classification   images
reinforcement    generate, then update
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from plumbline.harness.training.plan import WorkerSpec

Samples = tuple[Tensor, ...]
"""Tensors whose first dimension counts samples, in the order that `Learner.loss` takes them."""


class Learner(ABC):
    """One replica's part in a task. Built alike on every rank, but that rank 0 alone draws weights: the others have them once the model is
    spread over the ranks."""

    model: nn.Module
    """What is trained, on the CPU until the loop moves it."""
    weights_load_s: float | None = None
    """Seconds that loading stored weights took; None if they were drawn."""
    generates: bool = False
    """Whether `prepared` does anything."""

    @property
    @abstractmethod
    def layers(self) -> Sequence[nn.Module]:
        """The model's repeated layers: what is sharded, checkpointed and compiled one by one."""

    @abstractmethod
    def batch(self, step: int) -> Samples:
        """The samples of one step of this replica, on the CPU: micro × accumulation of them."""

    def prepared(self, model: nn.Module, samples: Samples) -> Samples:
        """What must happen to the samples of a step, on the device, before the loss can be taken (answers being generated). No gradients.

        `model` is the replica as the loop wraps it.
        """
        return samples

    @abstractmethod
    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        """The mean loss (scalar, fp32) of a micro-batch; `model` is the replica as the loop wraps it."""


def learner_of(spec: WorkerSpec, replica: int, replicas: int) -> Learner:
    """The learner for these orders, on the CPU; `replica` of `replicas` decides which part of the data it sees.

    Each learner's module has one: it is imported only when its task is trained, since some bring heavy libraries along.
    """
    kind = spec.task["kind"]
    learner: Learner = import_module(f"{__name__}.{kind}").build(spec, replica, replicas)
    return learner
