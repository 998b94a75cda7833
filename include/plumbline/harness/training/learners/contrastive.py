"""Pairs of texts: each text's partner is to be found among the partners of all texts of the micro-batch (InfoNCE)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from plumbline.harness.training import models
from plumbline.harness.training.dataset.pairs import Pairs
from plumbline.harness.training.learners import Learner, Samples
from plumbline.harness.training.plan import WorkerSpec


class Contrastive(Learner):
    """Samples: token ids int64 (pairs, 2, sequence)."""

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        self.model, self.weights_load_s = models.initial(spec.model, attention=spec.attention, weights=spec.weights, draws=spec.draws)
        self._temperature: float = spec.task["temperature"]
        self._pairs = Pairs(
            spec.data, pairs=spec.micro * spec.accumulation, sequence=spec.sequence, seed=spec.seed, replica=replica, replicas=replicas
        )

    @property
    def layers(self) -> Sequence[nn.Module]:
        return models.layers(self.model)

    def batch(self, step: int) -> Samples:
        return (torch.from_numpy(self._pairs.of(step)),)

    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        (pairs,) = samples
        # One call for both: a replica whose gradients are averaged is called once for each backward.
        vectors = F.normalize(model(pairs.flatten(0, 1)).float(), dim=-1).view(len(pairs), 2, -1)
        likeness = vectors[:, 0] @ vectors[:, 1].T / self._temperature
        return F.cross_entropy(likeness.float(), torch.arange(len(pairs), device=pairs.device))


def build(spec: WorkerSpec, replica: int, replicas: int) -> Contrastive:
    """See `learner_of`."""
    return Contrastive(spec, replica, replicas)
