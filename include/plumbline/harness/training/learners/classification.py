"""Images into classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from plumbline.harness.training import models
from plumbline.harness.training.dataset.images import Images
from plumbline.harness.training.learners import Learner, Samples
from plumbline.harness.training.plan import WorkerSpec


class Classification(Learner):
    """Samples: images uint8 (samples, 3, edge, edge), which the device makes numbers of, and classes int64 (samples)."""

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        self.model, self.weights_load_s = models.initial(spec.model, attention=spec.attention, weights=spec.weights, draws=spec.draws)
        self._images = Images(
            spec.data,
            classes=spec.model["classes"],
            images=spec.micro * spec.accumulation,
            seed=spec.seed,
            replica=replica,
            replicas=replicas,
        )

    @property
    def layers(self) -> Sequence[nn.Module]:
        return models.layers(self.model)

    def batch(self, step: int) -> Samples:
        images, classes = self._images.of(step)
        return torch.from_numpy(images), torch.from_numpy(classes)

    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        images, classes = samples
        return F.cross_entropy(model(images).float(), classes)


def build(spec: WorkerSpec, replica: int, replicas: int) -> Classification:
    """See `learner_of`."""
    return Classification(spec, replica, replicas)
