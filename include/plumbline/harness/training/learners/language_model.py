"""Next-token prediction."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from plumbline.harness.training import models
from plumbline.harness.training.dataset.tokens import Batches
from plumbline.harness.training.learners import Learner, Samples
from plumbline.harness.training.plan import WorkerSpec


class LanguageModel(Learner):
    """Samples: token ids int64 (samples, sequence + 1); inputs are all but the last column, targets all but the first.

    Only the last `responses` targets of a sequence count: what comes before is the prompt.
    """

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        self.model, self.weights_load_s = models.initial(spec.model, attention=spec.attention, weights=spec.weights, draws=spec.draws)
        share = float(spec.task["response_share"].removesuffix("%")) / 100
        self._responses = max(1, round(share * spec.sequence))
        self._batches = Batches(
            spec.data,
            sequences=spec.micro * spec.accumulation,
            sequence=spec.sequence,
            seed=spec.seed,
            replica=replica,
            replicas=replicas,
        )

    @property
    def layers(self) -> Sequence[nn.Module]:
        return models.layers(self.model)

    def batch(self, step: int) -> Samples:
        return (torch.from_numpy(self._batches.of(step)),)

    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        (ids,) = samples
        logits, targets = model(ids[:, :-1]), ids[:, 1:]
        if self._responses < targets.shape[1]:
            # Cut before they are made fp32, and only where there is something to cut, since backward copies what was cut: logits are the
            # largest tensor of a step.
            logits, targets = logits[:, -self._responses :], targets[:, -self._responses :]
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def build(spec: WorkerSpec, replica: int, replicas: int) -> LanguageModel:
    """See `learner_of`."""
    return LanguageModel(spec, replica, replicas)
