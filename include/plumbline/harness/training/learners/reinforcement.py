"""Generate, then update: groups of answers to each prompt, rewarded, and one policy-gradient step on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from plumbline.harness.training import models
from plumbline.harness.training.dataset.tokens import Batches, successors
from plumbline.harness.training.learners import Learner, Samples
from plumbline.harness.training.plan import WorkerSpec

_EVEN = 1e-6


class Reinforcement(Learner):
    """Samples: prompts int64 (answers, prompt) and the chance of each token to come, uniform in [0, 1), float32 (answers, generate).

    Prepared: prompts with their answers int64 (answers, sequence), advantages and rewards float32 (answers). All chance comes with the
    batch: a step that is done again after a restart gives the same answers.
    """

    generates = True

    def __init__(self, spec: WorkerSpec, replica: int, replicas: int) -> None:
        self.model, self.weights_load_s = models.initial(spec.model, attention=spec.attention, weights=spec.weights, draws=spec.draws)
        task, answers = spec.task, spec.micro * spec.accumulation
        self._prompt: int = task["prompt"]
        self._generate: int = task["generate"]
        self._group: int = task["group"]
        self._temperature: float = task["temperature"]
        self._answers = answers
        if spec.data.seed is None:
            raise ValueError("reinforcement on data that nobody generated: the reward is unknown; expected data.source synthetic")
        self._successors = torch.from_numpy(successors(spec.model["vocabulary"], spec.data.seed))
        self._batches = Batches(
            spec.data,
            sequences=answers // self._group,
            sequence=self._prompt - 1,
            seed=spec.seed,
            replica=replica,
            replicas=replicas,
        )

    @property
    def layers(self) -> Sequence[nn.Module]:
        return models.layers(self.model)

    def batch(self, step: int) -> Samples:
        prompts = np.repeat(self._batches.of(step), self._group, axis=0)
        chance = self._batches.random(step, stream=1).random((self._answers, self._generate), dtype=np.float32)
        return torch.from_numpy(prompts), torch.from_numpy(chance)

    def prepared(self, model: nn.Module, samples: Samples) -> Samples:
        prompts, chance = samples
        with torch.no_grad():
            ids = self._answered(model, prompts, chance)
            rewards = self._rewards(ids)
            groups = rewards.view(-1, self._group)
            spread = groups.std(dim=1, correction=0, keepdim=True)
            advantages = (groups - groups.mean(dim=1, keepdim=True)) / (spread + _EVEN)
        return ids, advantages.flatten(), rewards

    def _answered(self, model: nn.Module, prompts: Tensor, chance: Tensor) -> Tensor:
        """Prompts and the answers that the model draws, token by token."""
        ids, cache = prompts, models.new_cache(self.model)
        unseen = prompts
        for position in range(self._generate):
            logits = (model(ids) if cache is None else model(unseen, cache))[:, -1]
            ladder = torch.softmax(logits.float() / self._temperature, dim=-1).cumsum(dim=-1)
            # The ladder's last rung is 1 but for rounding; measured by it, no chance falls off its end.
            drawn = torch.searchsorted(ladder, chance[:, position, None] * ladder[:, -1:], right=True)
            unseen = drawn.clamp(max=ladder.shape[1] - 1)
            ids = torch.cat([ids, unseen], dim=1)
        return ids

    def _rewards(self, ids: Tensor) -> Tensor:
        """Share of each answer's tokens that the text's own process could have written after the token before them: (answers)."""
        self._successors = self._successors.to(ids.device)
        possible = self._successors[ids[:, self._prompt - 1 : -1]]
        return (possible == ids[:, self._prompt :, None]).any(dim=-1).float().mean(dim=1)

    def loss(self, model: nn.Module, samples: Samples) -> Tensor:
        """Its gradient is the policy's; its value is 1 - the mean reward, which falls as the answers get better.

        The value of what is differentiated says nothing: advantages of a group add up to 0.
        """
        ids, advantages, rewards = samples
        logits = model(ids[:, :-1])[:, self._prompt - 1 :].float() / self._temperature
        chosen = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, self._prompt :, None]).squeeze(-1)
        objective = -(advantages[:, None] * chosen).mean()
        return objective - objective.detach() + (1.0 - rewards.mean())


def build(spec: WorkerSpec, replica: int, replicas: int) -> Reinforcement:
    """See `learner_of`."""
    return Reinforcement(spec, replica, replicas)
